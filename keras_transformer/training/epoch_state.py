"""The callback that makes epochs reproducible."""

import time
from pathlib import Path

import keras
import numpy as np

from keras_transformer.data import TokenBatches
from keras_transformer.training.checkpoint_directory import Checkpoints
from keras_transformer.training.checkpoints import read_arrays
from keras_transformer.training.epoch_progress import dropout_states, restore_progress
from keras_transformer.training.logs import Logs


class EpochState(keras.callbacks.Callback):
    """Make the batches and the dropout of an epoch depend only on the seed and the epoch.

    A run that resumes on the same number of replicas and cores then takes the steps that it would
    have taken uninterrupted; Keras does not save the state of random number generators with the
    weights. An epoch of which steps are done continues after them, with their metrics.

    The logs of an epoch get `tokens_per_second` of training, in source and target tokens without
    padding.

    Args:
        batches: The training text, with the seed.
        checkpoints: Those of the run.

    Attributes:
        epoch: The epoch in progress, from 0.
        step: The number of its steps that are done.
    """

    def __init__(self, batches: TokenBatches, checkpoints: Checkpoints):
        super().__init__()
        self.batches = batches
        self.checkpoints = checkpoints
        self.epoch = self.step = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        newest, position = self.checkpoints.newest(), self.checkpoints.position()
        self.epoch, self.step = epoch, position.steps if position.epochs == epoch else 0
        self.batches.epoch, self.batches.step = self.epoch, self.step
        random = np.random.default_rng((self.batches.seed, epoch))
        for variable in dropout_states(self.model):
            variable.assign(random.integers(2**31, size=variable.shape))
        self._started = time.perf_counter()
        if newest and self.step:
            arrays = read_arrays(newest)
            self._check_text(newest, arrays)
            restore_progress(self.model, arrays)
            self._started -= float(arrays["seconds"])

    def text(self) -> dict[str, np.ndarray]:
        """Return what tells the training text from another, for `save_checkpoint`."""
        return {"text": np.array([len(self.batches), self.batches.tokens])}

    def _check_text(self, path: Path, arrays: dict[str, np.ndarray]) -> None:
        if "text" in arrays and not np.array_equal(arrays["text"], self.text()["text"]):
            expected, received = (
                f"{batches:,.0f} batches and {tokens:,.0f} tokens per epoch"
                for batches, tokens in (arrays["text"], self.text()["text"])
            )
            raise ValueError(
                f"An epoch goes on with the text it began with, of {expected}, received "
                f"{received}. Restore the training text and the version of this package that it "
                f"began with, or remove {path} to begin the epoch again."
            )

    def seconds(self) -> float:
        """Return the time that the epoch has taken, in all processes that have trained in it."""
        return time.perf_counter() - self._started

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.step = batch + 1

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["tokens_per_second"] = self.batches.tokens / self.seconds()
