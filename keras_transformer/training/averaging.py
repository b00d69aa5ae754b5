"""Averages of checkpoints (Section 6.1)."""

import os
from collections.abc import Sequence

import keras
import numpy as np

from keras_transformer.training.checkpoints import load_checkpoint


def average_checkpoints(model: keras.Model, paths: Sequence[str | os.PathLike]) -> None:
    """Set the trainable weights of a model to the mean over checkpoints (Section 6.1).

    Sums are computed in float64. Weights that are not trainable are those of the last checkpoint.

    Args:
        model: A model of the architecture that the checkpoints are of.
        paths: Distinct files that `model.save_weights` wrote.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If there is no path, a file occurs twice, or a file is damaged or has values
            that are not finite.

    >>> import pathlib, tempfile
    >>> model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, name="dense")])
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> paths = [folder / "epoch-1.weights.h5", folder / "epoch-2.weights.h5"]
    >>> for path, value in zip(paths, (1.0, 2.0)):
    ...     model.set_weights([np.array([[value]]), np.array([value])])
    ...     model.save_weights(path)
    >>> average_checkpoints(model, paths)
    >>> [weight.tolist() for weight in model.get_weights()]
    [[[1.5]], [1.5]]
    """
    if not paths:
        raise ValueError("Averaging needs at least one checkpoint, received none.")
    names = [os.path.realpath(path) for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Each checkpoint may occur once, received twice: {', '.join(twice)}.")
    sums = [np.zeros(weight.shape) for weight in model.trainable_weights]
    for name in names:
        load_checkpoint(model, name)
        for total, weight in zip(sums, model.trainable_weights, strict=True):
            total += np.asarray(weight, "float64")
    for weight, total in zip(model.trainable_weights, sums, strict=True):
        weight.assign(total / len(names))
