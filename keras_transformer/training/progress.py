"""What a run measures while it trains, and the line or the log in which a person sees it."""

import collections
import math
import statistics
import sys
import time
from typing import Any

import keras
from tqdm import tqdm

from keras_transformer.training.resume import EpochState, RunLimit
from keras_transformer.training.validation import SELECTING

_STEPS, _SECONDS = 100, 60.0
"""A row is made after this many steps or seconds, whichever comes first."""
_COMPILING = 10
"""A step over this many times as long as others is one that TensorFlow traces or XLA compiles."""
_REFRESH = 0.25
"""Seconds between two states of the line at a terminal."""
_INTERVAL, _FIRST = 60.0, 10.0
"""Seconds between two lines elsewhere, and before the first one, which says how long is left."""
_BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}{postfix}"


class Readings(keras.callbacks.Callback):
    """Measure a run, and make a row every 100 steps, every minute and at the end of an epoch.

    Put it after those that count, before callbacks that take time, such as a validation, and before
    those that read it.

    Attributes:
        row: Values of the step that has just ended; None at most steps. They are `step`, `epoch`,
            `loss` (the training loss, a mean since the last row), `learning_rate`, `gradient_norm`
            of the step if the logs have it, `tokens_per_second`, and `seconds` since the last row.
    """

    def __init__(self, epochs: int, state: EpochState, limit: RunLimit):
        super().__init__()
        self.epochs = epochs
        self.state = state
        self.limit = limit
        self.row: dict[str, float] | None = None
        self._first_step_seconds: float | None = None  # It is slow: TensorFlow traces it.
        # Numbers and seconds of the other steps: of this process, and up to the last row.
        self._steps, self._busy = 0, 0.0
        self._row_steps, self._row_busy = 0, 0.0
        self._recent: collections.deque[float] = collections.deque(maxlen=_STEPS)
        # What follows the steps of an epoch: how often, when it began, and how long it took before.
        self._epochs_ended = 0
        self._ended_at: float | None = None
        self._validating = 0.0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.perf_counter()
        if self._ended_at is None:
            self._last_row = now
        else:
            self._validating += now - self._ended_at
            self._ended_at = None
        self._loss_before = self._loss_sums()

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._step_began = time.perf_counter()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.perf_counter()
        if self._first_step_seconds is None:
            self._first_step_seconds = now - self._step_began
        else:
            self._steps += 1
            self._busy += now - self._step_began
            self._recent.append(now - self._step_began)
        is_due = self.step % _STEPS == 0 or now - self._last_row >= _SECONDS
        self.row = self._make_row(now, logs or {}) if is_due or self.state.is_over else None

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epochs_ended += 1
        self._ended_at = time.perf_counter()

    def _make_row(self, now: float, logs: dict[str, Any]) -> dict[str, float]:
        speed = self._speed(self._steps - self._row_steps, self._busy - self._row_busy)
        row = {
            "step": self.step,
            "epoch": self.state.epoch + 1,
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
    def step(self) -> int:
        """Number of steps of the run that have been made."""
        return self.limit.steps

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))

    @property
    def tokens_per_second(self) -> float:
        """Source and target tokens a second in the steps of this process, without validation."""
        return self._speed(self._steps, self._busy)

    def _speed(self, steps: int, seconds: float) -> float:
        if not steps:  # There was only the first step.
            steps, seconds = 1, self._first_step_seconds or float("inf")
        batches = self.state.batches
        return batches.tokens / len(batches) * steps / seconds

    def seconds_left(self) -> float | None:
        """Return the time that the rest of the run takes, with validations once there was one.

        Returns:
            Seconds, or None before there is anything to tell from.
        """
        if not self._recent:
            return None
        steps_per_epoch = len(self.state.batches)
        to_make = (self.epochs - self.state.epoch) * steps_per_epoch - self.state.step
        steps = min(to_make, self.limit.steps_left())
        longest = _COMPILING * statistics.median(self._recent)
        seconds = steps * statistics.mean(s for s in self._recent if s < longest)
        if self._epochs_ended:
            validating = self._validating
            if self._ended_at is not None:
                validating += time.perf_counter() - self._ended_at
            validations = math.ceil(steps / steps_per_epoch)
            seconds += validations * validating / self._epochs_ended
        return min(seconds, self.limit.seconds_left())


class Progress(keras.callbacks.Callback):
    """Print where a run is: within an epoch, and the scores after each epoch.

    At a terminal one line moves: steps of the epoch, tokens per second, loss, perplexity of the
    last validation, learning rate, gradient norm, and the time left for the whole run. Elsewhere
    there is a line with the same values every minute. Standard output gets all of them.

    Put it after `Readings` and after the callback that validates. With label smoothing, the loss is
    named "smoothed", because the NLL of the validation, which is not, is lower.
    """

    def __init__(self, readings: Readings, label_smoothing: float = 0.0):
        super().__init__()
        self.readings = readings
        self.loss_name = "smoothed loss" if label_smoothing else "loss"
        self.perplexity: float | None = None
        self.bar: tqdm | None = None
        self._shown = time.perf_counter() + _FIRST - _INTERVAL

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if sys.stdout.isatty():
            self.bar = tqdm(
                desc=self._place(),
                total=len(self.readings.state.batches),
                initial=self.readings.state.step,
                bar_format=_BAR,
                dynamic_ncols=True,
                file=sys.stdout,
                leave=False,
            )

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        now = time.perf_counter()
        is_early = now - self._shown < (_INTERVAL if self.bar is None else _REFRESH)
        if is_early or (self.bar is None and self.readings.seconds_left() is None):
            return
        self._shown = now
        step, of_epoch = self.readings.state.step, len(self.readings.state.batches)
        values = self._values(logs or {})
        if self.bar is None:
            print(f"{self._place()}, step {step:,} of {of_epoch:,}: {values}", flush=True)
        else:
            self.bar.n = step
            self.bar.set_postfix_str(values)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.close()
        logs = logs or {}
        parts = [f"{self.loss_name} {logs['loss']:.3f}"] if "loss" in logs else []
        if "val_nll" in logs:
            self.perplexity = math.exp(min(logs["val_nll"], 99))
            parts.append(f"val_nll {logs['val_nll']:.3f} (perplexity {self.perplexity:.4g})")
        if "val_accuracy" in logs:
            parts.append(f"val_accuracy {logs['val_accuracy']:.3f}")
        noise = f" ±{logs['val_noise']:.2f}" if "val_noise" in logs else ""
        parts += [f"{n} {logs[n]:.2f}{noise} (greedy)" for n in SELECTING.values() if n in logs]
        parts += [f"val_chrf {logs['val_chrf']:.2f}"] if "val_chrf" in logs else []
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
        return f"epoch {self.readings.state.epoch + 1} of {self.readings.epochs}"

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
        speed, left = self.readings.tokens_per_second, self.readings.seconds_left()
        pace = [f"{speed:,.0f} tokens/s"] if speed else []  # A process may only validate.
        return pace if left is None else [*pace, f"{duration(left)} left"]


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
