"""Where a run is in its epoch and in its limits: counted, saved, and gone on from."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.config import TrainingConfig
from keras_transformer.data import TokenBatches
from keras_transformer.training.averaging import MovingAverage
from keras_transformer.training.checkpoints import Checkpoints, arrays_of_logs
from keras_transformer.utils.checkpoint_files import OTHER_METRICS, not_finite, read_arrays


class EpochState(keras.callbacks.Callback):
    """Count the steps of an epoch, whose batches and dropout depend only on the seed and the epoch.

    A run that resumes on the same number of replicas and cores then takes the steps that it would
    have taken uninterrupted; Keras does not save the state of random number generators with the
    weights. An epoch of which steps are done continues after them, with their metrics.

    The logs of an epoch get `tokens_per_second` of training, in source and target tokens without
    padding. Put it before all callbacks that ask it where the run is.

    Attributes:
        epoch: The epoch in progress, from 0.
        step: The number of its steps that are done.
    """

    def __init__(self, batches: TokenBatches, checkpoints: Checkpoints):
        super().__init__()
        self.batches = batches
        self.checkpoints = checkpoints
        self.epoch = self.step = self._steps_before = 0

    @property
    def is_over(self) -> bool:
        """Whether the epoch has all its steps, or a limit ends it with this one."""
        return self.step == len(self.batches) or self.model.stop_training

    def step_of(self, batch: int) -> int:
        """Return the step of the epoch, from 1, that a batch of this `fit`, from 0, makes."""
        return self._steps_before + batch + 1

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        newest, position = self.checkpoints.newest(), self.checkpoints.position()
        self.epoch, self.step = epoch, position.steps if position.epochs == epoch else 0
        self._steps_before = self.step
        self.batches.epoch, self.batches.step = self.epoch, self.step
        random = np.random.default_rng((self.batches.seed, epoch))
        for variable in dropout_states(self.model):
            variable.assign(random.integers(2**31, size=variable.shape))
        self._started = time.perf_counter()
        if newest and self.step:
            arrays = read_arrays(newest)
            if "text" in arrays:
                self._check_text(arrays["text"], newest)
            restore_progress(self.model, arrays)
            self._started -= float(arrays["seconds"])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what resuming in this epoch needs besides weights, for `save_checkpoint`."""
        seconds = {"seconds": np.float64(self._seconds())}
        return {**seconds, "text": self._text(), **progress_of(self.model)}

    def _text(self) -> np.ndarray:
        """Return what distinguishes the training text from another."""
        return np.array([len(self.batches), self.batches.tokens])

    def _check_text(self, before: np.ndarray, path: Path) -> None:
        if not np.array_equal(before, self._text()):
            expected, received = (
                f"{batches:,.0f} batches and {tokens:,.0f} tokens per epoch"
                for batches, tokens in (before, self._text())
            )
            raise ValueError(
                f"An epoch goes on with the text it began with, of {expected}, received "
                f"{received}. Restore the training text and the version of this package that it "
                f"began with, or remove {path} to begin the epoch again."
            )

    def _seconds(self) -> float:
        """Return the time that the epoch has taken, in all processes that have trained in it."""
        return time.perf_counter() - self._started

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.step = self.step_of(batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            share = self.step / len(self.batches)  # A run may end within an epoch.
            logs["tokens_per_second"] = share * self.batches.tokens / self._seconds()


class RunLimit(keras.callbacks.Callback):
    """End a run after the steps or minutes of its configuration, which count over restarts.

    The epoch in progress then ends with this step, and is validated and saved as any other. Put it
    before the callbacks that save or stop. The newest checkpoint has the steps and minutes so far;
    where it has none, as those of earlier versions, there have been `steps`.
    """

    def __init__(self, training: TrainingConfig, checkpoints: Checkpoints, steps: int = 0):
        super().__init__()
        self.training = training
        newest = checkpoints.newest()
        arrays = read_arrays(newest) if newest else {}
        self.steps = int(arrays.get("run-steps", steps))
        self._seconds_before = float(arrays.get("run-seconds", 0.0))
        self._began: float | None = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._began is None:
            self._began = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self.steps += 1
        if self.is_reached():
            self.model.stop_training = True

    def is_reached(self) -> bool:
        """Return whether the run has made its steps or taken its minutes."""
        return self.steps_left() <= 0 or self.seconds_left() <= 0

    def steps_left(self) -> float:
        """Return the steps until `training.max_steps`, or infinity."""
        return (self.training.max_steps or math.inf) - self.steps

    def seconds_left(self) -> float:
        """Return the seconds until `training.max_minutes`, or infinity."""
        return 60 * (self.training.max_minutes or math.inf) - self._seconds()

    def _seconds(self) -> float:
        since = 0.0 if self._began is None else time.monotonic() - self._began
        return self._seconds_before + since

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the steps and seconds so far, for `save_checkpoint`."""
        return {"run-steps": np.int64(self.steps), "run-seconds": np.float64(self._seconds())}


class SaveCheckpoints(keras.callbacks.Callback):
    """Save the state after each epoch, and after steps or minutes within an epoch.

    The last step of an epoch is saved with the epoch, after its validation. An epoch is complete
    with its file, which also has its logs. Put it right after the validation, so that no epoch is
    reported that is not saved.

    Args:
        state: The epoch in progress.
        others: What else to save with the weights.
        selecting: The entry of the logs that selects the best epoch.
        steps: Number of steps of an epoch between checkpoints; by default, they don't count.
        minutes: Time between checkpoints; by default, it doesn't count.
    """

    def __init__(
        self,
        state: EpochState,
        others: Sequence[RunLimit | MovingAverage],
        selecting: str,
        *,
        steps: int | None = None,
        minutes: float | None = None,
    ):
        super().__init__()
        self.state = state
        self.checkpoints = state.checkpoints
        self.others = others
        self.selecting = selecting
        self.steps = steps
        self.minutes = minutes
        self._saved_at = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if not self.state.is_over and self._is_due():
            self.save_step()

    def _is_due(self) -> bool:
        if self.steps and self.state.step % self.steps == 0:
            return True
        return self.minutes is not None and time.monotonic() - self._saved_at >= 60 * self.minutes

    def save_step(self) -> None:
        """Save the state within an epoch, unless it is saved, or not finite."""
        state = self.state
        is_saved = self.checkpoints.position() == (state.epoch, state.step)
        # `FiniteLoss` ends the run at the next step, whose loss is not finite either.
        if not is_saved and not_finite(self.model) is None:
            arrays = {**state.arrays(), **self._arrays()}
            self.checkpoints.save_step(self.model, state.epoch + 1, state.step, arrays)
        self._saved_at = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = logs or {}
        names = [self.selecting, *(f"val_{name}" for name in OTHER_METRICS)]
        scores = {name.removeprefix("val_"): logs[name] for name in names if name in logs}
        arrays = {**self._arrays(), **arrays_of_logs(logs)}
        self.checkpoints.save_epoch(self.model, epoch + 1, scores, arrays)
        self._saved_at = time.monotonic()
        if self.checkpoints.out_of_patience():
            self.model.stop_training = True

    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: array for each in self.others for name, array in each.arrays().items()}


def progress_of(model: keras.Model) -> dict[str, np.ndarray]:
    """Return the metrics so far, on each replica, and the state of dropout, as arrays by name."""
    return {
        name: np.stack([part.numpy() for part in _parts(model, variable)])
        for name, variable in _variables(model).items()
    }


def restore_progress(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Set the metrics and the state of dropout to what `progress_of` returned.

    On another number of replicas, the metrics keep their totals, and all replicas get the dropout
    state of the first. A metric that is new, and so is not among the arrays, starts here.
    """
    for name, variable in _variables(model).items():
        if name not in arrays:
            continue
        parts, values = _parts(model, variable), arrays[name]
        if len(values) != len(parts):
            is_metric = name.startswith("metric")
            first = values.sum(0, dtype=values.dtype) if is_metric else values[0]
            rest = np.zeros_like(first) if is_metric else first
            values = [first] + [rest] * (len(parts) - 1)
        for part, value in zip(parts, values, strict=True):
            part.assign(value)


def dropout_states(model: keras.Model) -> list[keras.Variable]:
    """Return the variables that hold the state of the model's random number generators."""
    return [v for v in model.non_trainable_variables if v.name == "seed_generator_state"]


def _variables(model: keras.Model) -> dict[str, keras.Variable]:
    named = {}
    for metric in model.metrics:
        for number, variable in enumerate(metric.variables):
            named[f"metric-{metric.name}-{number}"] = variable
    for number, variable in enumerate(dropout_states(model)):
        named[f"dropout-{number}"] = variable
    return named


def _parts(model: keras.Model, variable: keras.Variable) -> Sequence[Any]:
    """Return the variable of each replica: reading a metric as a whole would add these up."""
    return model.distribute_strategy.experimental_local_results(variable.value)
