"""Callbacks of a training run: reproducible epochs and logs."""

from typing import Any

import keras
import numpy as np

from keras_transformer.data import TokenBatches

Logs = dict[str, Any] | None


class EpochSeed(keras.callbacks.Callback):
    """Make the batches and the dropout of an epoch depend only on the seed and the epoch.

    A run that resumes on the same number of replicas and cores then takes the steps that it would
    have taken uninterrupted; Keras does not save the state of random number generators with the
    weights.

    Args:
        batches: The training text, with the seed.
    """

    def __init__(self, batches: TokenBatches):
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.batches.epoch = epoch
        random = np.random.default_rng((self.batches.seed, epoch))
        for variable in self.model.non_trainable_variables:
            if variable.name == "seed_generator_state":
                variable.assign(random.integers(2**31, size=variable.shape))


class EpochTable(keras.callbacks.CSVLogger):
    """Write epochs.csv with epochs counted from 1, as in the progress bar."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch + 1, logs)


class EpochSummaries(keras.callbacks.TensorBoard):
    """Write TensorBoard summaries with epochs counted from 1, as in the progress bar."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch + 1, logs)
