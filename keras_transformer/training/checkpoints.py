"""The checkpoints of a run: which to keep, and where to resume."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from keras_transformer.config import TrainingConfig
from keras_transformer.training.checkpoint_files import damage, load_checkpoint, save_checkpoint

log = logging.getLogger(__name__)

_STEPS_KEPT = 2
"""Checkpoints of an epoch in progress: if the newest is damaged, there is another."""


class Position(NamedTuple):
    """How far a run is: the epochs that are complete, and the steps of the one after them."""

    epochs: int
    steps: int

    def __str__(self) -> str:
        if self.steps:
            return f"step {self.steps} of epoch {self.epochs + 1}"
        return f"epoch {self.epochs}"


class Checkpoints:
    """Keep the state after the last epochs, after the best, and after steps of the current one.

    A file holds the weights, the state of the optimizer and a checksum, and gets its name only when
    it is complete. All knowledge of earlier epochs is in the files, so a run can resume from them.

    Args:
        directory: Directory of files such as epoch-0012.weights.h5, step-0013-000400.weights.h5 for
            step 400 of the next epoch, and best-0007-bleu-31.4159.weights.h5.
        keep: Number of last epochs to keep.
        patience: Number of epochs, and so of validations, without a better one after which training
            stops; by default it never stops early.
        keep_best: Number of best epochs to keep.
    """

    def __init__(self, directory: Path, keep: int, patience: int | None = None, keep_best: int = 1):
        self.directory = directory
        self.keep = keep
        self.patience = patience
        self.keep_best = keep_best

    def set_aside_damaged(self) -> None:
        """Rename damaged checkpoints, with a warning, until the newest is whole.

        The run then resumes from that one, and repeats the steps after it.

        Raises:
            ValueError: If all checkpoints are damaged; none is renamed.
        """
        damaged: dict[Path, str] = {}
        for path in reversed(self._files("epoch", "step")):
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
            message = (
                "%s is damaged (%s): it is %s now, and the steps after the checkpoint before it "
            )
            log.warning(message + "are repeated", path, reason, aside.name)

    def last(self) -> list[Path]:
        """Return the checkpoints of the last `keep` epochs, oldest first."""
        return self._files("epoch")[-self.keep :]

    def best(self) -> list[Path]:
        """Return the checkpoints of the `keep_best` best epochs, best first."""
        return self._best_first()[: self.keep_best]

    def _best_first(self) -> list[Path]:
        # Of equal ones, the first epoch is the best.
        return sorted(self._files("best"), key=_score, reverse=True)

    def missing(self, epochs: int, scores: Sequence[float], *, last: bool) -> list[Path]:
        """Return which of the best epochs, or also of the last ones, have no checkpoint.

        Args:
            epochs: The number of epochs that are trained.
            scores: The score of each epoch from the first; empty if they are not known.
            last: Whether to look for the last epochs too.
        """
        ranking = sorted(range(len(scores)), key=lambda index: -round(scores[index], 4))
        names = [f"best-{1 + index:04d}-*" for index in ranking[: self.keep_best]]
        if last:
            first = max(1, epochs - self.keep + 1)
            names += [f"epoch-{epoch:04d}" for epoch in range(first, epochs + 1)]
        patterns = [f"{name}.weights.h5" for name in names]
        return [self.directory / name for name in patterns if not any(self.directory.glob(name))]

    def newest(self) -> Path | None:
        """Return the checkpoint of an epoch or a step to resume from, or None if there is none."""
        return max(self._files("epoch", "step"), default=None, key=_position)

    def position(self) -> Position:
        """Return how far the run is, by its newest checkpoint."""
        newest = self.newest()
        return _position(newest) if newest else Position(0, 0)

    def _files(self, *kinds: str) -> list[Path]:
        """Return the checkpoints of epochs, of steps or of the best epochs, oldest first."""
        paths = (path for kind in kinds for path in self.directory.glob(f"{kind}-*.weights.h5"))
        return sorted(paths, key=_position)

    def restore(self, model: keras.Model) -> None:
        """Load the newest state, if there is one, into a compiled model.

        Raises:
            ValueError: If the checkpoint is damaged, belongs to another architecture, or has NaN or
                infinite values.
        """
        if newest := self.newest():
            model.optimizer.build(model.trainable_variables)
            load_checkpoint(model, newest)

    def out_of_patience(self) -> bool:
        """Return whether the last `patience` epochs were no better than the best one."""
        best = self.best()
        if self.patience is None or not best:
            return False
        return self.position().epochs - _position(best[0]).epochs >= self.patience

    def save_epoch(
        self,
        model: keras.Model,
        epoch: int,
        score: float | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
        *,
        metric: str = "bleu",
    ) -> None:
        """Save the state after an epoch, and remove what it makes superfluous.

        Args:
            model: The model.
            epoch: The epoch, counted from 1.
            score: Its validation score. An epoch without one is never the best.
            arrays: What else to save; see `save_checkpoint`.
            metric: What the score is, for the name of the file.
        """
        if score is not None:  # An epoch counts as complete when it has its own file, after this.
            best, score = self.best(), round(score, 4)  # As in the file's name.
            if len(best) < self.keep_best or score > _score(best[-1]):
                new = self._save(model, f"best-{epoch:04d}-{metric}-{score:.4f}", arrays)
                again = self.directory.glob(f"best-{epoch:04d}-*.weights.h5")
                for path in {*again, *self._best_first()[self.keep_best :]} - {new}:
                    path.unlink()
        self._save(model, f"epoch-{epoch:04d}", arrays)
        for path in [*self._files("epoch")[: -self.keep], *self._files("step")]:
            path.unlink()

    def save_step(
        self, model: keras.Model, epoch: int, step: int, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Save the state after a step of an epoch, both counted from 1.

        Args:
            model: The model.
            epoch: The epoch.
            step: The step in the epoch.
            arrays: What else a run needs to resume there; see `progress_of`.
        """
        self._save(model, f"step-{epoch:04d}-{step:06d}", arrays)
        for path in self._files("step")[:-_STEPS_KEPT]:
            path.unlink()

    def _save(self, model: keras.Model, name: str, arrays: Mapping[str, np.ndarray] | None) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{name}.weights.h5"
        save_checkpoint(model, path, arrays)
        return path


def _position(path: Path) -> Position:
    kind, epoch, *rest = path.name.removesuffix(".weights.h5").split("-")
    return Position(int(epoch) - 1, int(rest[0])) if kind == "step" else Position(int(epoch), 0)


def _score(path: Path) -> float:
    return float(path.name.removesuffix(".weights.h5").split("-")[3])


def run_checkpoints(directory: Path, training: TrainingConfig) -> Checkpoints:
    """Return the checkpoints of a run, which keeps those that it averages.

    With another average than of the last epochs it keeps two of these, in case one is damaged.
    """
    keep = {"last": 2, "best": 1, training.average: training.average_checkpoints}
    last, best = keep["last"], keep["best"]
    return Checkpoints(directory / "checkpoints", last, training.patience, keep_best=best)
