"""Averages of weights: over checkpoints (Section 6.1), and over the steps of a run."""

import os
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.utils.checkpoint_files import load_checkpoint, read_arrays, weight_shapes

_SHOWN = 3
"""Number of differences that an error names."""


def average_checkpoints(model: keras.Model, paths: Sequence[str | os.PathLike]) -> None:
    """Set the trainable weights of a model to the mean over checkpoints (Section 6.1).

    Sums are computed in float64. Weights that are not trainable come from the last checkpoint.

    Args:
        model: A model with the architecture of the checkpoints.
        paths: Distinct files that `model.save_weights` wrote.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If there is no path, a file occurs twice, two files differ in the names or
            shapes of their weights, or a file is damaged or has values that are not finite.

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
        raise ValueError("Averaging needs at least one checkpoint, received an empty list.")
    names = [os.path.realpath(path) for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Each checkpoint may occur once, received twice: {', '.join(twice)}.")
    _check_shapes(names)
    sums = [np.zeros(weight.shape) for weight in model.trainable_weights]
    for name in names:
        load_checkpoint(model, name)
        for total, weight in zip(sums, model.trainable_weights, strict=True):
            total += np.asarray(weight, "float64")
    for weight, total in zip(model.trainable_weights, sums, strict=True):
        weight.assign(total / len(names))


def _check_shapes(paths: Sequence[str]) -> None:
    """Check that all files have weights of the same names and shapes."""
    whole = {path: shapes for path in paths if (shapes := weight_shapes(path)) is not None}
    for path, shapes in whole.items():
        first, expected = next(iter(whole.items()))
        names = [name for name in {**expected, **shapes} if shapes.get(name) != expected.get(name)]
        if names:
            shown = [
                f"{name} ({shapes.get(name, 'missing')} instead of {expected.get(name, 'none')})"
                for name in names[:_SHOWN]
            ]
            rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            raise ValueError(
                f"Checkpoints must be of one configuration to be averaged, received {path} and "
                f"{first}, which differ in {', '.join(shown)}{rest}. Average checkpoints of one "
                "run."
            )


class MovingAverage(keras.callbacks.Callback):
    """Keep an exponential moving average of the weights that are trained.

    A step multiplies the average by d and adds 1 - d times the weights. For step t, counted from 1,
    d is `min(decay, (1 + t) / (10 + t))`, so that the first weights are soon forgotten. The newest
    checkpoint has the average to continue from.
    """

    def __init__(self, decay: float, checkpoints: Checkpoints):
        super().__init__()
        self.decay = decay
        self.checkpoints = checkpoints
        self._averages: list[tf.Variable] = []

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._averages:
            return
        newest = self.checkpoints.newest()
        arrays = read_arrays(newest) if newest else {}
        for number, weight in enumerate(self.model.trainable_weights):
            value = arrays.get(_name(number), keras.ops.convert_to_numpy(weight))
            self._averages.append(tf.Variable(value, trainable=False))
        self._update = tf.function(self._updated)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        self._update()

    def _updated(self) -> None:
        step = tf.cast(self.model.optimizer.iterations.value, tf.float32)
        decay = tf.minimum(self.decay, (1 + step) / (10 + step))
        for average, weight in zip(self._averages, self.model.trainable_weights, strict=True):
            average.assign(decay * average + (1 - decay) * weight.value)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the average for `save_checkpoint` and `load_moving_average`."""
        return {_name(number): average.numpy() for number, average in enumerate(self._averages)}


def load_moving_average(model: keras.Model, path: str | os.PathLike) -> None:
    """Set the trainable weights of a model to the moving average in a checkpoint.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file has no moving average, is damaged, belongs to another architecture,
            or has values that are not finite.
    """
    load_checkpoint(model, path)
    arrays = read_arrays(path)
    if _name(0) not in arrays:
        raise ValueError(
            f"{path} must have a moving average of the weights, which runs with "
            "training.average='ema' save. Average checkpoints instead."
        )
    for number, weight in enumerate(model.trainable_weights):
        weight.assign(arrays[_name(number)])


def _name(number: int) -> str:
    return f"average-{number}"
