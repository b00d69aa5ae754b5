"""The state of an epoch in progress that is not part of the weights or of the optimizer."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np


def progress_of(model: keras.Model, seconds: float) -> dict[str, np.ndarray]:
    """Return what a run needs, with its weights and its optimizer, to resume within an epoch.

    These are the metrics so far, on each replica, and the state of dropout.

    Args:
        model: A compiled model in training.
        seconds: The time that the steps of the epoch took.

    Returns:
        Arrays by name, for `save_checkpoint` and `restore_progress`.
    """
    arrays = {"seconds": np.float64(seconds)}
    for name, variable in _variables(model).items():
        arrays[name] = np.stack([part.numpy() for part in _parts(model, variable)])
    return arrays


def restore_progress(model: keras.Model, arrays: Mapping[str, np.ndarray]) -> None:
    """Set the metrics and the state of dropout to what `progress_of` returned.

    On another number of replicas, the metrics' totals stay, and dropout is that of the first. A
    metric that the arrays don't have, because it is new, starts here.
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
