"""Callbacks of a training run: reproducible epochs, validation, logs and checkpoints."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data import TokenBatches
from keras_transformer.evaluation import score
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.training.checkpoints import damage, load_checkpoint, save_checkpoint
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)

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


class Validation(keras.callbacks.Callback):
    """Add the validation metrics of each epoch to its logs.

    These are `val_nll` and `val_accuracy`, per token of the reference translations; `val_bleu` of
    greedy translations; `learning_rate`; and `tokens_per_second` of training, in source and target
    tokens without padding.

    Args:
        batches: The validation text as token batches.
        pairs: The validation text, for BLEU.
        translator: A greedy translator of the model that trains.
        tokens: Number of tokens in an epoch of training.
    """

    def __init__(
        self,
        batches: TokenBatches,
        pairs: Sequence[tuple[str, str]],
        translator: Translator,
        tokens: float,
    ):
        super().__init__()
        self.dataset = batches.dataset()
        self.pairs = pairs
        self.translator = translator
        self.tokens = tokens
        self.nll = NegativeLogLikelihood()
        self.accuracy = TokenAccuracy()
        self.update = tf.function(self._update, reduce_retracing=True)

    def _update(self, inputs, labels):
        logits = self.translator.model(inputs, training=False)
        self.nll.update_state(labels, logits)
        self.accuracy.update_state(labels, logits)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        seconds = time.perf_counter() - self.started
        values = {
            "tokens_per_second": self.tokens / seconds,
            "learning_rate": float(self.model.optimizer.learning_rate),
            **self.measure(),
        }
        if logs is not None:
            logs.update(values)

    def measure(self) -> dict[str, float]:
        """Return `val_nll`, `val_accuracy` and `val_bleu` of the current weights."""
        self.nll.reset_state()
        self.accuracy.reset_state()
        for inputs, labels in self.dataset:
            self.update(inputs, labels)
        hypotheses = self.translator([source for source, _ in self.pairs])
        return {
            "val_nll": float(self.nll.result()),
            "val_accuracy": float(self.accuracy.result()),
            "val_bleu": score(hypotheses, [target for _, target in self.pairs]).bleu,
        }


class EpochTable(keras.callbacks.CSVLogger):
    """Write epochs.csv with epochs counted from 1, as in the progress bar."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch + 1, logs)


class EpochSummaries(keras.callbacks.TensorBoard):
    """Write TensorBoard summaries with epochs counted from 1, as in the progress bar."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        super().on_epoch_end(epoch + 1, logs)


class Checkpoints(keras.callbacks.Callback):
    """Keep the state after the last epochs and after the best one, by validation BLEU.

    A file holds the weights, the state of the optimizer and a checksum, and gets its name only when
    it is complete. All knowledge of earlier epochs is in the files, so a run can resume from them.

    Args:
        directory: Directory of files such as epoch-0012.weights.h5 and
            best-0007-bleu-31.4159.weights.h5.
        keep: Number of last epochs to keep.
        patience: Number of epochs without a better one after which training stops; by default it
            never stops early.
    """

    def __init__(self, directory: Path, keep: int, patience: int | None = None):
        super().__init__()
        self.directory = directory
        self.keep = keep
        self.patience = patience

    def set_aside_damaged(self) -> None:
        """Rename damaged checkpoints, with a warning, until the last epoch's is whole.

        The run then resumes from that one, and repeats the epochs after it.

        Raises:
            ValueError: If all checkpoints of epochs are damaged; none is renamed.
        """
        damaged: dict[Path, str] = {}
        for path in reversed(self._of_epochs()):
            if (reason := damage(path)) is None:
                break
            damaged[path] = reason
        else:
            if damaged:
                raise ValueError(
                    f"A run needs a whole checkpoint to resume from, received {len(damaged)} in "
                    f"{self.directory}, all damaged: {', '.join(path.name for path in damaged)}. "
                    "Restore one, or remove them to start the run again."
                )
        for path, reason in damaged.items():
            aside = path.rename(path.with_name(f"damaged-{path.name}"))
            log.warning(
                "%s is damaged (%s): it is %s now, and its epoch is repeated",
                path,
                reason,
                aside.name,
            )

    def last(self) -> list[Path]:
        """Return the checkpoints of the last `keep` epochs, oldest first."""
        return self._of_epochs()[-self.keep :]

    def _of_epochs(self) -> list[Path]:
        return sorted(self.directory.glob("epoch-*.weights.h5"), key=_epoch)

    def best(self) -> Path | None:
        """Return the checkpoint of the best epoch, or None before the first epoch has ended."""
        return max(self.directory.glob("best-*.weights.h5"), default=None, key=_bleu)

    def epochs(self) -> int:
        """Return the number of epochs that are complete."""
        return max(map(_epoch, self._of_epochs()), default=0)

    def restore(self, model: keras.Model) -> None:
        """Load the state after the last epoch, if there is one, into a compiled model.

        Raises:
            ValueError: If the checkpoint is damaged, is of another architecture, or has values that
                are NaN or infinite.
        """
        if last := self.last():
            model.optimizer.build(model.trainable_variables)
            load_checkpoint(model, last[-1])

    def out_of_patience(self) -> bool:
        """Return whether the last `patience` epochs were no better than the best one."""
        best = self.best()
        if self.patience is None or best is None:
            return False
        return self.epochs() - _epoch(best) >= self.patience

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        bleu, best = round((logs or {})["val_bleu"], 4), self.best()  # As in the file's name.
        # The best comes first: an epoch counts as complete when it has its own file.
        if best is None or bleu > _bleu(best):
            new = self._save(f"best-{epoch + 1:04d}-bleu-{bleu:.4f}")
            for path in self.directory.glob("best-*.weights.h5"):
                if path != new:
                    path.unlink()
        self._save(f"epoch-{epoch + 1:04d}")
        for path in self._of_epochs()[: -self.keep]:
            path.unlink()
        if self.out_of_patience():
            self.model.stop_training = True

    def _save(self, name: str) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.weights.h5"
        save_checkpoint(self.model, path)
        return path


def _epoch(path: Path) -> int:
    return int(path.name.removesuffix(".weights.h5").split("-")[1])


def _bleu(path: Path) -> float:
    return float(path.name.removesuffix(".weights.h5").split("-")[3])
