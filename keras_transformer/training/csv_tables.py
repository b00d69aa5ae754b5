"""The tables of a run: epochs.csv with a row for each epoch, metrics.csv with rows in between."""

import csv
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras

from keras_transformer.training.checkpoints import Checkpoints, logs_of
from keras_transformer.training.progress import Readings
from keras_transformer.utils.checkpoint_files import position_of
from keras_transformer.utils.files import whole_file

log = logging.getLogger(__name__)


def read_history(directory: str | os.PathLike) -> dict[str, list[float]]:
    """Read the metrics of every epoch of a run from its epochs.csv.

    Args:
        directory: The run directory.

    Returns:
        A list for each metric, such as "loss" and "val_bleu", with one value per epoch; "epoch"
        counts from 1, also for a file of version 0.1, which counts from 0.

    Raises:
        FileNotFoundError: If the directory has no epochs.csv.
        ValueError: If the file is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as run:
    ...     _ = Path(run, "epochs.csv").write_text("epoch,val_bleu\\n1,3.5\\n2,18.25\\n")
    ...     read_history(run)
    {'epoch': [1.0, 2.0], 'val_bleu': [3.5, 18.25]}
    """
    return _columns(read_table(Path(directory) / "epochs.csv", "epoch"))


def read_metrics(directory: str | os.PathLike) -> dict[str, list[float]]:
    """Read what a run measured within its epochs, from its metrics.csv.

    Args:
        directory: The run directory.

    Returns:
        A list for each of "step", "epoch", "loss" (of training, a mean since the last row),
        "learning_rate", "tokens_per_second", "seconds" (of the run, validation included) and others
        that were logged, with one value per row. There is a row every 100 steps, every minute and
        at the end of each epoch.

    Raises:
        FileNotFoundError: If the directory has no metrics.csv, as with version 0.1.
        ValueError: If the file is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as run:
    ...     _ = Path(run, "metrics.csv").write_text("step,loss\\n100,6.5\\n200,5.25\\n")
    ...     read_metrics(run)
    {'step': [100.0, 200.0], 'loss': [6.5, 5.25]}
    """
    return _columns(read_table(Path(directory) / "metrics.csv", "step"))


def _columns(rows: Sequence[Mapping[str, str]]) -> dict[str, list[float]]:
    return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def read_table(path: Path, key: str) -> list[dict[str, str]]:
    """Return the rows of a table, the last one where a value of the first column, `key`, recurs.

    Lines that were cut off when the machine went down are left out. Epochs of a table of version
    0.1, which counts from 0, are counted from 1.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged.
    """
    try:
        with open(path, newline="", encoding="utf-8") as file:
            whole = [row for row in csv.DictReader(file) if None not in row and all(row.values())]
        rows = {int(row[key]): row for row in whole}
        for row in whole:
            for value in row.values():
                float(value)
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(
            f"{path} is damaged: {error}. Remove the line, or the file, which a run doesn't need."
        ) from error
    if key == "epoch" and 0 in rows:
        return [{**row, key: str(epoch + 1)} for epoch, row in rows.items()]
    return list(rows.values())


class Table:
    """A CSV file that grows by rows of numbers, and loses at most the last one in a crash.

    Its first column, `key`, has whole numbers that grow.
    """

    def __init__(self, path: Path, key: str):
        self.path = path
        self.key = key
        self.names: list[str] = []

    def go_on_after(self, last: int) -> dict[str, str] | None:
        """Keep the rows up to a value of the first column, and return the last of them.

        A file that is damaged is renamed, with a warning.
        """
        try:
            rows = read_table(self.path, self.key) if self.path.exists() else []
        except ValueError as error:
            aside = self.path.rename(self.path.with_name(f"damaged-{self.path.name}"))
            log.warning("%s It is %s now, and a new table begins.", error, aside.name)
            rows = []
        rows = [row for row in rows if int(row[self.key]) <= last]
        self.names = list(rows[0]) if rows else []
        if rows or self.path.exists():
            self._write(rows)
        return rows[-1] if rows else None

    def add(self, row: Mapping[str, Any]) -> None:
        """Append a row. Rows from before have NaN in columns that are new."""
        if new := [name for name in row if name not in self.names]:
            rows = read_table(self.path, self.key) if self.names else []
            self.names = [*self.names, *new]
            self._write([*rows, row])
            return
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            self._writer(file).writerow(row)

    def _write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        with whole_file(self.path) as temporary:
            with open(temporary, "w", newline="", encoding="utf-8") as file:
                if self.names:
                    self._writer(file).writeheader()
                self._writer(file).writerows(rows)

    def _writer(self, file: Any) -> "csv.DictWriter[str]":
        return csv.DictWriter(file, self.names, restval="nan", lineterminator="\n")


class EpochTable(keras.callbacks.Callback):
    """Write epochs.csv, with epochs counted from 1: the logs of each epoch.

    Put it after the callbacks that add to the logs, and after the one that saves the epoch: if a
    process ends between the two, the next one takes the row from the checkpoint. Epochs that are
    trained again replace their rows.
    """

    def __init__(self, path: Path, checkpoints: Checkpoints):
        super().__init__()
        self.table = Table(path, "epoch")
        last = self.table.go_on_after(checkpoints.position().epochs)
        for saved in checkpoints.last()[-1:]:
            epoch = position_of(saved).epochs
            if int(last["epoch"] if last else 0) < epoch and (logs := logs_of(saved)):
                self.table.add({"epoch": epoch, **logs})

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.table.add({"epoch": epoch + 1, **dict(sorted((logs or {}).items()))})


class MetricsTable(keras.callbacks.Callback):
    """Write metrics.csv: the rows of `Readings`, which is before it in the list of callbacks.

    Steps that are trained again replace their rows.
    """

    def __init__(self, path: Path, readings: Readings):
        super().__init__()
        self.table = Table(path, "step")
        self.readings = readings
        self.seconds: float | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.seconds is None:
            last = self.table.go_on_after(self.readings.step)
            self.seconds = float(last["seconds"]) if last else 0.0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if row := self.readings.row:
            self.seconds = (self.seconds or 0.0) + row["seconds"]
            self.table.add({**row, "seconds": round(self.seconds, 3)})
