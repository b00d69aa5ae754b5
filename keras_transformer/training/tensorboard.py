"""TensorBoard summaries of a run: curves, sample translations and attention."""

import importlib.util
import logging
import math
import tempfile
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.data.languages import without_tag
from keras_transformer.plots import attention_grid, save_figure, sentence_attention
from keras_transformer.plots.style import glyphs_lacking
from keras_transformer.training.progress import Readings
from keras_transformer.training.validation import SELECTING, Validation

log = logging.getLogger(__name__)

_SAMPLES = 5
"""Number of validation sentences whose translations are shown."""
_PAUSE = 60.0
"""Seconds from one picture to the next at least: drawing one takes about half a second."""


class Summaries(keras.callbacks.Callback):
    """Write TensorBoard summaries, with the step of the run as the x axis.

    These are the rows of `Readings`; after each epoch also the scores of the validation, the
    translations of a few of its sentences, and, if matplotlib is installed and at most once a
    minute, the attention from the reference translation to the source of the first sentence.

    Put it after the other two callbacks. With label smoothing, the training loss is named
    smoothed_loss.
    """

    def __init__(
        self,
        directory: Path,
        readings: Readings,
        validation: Validation,
        label_smoothing: float = 0,
    ):
        super().__init__()
        self.directory = directory
        self.readings = readings
        self.validation = validation
        self.loss_name = "smoothed_loss" if label_smoothing else "loss"
        self.writer: tf.summary.SummaryWriter | None = None
        self.drawn: float | None = None
        self.has_warned = False
        full = [i for i, pair in enumerate(validation.pairs) if pair[0].strip()]
        places = np.linspace(0, max(0, len(full) - 1), min(_SAMPLES, len(full)))
        self.samples = [full[round(place)] for place in places]

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if row := self.readings.row:
            left_out = ("step", "epoch", "seconds")
            values = {name: value for name, value in row.items() if name not in left_out}
            values[self.loss_name] = values.pop("loss")
            self._write({f"training/{name}": value for name, value in values.items()})

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        nll = logs["val_nll"]
        values = {
            "validation/nll": nll,
            "validation/perplexity": math.exp(min(nll, 99)),
            "validation/accuracy": logs["val_accuracy"],
        }
        for score in SELECTING.values():
            for name, value in logs.items():
                if name == score or name.startswith(f"{score}_"):
                    values[name.replace(score, f"validation/{score[4:]}_greedy")] = value
        writer = self._write(values)
        with writer.as_default(step=self.readings.step):
            tf.summary.text("translations", self._table())
            if self._is_time_to_draw():
                tf.summary.image("attention", self._attention())
        writer.flush()

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None  # The rest of a run may be another `fit`.

    def _write(self, values: dict[str, float]) -> tf.summary.SummaryWriter:
        if self.writer is None:
            self.writer = tf.summary.create_file_writer(str(self.directory))
        with self.writer.as_default(step=self.readings.step):
            for name, value in values.items():
                tf.summary.scalar(name, value)
        return self.writer

    def _table(self) -> str:
        """Return the samples as a table in Markdown."""
        lines = ["| source | reference | translation |", "|---|---|---|"]
        for place in self.samples:
            texts = (*self.validation.pairs[place], self.validation.translations[place])
            cells = (" ".join(text.replace("|", "\\|").split()) for text in texts)
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def _is_time_to_draw(self) -> bool:
        if not self.samples or importlib.util.find_spec("matplotlib") is None:
            return False
        now = time.monotonic()
        if self.drawn is not None and now - self.drawn < _PAUSE:
            return False
        self.drawn = now
        return True

    def _attention(self) -> tf.Tensor:
        """Return an image [1, height, width, 3] of attention, with the same tokens every time."""
        source, target = self.validation.pairs[self.samples[0]]
        if self.validation.data.directions:
            source = without_tag(source)
        found = sentence_attention(self.validation.translator, source, target)
        with tempfile.TemporaryDirectory() as folder, glyphs_lacking() as lacking:
            path = Path(folder) / "attention.png"
            save_figure(attention_grid(found.cross, found.source, found.written), path)
            image = tf.io.decode_png(path.read_bytes(), channels=3)[tf.newaxis]
        if lacking and not self.has_warned:
            log.warning("the attention has boxes for characters that matplotlib's font lacks")
            self.has_warned = True
        return image
