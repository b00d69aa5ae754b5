"""What a person sees of a run: a line that moves at a terminal, and lines of a log elsewhere."""

import math
import sys
import time
from typing import Any

import keras
from tqdm import tqdm

from keras_transformer.training.logs import Logs
from keras_transformer.training.readings import Readings
from keras_transformer.training.scores import SELECTING

_REFRESH = 0.25
"""Seconds between two states of the line at a terminal."""
_INTERVAL = 60.0
"""Seconds between two lines elsewhere."""
_BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"


class Progress(keras.callbacks.Callback):
    """Print where a run is: within an epoch, and the scores after each epoch.

    At a terminal one line moves: steps of the epoch, tokens per second, loss, perplexity of the
    last validation, learning rate, gradient norm, and the time left for the whole run. Elsewhere
    there is a line with the same values every minute. Standard output gets all of them.

    Put it after `Readings` and after the callback that validates.

    Args:
        readings: The readings of the run.
        label_smoothing: Label smoothing of the training loss. The loss is then named "smoothed",
            because the NLL of the validation, which is not, is lower.
    """

    def __init__(self, readings: Readings, label_smoothing: float = 0.0):
        super().__init__()
        self.readings = readings
        self.loss_name = "smoothed loss" if label_smoothing else "loss"
        self.perplexity: float | None = None
        self.bar: tqdm | None = None
        self._shown = time.perf_counter()

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        if sys.stdout.isatty():
            self.bar = tqdm(
                desc=self._place(),
                total=self.readings.steps_per_epoch,
                initial=self.readings.step - epoch * self.readings.steps_per_epoch,
                bar_format=_BAR,
                dynamic_ncols=True,
                file=sys.stdout,
                leave=False,
            )

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        now = time.perf_counter()
        if now - self._shown < (_INTERVAL if self.bar is None else _REFRESH):
            return
        self._shown = now
        of_epoch = self.readings.steps_per_epoch
        step = self.readings.step - (self.readings.epoch - 1) * of_epoch
        values = self._values(logs or {})
        if self.bar is None:
            print(f"{self._place()}, step {step:,} of {of_epoch:,}: {values}", flush=True)
        else:
            self.bar.n = step
            self.bar.set_postfix_str(values)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.close()
        logs = logs or {}
        parts = [f"{self.loss_name} {logs['loss']:.3f}"] if "loss" in logs else []
        if "val_nll" in logs:
            self.perplexity = math.exp(min(logs["val_nll"], 99))
            parts.append(f"val_nll {logs['val_nll']:.3f} (perplexity {self.perplexity:.4g})")
        if "val_accuracy" in logs:
            parts.append(f"val_accuracy {logs['val_accuracy']:.3f}")
        parts += [f"{n} {logs[n]:.2f} (greedy)" for n in SELECTING.values() if n in logs]
        parts += [f"{n} {v:.2f}" for n, v in logs.items() if n.startswith("val_bleu_")]
        parts += self._pace()
        print(f"{self._place()}: {', '.join(parts)}", flush=True)
        self._shown = time.perf_counter()

    def close(self) -> None:
        """Remove the line that moves."""
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _place(self) -> str:
        return f"epoch {self.readings.epoch} of {self.readings.epochs}"

    def _values(self, logs: dict[str, Any]) -> str:
        """Return the values of a step; what a narrow terminal should show is first."""
        values = [f"{self.loss_name} {logs['loss']:.3f}"] if "loss" in logs else []
        values += self._pace()
        values.append(f"lr {self.readings.learning_rate:.3g}")
        if "gradient_norm" in logs:
            values.append(f"gradient norm {logs['gradient_norm']:.3g}")
        if self.perplexity is not None:
            values.append(f"val perplexity {self.perplexity:.4g}")
        return ", ".join(values)

    def _pace(self) -> list[str]:
        speed = [f"{self.readings.tokens_per_second:,.0f} tokens/s"]
        left = self.readings.seconds_left()
        return speed if left is None else [*speed, f"{duration(left)} left"]


def duration(seconds: float) -> str:
    """Return a time for people.

    >>> duration(7), duration(754), duration(45296), duration(200000)
    ('0:07', '12:34', '12:34:56', '2 d 7 h')
    """
    whole = round(seconds)
    if whole >= 2 * 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600} h"
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
