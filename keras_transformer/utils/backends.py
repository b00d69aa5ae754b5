"""What the backend does: fuses formulas, knows values while it runs, checks token ids."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.utils.devices import has_gpu


def fuses_formulas() -> bool:
    """Return whether XLA fuses a formula with its gradient: with JAX, or TensorFlow on a GPU.

    There the plain formula is the fast one. Elsewhere each operation takes a pass over memory.
    """
    backend = keras.backend.backend()
    return backend == "jax" or (backend == "tensorflow" and has_gpu())


def check_ids(ids: Any, size: int, rule: str, in_graph: bool = True) -> Any:
    """Return ids, and raise an error if one is below 0, not below `size`, or not a whole number.

    In a TensorFlow graph this is an assertion, which XLA ignores. A function that JAX compiles, or
    PyTorch, checks nothing.

    Args:
        ids: int or float, of any shape.
        size: The number of ids.
        rule: What the error says before the value.
        in_graph: Whether to add the assertion.

    Raises:
        ValueError: If an id is wrong. In a graph, it is a `tf.errors.InvalidArgumentError`.

    >>> check_ids(ops.array([5]), 3, "ids must be from 0 to 2")
    Traceback (most recent call last):
    ValueError: ids must be from 0 to 2, received 5.
    """
    if is_known(ids):
        values = np.asarray(ops.convert_to_numpy(ids))
        is_wrong = ~((values >= 0) & (values < size) & (values % 1 == 0))
        if is_wrong.any():
            raise ValueError(f"{rule}, received {values[is_wrong][0]}.")
    elif in_graph and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        lowest, highest = (tf.cast(f(ids), tf.int64) for f in (tf.reduce_min, tf.reduce_max))
        is_right = (lowest >= 0) & (highest < size)
        received = [f"{rule}, received values from", lowest, "to", highest]
        with tf.control_dependencies([tf.debugging.Assert(is_right, received)]):
            ids = tf.identity(ids)
    return ids


def check_dense(ids: Any, name: str) -> None:
    """Raise a ValueError if ids are a ragged tensor of TensorFlow."""
    if hasattr(ids, "row_splits"):
        raise ValueError(
            f"{name} must be ids [B, T] padded with 0, received a ragged tensor. Use "
            "`.to_tensor(0)` of it."
        )


def is_known(tensor: Any) -> bool:
    """Return whether a tensor has values, unlike in a function that is being traced or compiled."""
    backend = keras.backend.backend()  # AutoGraph can't transform a `match`.
    if backend == "tensorflow":
        import tensorflow as tf

        return tf.executing_eagerly()
    if backend == "jax":
        import jax

        return not isinstance(tensor, jax.core.Tracer)
    if backend == "torch":
        import torch

        return tensor.device.type != "meta" and not torch.compiler.is_compiling()
    return True
