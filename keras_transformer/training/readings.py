"""What a run measures while it trains: loss, learning rate, gradient norm, speed and time left."""

import math
import time
from typing import Any

import keras

from keras_transformer.training.logs import Logs

_STEPS, _SECONDS = 100, 60.0
"""A row is made after this many steps or seconds, whichever comes first."""


class Readings(keras.callbacks.Callback):
    """Measure a run, and make a row of values every 100 steps and at least every minute.

    Put it before callbacks that take time, such as a validation, and before those that read it.

    Args:
        epochs: Number of epochs of the run.
        steps_per_epoch: Number of steps of every epoch.
        tokens_per_step: Mean number of source and target tokens of a step, without padding.

    Attributes:
        epoch: Number of the current epoch, from 1.
        step: Number of steps of the run that have been made.
        done: Number of steps of the next epoch that are made already. To resume, set it before
            `fit`.
        row: Values of the step that has just ended; None at most steps. They are `step`, `epoch`,
            `loss` (the training loss, a mean since the last row), `learning_rate`, `gradient_norm`
            of the step if the logs have it, `tokens_per_second`, and `seconds` since the last row.
    """

    def __init__(self, epochs: int, steps_per_epoch: int, tokens_per_step: float):
        super().__init__()
        self.epochs = epochs
        self.steps_per_epoch = steps_per_epoch
        self.tokens_per_step = tokens_per_step
        self.epoch, self.step = 0, 0
        self.done = 0
        self.row: dict[str, float] | None = None
        self._began: float | None = None
        self._first_step_seconds: float | None = None  # It is slow: TensorFlow traces it.
        # Numbers and seconds of the other steps: of this process, and up to the last row.
        self._steps, self._busy = 0, 0.0
        self._row_steps, self._row_busy = 0, 0.0
        self._epochs_ended = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.epoch, self.step = epoch + 1, epoch * self.steps_per_epoch + self.done
        self.done = 0
        if self._began is None:
            self._began = self._last_row = time.perf_counter()
        self._loss_before = self._loss_sums()

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        self._step_began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        now = time.perf_counter()
        self.step += 1
        if self._first_step_seconds is None:
            self._first_step_seconds = now - self._step_began
        else:
            self._steps += 1
            self._busy += now - self._step_began
        is_last = self.step == self.epoch * self.steps_per_epoch
        is_due = self.step % _STEPS == 0 or now - self._last_row >= _SECONDS
        self.row = self._make_row(now, logs or {}) if is_last or is_due else None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._epochs_ended += 1

    def _make_row(self, now: float, logs: dict[str, Any]) -> dict[str, float]:
        speed = self._speed(self._steps - self._row_steps, self._busy - self._row_busy)
        row = {
            "step": self.step,
            "epoch": self.epoch,
            "loss": self._loss_since(),
            "learning_rate": self.learning_rate,
            **{name: logs[name] for name in ("gradient_norm",) if name in logs},
            "tokens_per_second": round(speed, 1),
            "seconds": now - self._last_row,
        }
        self._last_row, self._row_steps, self._row_busy = now, self._steps, self._busy
        return row

    def _loss_since(self) -> float:
        """Return the mean loss since the last row. Keras has that since the epoch began."""
        total, count = self._loss_sums()
        total_before, count_before = self._loss_before
        self._loss_before = total, count
        return (total - total_before) / (count - count_before) if count > count_before else math.nan

    def _loss_sums(self) -> tuple[float, float]:
        metric = next(metric for metric in self.model.metrics if metric.name == "loss")
        return self._local_sum(metric.total), self._local_sum(metric.count)

    def _local_sum(self, variable: keras.Variable) -> float:
        """Return the sum over the replicas of this machine; other machines don't take part here."""
        parts = self.model.distribute_strategy.experimental_local_results(variable.value)
        return sum(float(part.numpy()) for part in parts)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return _number(self.model.optimizer.learning_rate)

    @property
    def tokens_per_second(self) -> float:
        """Source and target tokens a second in the steps of this process, without validation."""
        return self._speed(self._steps, self._busy)

    def _speed(self, steps: int, seconds: float) -> float:
        if not steps:  # There was only the first step.
            steps, seconds = 1, self._first_step_seconds or float("inf")
        return self.tokens_per_step * steps / seconds

    def seconds_left(self) -> float | None:
        """Return the time that the rest of the run takes, with validations once there was one.

        Returns:
            Seconds, or None before there is anything to tell from.
        """
        if not self._steps or self._began is None or self._first_step_seconds is None:
            return None
        pace = self._busy / self._steps
        if self._epochs_ended:
            elsewhere = time.perf_counter() - self._began - self._busy - self._first_step_seconds
            pace += elsewhere / (self._steps + 1)
        return pace * (self.epochs * self.steps_per_epoch - self.step)


def _number(variable: Any) -> float:
    """Return the value of a tensor, or of a variable with a copy on each replica."""
    return float(keras.ops.convert_to_numpy(variable))
