"""The mean of several checkpoints' weights (Section 6.1)."""

import os
from collections.abc import Sequence

import keras
import numpy as np


def average_checkpoints(model: keras.Model, paths: Sequence[str | os.PathLike]) -> None:
    """Set a model's trainable weights to the mean over checkpoints of it (Section 6.1).

    Sums are float64. Weights that are not trainable are those of the last checkpoint.

    Args:
        model: a model of the architecture that the checkpoints are of.
        paths: files that `model.save_weights` wrote, each a different one.

    Raises:
        ValueError: there is no path, or one comes twice.
    """
    if not paths:
        raise ValueError("Averaging needs at least one checkpoint, received none.")
    names = [os.path.realpath(path) for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Each checkpoint may come once, received twice: {', '.join(twice)}.")
    sums = None
    for name in names:
        model.load_weights(name)
        values = [np.asarray(weight, "float64") for weight in model.trainable_weights]
        sums = values if sums is None else [a + b for a, b in zip(sums, values, strict=True)]
    for weight, total in zip(model.trainable_weights, sums, strict=True):
        weight.assign(total / len(names))
