"""Tensors of gRPC messages."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.serving.errors import invalid

_MOST_ELEMENTS = 1 << 20
"""Elements of an input. A few bytes can declare a shape that fills all memory."""


def read_tensor(name: str, proto: Any) -> np.ndarray:
    """Return a `TensorProto` as an array; strings are bytes.

    Args:
        name: The input's name, for errors.
        proto: The message. If it has fewer values than elements, the last one is repeated, as in
            TensorFlow.

    Raises:
        ServingError: If the message is malformed.

    >>> read_tensor("text", tf.make_tensor_proto(["a", "b"])).tolist()
    [b'a', b'b']
    """
    shape = [dimension.size for dimension in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise invalid(f"Tensor {name} has an unknown shape. Send its dimensions.")
    if math.prod(shape) > _MOST_ELEMENTS:
        raise invalid(f"Tensor {name} has shape {shape}, more than {_MOST_ELEMENTS} elements.")
    if not math.prod(shape):  # `make_ndarray` reads a value that need not be there.
        return np.zeros(shape, _dtype(name, proto))
    try:
        array = tf.make_ndarray(proto)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise invalid(f"Tensor {name} is malformed: {error}") from error
    if list(array.shape) != shape:
        raise invalid(f"Tensor {name} has {array.size} values, and shape {shape}.")
    return array


def _dtype(name: str, proto: Any) -> Any:
    try:
        return tf.as_dtype(proto.dtype).as_numpy_dtype
    except (KeyError, TypeError) as error:
        raise invalid(f"Tensor {name} has type {proto.dtype}, which no input has.") from error


def write_tensor(array: np.ndarray) -> Any:
    """Return an array as a `TensorProto`, with the values in its typed fields."""
    if array.dtype == object:
        return tf.make_tensor_proto(array, tf.string, array.shape)
    return tf.make_tensor_proto(array, shape=array.shape)


def check_names(sent: Iterable[str], wanted: Iterable[str]) -> None:
    """Check the names of a gRPC request's inputs.

    Raises:
        ServingError: If they are not those of the signature.
    """
    sent, wanted = set(sent), set(wanted)
    if len(sent) != len(wanted):

        def show(names: set[str]) -> str:
            return "{" + ",".join(sorted(names)) + "}"

        raise invalid(
            f"input size does not match signature: {len(sent)}!={len(wanted)} len({show(sent)}) "
            f"!= len({show(wanted)}). Sent extra: {show(sent - wanted)}. Missing but required: "
            f"{show(wanted - sent)}."
        )
    for name in sorted(sent - wanted):
        raise invalid(
            f"Signature input alias: {min(wanted - sent)} not found in request. Received {name}."
        )
