"""What a run needs and how long it takes, from a few steps."""

import dataclasses
import itertools
import resource
import sys
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import TrainingConfig
from keras_transformer.data import TokenBatches
from keras_transformer.training.progress import duration
from keras_transformer.training.recipe import most_steps

_SEEN = 1000
"""Number of batches of which the largest is taken."""
_TIMED = 5
"""Number of batches that are timed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DryRun:
    """What a run needs. `str` is the report that a person reads."""

    steps_per_epoch: int
    """Number of steps in an epoch."""
    steps: int
    """Number of steps of the whole run."""
    warmup_steps: int
    """Number of warm-up steps."""
    parameters: int
    """Number of parameters of the model."""
    state_bytes: int
    """Size of the weights and of the state of the optimizer, in bytes."""
    largest_batch: tuple[int, int, int]
    """Rows, source tokens per row and target tokens per row of the largest batch, padding included.
    Only the first 1,000 batches are looked at."""
    peak_bytes: int
    """Peak memory of the process, or of the first GPU if there is one, in bytes."""
    seconds_per_step: float
    """Mean time of a step after the first one."""
    tokens_per_second: float
    """Source and target tokens per second, without padding."""

    def __str__(self) -> str:
        rows, source, target = self.largest_batch
        place = "GPU" if tf.config.list_physical_devices("GPU") else "process"
        time_left = duration(self.seconds_per_step * self.steps)
        return "\n".join(
            [
                f"steps: {self.steps_per_epoch:,} per epoch, {self.steps:,} in all, "
                f"{self.warmup_steps:,} of warm-up ({self.warmup_steps / self.steps:.1%})",
                f"parameters: {self.parameters:,}",
                f"memory: {_size(self.state_bytes)} of weights and optimizer, "
                f"{_size(self.peak_bytes)} at the peak of the {place}",
                f"largest batch: {rows:,} rows of {source} source and {target} target tokens",
                f"time: {self.seconds_per_step:.3g} s per step, {self.tokens_per_second:,.0f} "
                f"tokens/s, {time_left} in all without validation",
            ]
        )


def make_trial_steps(training: TrainingConfig, model: keras.Model, batches: TokenBatches) -> DryRun:
    """Make a step with the largest batch and a few more, and return what the run needs."""
    dataset = batches.dataset()
    largest: Any = None
    timed: list[Any] = []
    for batch in itertools.islice(dataset, _SEEN):
        if largest is None or _tokens(batch) > _tokens(largest):
            largest = batch
        if len(timed) < _TIMED:
            timed.append(batch)
    # XLA compiles a step for each shape, so that only the second time of a batch counts.
    steps = tf.data.Dataset.from_generator(
        lambda: iter([largest, *timed, *timed]), output_signature=dataset.element_spec
    ).apply(tf.data.experimental.assert_cardinality(1 + 2 * len(timed)))
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    if has_gpu:
        tf.config.experimental.reset_memory_stats("GPU:0")
    times: list[float] = []  # When each step begins, and when it ends.

    def note_time(batch: int, logs: dict[str, Any] | None = None) -> None:
        times.append(time.perf_counter())

    timer = keras.callbacks.LambdaCallback(
        on_train_batch_begin=note_time, on_train_batch_end=note_time
    )
    model.fit(steps, shuffle=False, callbacks=[timer], verbose=0)
    if has_gpu:
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        peak *= 1 if sys.platform == "darwin" else 1024  # Linux counts in KiB.
    seconds = float(np.subtract(times[1::2], times[::2])[-len(timed) :].mean())
    variables = {id(v): v for v in [*model.variables, *model.optimizer.variables]}.values()
    inputs = largest[0]
    return DryRun(
        steps_per_epoch=len(batches),
        steps=most_steps(training, len(batches)),
        warmup_steps=training.warmup_steps,
        parameters=model.count_params(),
        state_bytes=sum(int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables),
        largest_batch=(*inputs["source"].shape, inputs["target"].shape[1]),
        peak_bytes=peak,
        seconds_per_step=seconds,
        tokens_per_second=batches.tokens / len(batches) / seconds,
    )


def _tokens(batch: Any) -> int:
    return sum(int(tf.size(ids)) for ids in batch[0].values())


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
