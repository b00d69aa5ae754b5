"""The checkpoints of a run: which to keep, and where to resume."""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.config import TrainingConfig
from keras_transformer.utils.checkpoint_files import (
    OTHER_METRICS,
    Position,
    best_first,
    damage,
    load_checkpoint,
    position_of,
    read_arrays,
    save_checkpoint,
    score_of,
)
from keras_transformer.utils.files import whole_file

log = logging.getLogger(__name__)

_LOG = "log-"
_STEPS_KEPT = 2
"""Checkpoints of an epoch in progress: if the newest is damaged, there is another."""


class Checkpoints:
    """Keep the state after the last epochs, after the best, and after steps of the current one.

    A file holds the weights, the state of the optimizer and a checksum, and gets its name only when
    it is complete. The names of one epoch are links to one file, where the file system has links.
    All knowledge of earlier epochs is in the files, so a run can resume from them.

    Args:
        directory: Directory of files such as epoch-0012.weights.h5, step-0013-000400.weights.h5 for
            step 400 of the next epoch, and best-0007-bleu-31.4159.weights.h5.
        keep: Number of last epochs to keep.
        patience: Number of epochs, and so of validations, without a better one after which training
            stops; by default it never stops early.
        keep_best: Number of best epochs to keep, by the score that selects. By each of
            `OTHER_METRICS`, one is kept.
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

    def best(self, metric: str | None = None) -> list[Path]:
        """Return the checkpoints of the best epochs that are kept, best first; see `best_first`."""
        return best_first(self.directory, metric)[: 1 if metric else self.keep_best]

    def missing(self, epochs: int, scores: Sequence[float], *, last: bool) -> list[Path]:
        """Return which of the best epochs, or also of the last ones, have no checkpoint.

        Args:
            epochs: The number of epochs that are trained.
            scores: The score of each epoch from the first; empty if they are not known.
            last: Whether to look for the last epochs too.
        """
        ranking = sorted(range(len(scores)), key=lambda index: -round(scores[index], 4))
        found = {position_of(path).epochs for path in best_first(self.directory)}
        needed = [1 + index for index in ranking[: self.keep_best]]
        names = [f"best-{epoch:04d}-*" for epoch in needed if epoch not in found]
        if last:
            found = {position_of(path).epochs for path in self._files("epoch")}
            needed = list(range(max(1, epochs - self.keep + 1), epochs + 1))
            names += [f"epoch-{epoch:04d}" for epoch in needed if epoch not in found]
        return [self.directory / f"{name}.weights.h5" for name in names]

    def newest(self) -> Path | None:
        """Return the checkpoint of an epoch or a step to resume from, or None if there is none."""
        return max(self._files("epoch", "step"), default=None, key=position_of)

    def position(self) -> Position:
        """Return how far the run is, by its newest checkpoint."""
        newest = self.newest()
        return position_of(newest) if newest else Position(0, 0)

    def _files(self, *kinds: str) -> list[Path]:
        """Return the checkpoints of epochs, of steps or of the best epochs, oldest first."""
        paths = (path for kind in kinds for path in self.directory.glob(f"{kind}-*.weights.h5"))
        return sorted(paths, key=position_of)

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
        """Return whether the last `patience` epochs were no better than the best one.

        They are compared by NLL while the score that selects is 0, as in the first epochs.
        """
        best = self.best()
        if best and not score_of(best[0]):
            best = self.best("nll") or best
        if self.patience is None or not best:
            return False
        return self.position().epochs - position_of(best[0]).epochs >= self.patience

    def save_epoch(
        self,
        model: keras.Model,
        epoch: int,
        scores: Mapping[str, float] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        """Save the state after an epoch, and remove what it makes superfluous.

        Args:
            model: The model.
            epoch: The epoch, counted from 1.
            scores: Its validation scores by name: the one that selects, and some of
                `OTHER_METRICS`. An epoch without a score is never the best.
            arrays: What else to save; see `save_checkpoint`.
        """
        names = []
        for name, score in (scores or {}).items():
            best = self.best(name if name in OTHER_METRICS else None)
            sign, score = -1 if name == "nll" else 1, round(score, 4)  # As in the file's name.
            kept = 1 if name in OTHER_METRICS else self.keep_best
            if len(best) < kept or sign * score > sign * score_of(best[-1]):
                names.append(f"best-{epoch:04d}-{name}-{score:.4f}.weights.h5")
        # An epoch counts as complete when it has its own file, after those of the best.
        first, *others = [*names, f"epoch-{epoch:04d}.weights.h5"]
        saved = self._save(model, first, arrays)
        for name in others:
            _link(saved, saved.with_name(name))
        self._remove_stale(epoch, names)

    def _remove_stale(self, epoch: int, names: Sequence[str]) -> None:
        """Remove what the checkpoints of an epoch, the best ones by name, make superfluous."""
        stale = [*self._files("epoch")[: -self.keep], *self._files("step")]
        for metric in (None, *OTHER_METRICS):
            ranking = best_first(self.directory, metric)
            stale += ranking[1 if metric else self.keep_best :]
            again = [path for path in ranking if position_of(path).epochs == epoch]
            if any(path.name in names for path in again):
                stale += [path for path in again if path.name not in names]
        for path in stale:
            path.unlink(missing_ok=True)

    def save_step(
        self, model: keras.Model, epoch: int, step: int, arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Save the state after a step of an epoch, both counted from 1; see `EpochState.arrays`."""
        self._save(model, f"step-{epoch:04d}-{step:06d}.weights.h5", arrays)
        for path in self._files("step")[:-_STEPS_KEPT]:
            path.unlink()

    def _save(self, model: keras.Model, name: str, arrays: Mapping[str, np.ndarray] | None) -> Path:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / name
        save_checkpoint(model, path, arrays)
        return path


def _link(path: Path, new: Path) -> None:
    """Give a file another name, or copy it where the file system has no links."""
    with whole_file(new) as temporary:
        try:
            os.link(path, temporary)
        except OSError:
            shutil.copyfile(path, temporary)


def run_checkpoints(directory: Path, training: TrainingConfig) -> Checkpoints:
    """Return the checkpoints of a run, which keeps those that it averages.

    With another average than of the last epochs it keeps two of these, in case one is damaged.
    """
    keep = {"last": 2, "best": 1, training.average: training.average_checkpoints}
    last, best = keep["last"], keep["best"]
    return Checkpoints(directory / "checkpoints", last, training.patience, keep_best=best)


def arrays_of_logs(logs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the logs of an epoch as arrays, for `save_checkpoint`; see `logs_of`."""
    return {f"{_LOG}{name}": np.float64(value) for name, value in logs.items()}


def logs_of(checkpoint: Path) -> dict[str, float]:
    """Return the logs of an epoch in its checkpoint, if there are any."""
    arrays = read_arrays(checkpoint)
    return {n.removeprefix(_LOG): float(a) for n, a in sorted(arrays.items()) if n.startswith(_LOG)}
