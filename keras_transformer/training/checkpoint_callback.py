"""The checkpoints of a run: which to keep, and where to resume."""

import logging
from pathlib import Path

import keras

from keras_transformer.training.callbacks import Logs
from keras_transformer.training.checkpoints import damage, load_checkpoint, save_checkpoint

log = logging.getLogger(__name__)


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
