"""Tensors of gRPC messages."""

import contextlib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from keras_transformer.serving.errors import invalid

_MOST_ELEMENTS = 1 << 20
"""Elements of an input. A few bytes can declare a shape that fills all memory."""
MOST_DIMENSIONS = 32
"""As NumPy has; it is checked before an array is made."""
_MOST_FIELDS = 1 << 16
_FIXED = {1: 8, 5: 4}  # Bytes of a field, by its wire type.
_AT_ONCE = 1 << 14  # Values that are written without interruption.
_FIELDS = {
    tf.string: "string_val",
    tf.float32: "float_val",
    tf.float64: "double_val",
    tf.int64: "int64_val",
    tf.bool: "bool_val",
    tf.uint32: "uint32_val",
    tf.uint64: "uint64_val",
    **dict.fromkeys((tf.int8, tf.int16, tf.int32, tf.uint8, tf.uint16), "int_val"),
}


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
    if len(shape) > MOST_DIMENSIONS:
        raise invalid(f"Tensor {name} has {len(shape)} dimensions, more than {MOST_DIMENSIONS}.")
    if math.prod(shape) > _MOST_ELEMENTS:
        raise invalid(f"Tensor {name} has shape {shape}, more than {_MOST_ELEMENTS} elements.")
    if not math.prod(shape):  # `make_ndarray` reads a value that need not be there.
        return np.zeros(shape, _dtype(name, proto))
    for field, values in proto.ListFields():  # A complex number is two values.
        if field.name.endswith("_val") and len(values) > 2 * math.prod(shape):
            raise invalid(f"Tensor {name} has {len(values)} values, and shape {shape}.")
    try:
        array = tf.make_ndarray(proto)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise invalid(f"Tensor {name} is malformed: {error}") from error
    if list(array.shape) != shape:
        raise invalid(f"Tensor {name} has {array.size} values, and shape {shape}.")
    return array


def check_fields(content: bytes, kind: Any) -> None:
    """Check the number of fields of a message before it is read, which nothing can interrupt.

    Args:
        content: The message. Its first malformed field ends the check; to read it fails.
        kind: Its descriptor.

    Raises:
        ServingError: If it has too many.

    >>> proto = tf.make_tensor_proto(["a", "b"])
    >>> check_fields(proto.SerializeToString(), proto.DESCRIPTOR)
    """
    fields, messages = 0, [(0, len(content), kind)]
    with contextlib.suppress(IndexError):
        while messages:
            at, end, kind = messages.pop()
            while at < end:
                fields += 1
                if fields > _MOST_FIELDS:
                    raise invalid(
                        f"A request may have {_MOST_FIELDS} values and other fields. Send fewer "
                        "rows at a time."
                    )
                tag, at = _varint(content, at)
                field = kind.fields_by_number.get(tag >> 3)
                size = _FIXED.get(tag & 7, 0)
                if tag & 7 in (0, 2):
                    value, at = _varint(content, at)
                    size = value if tag & 7 else 0
                if tag & 7 == 2 and field is not None and field.message_type is not None:
                    messages.append((at, min(at + size, end), field.message_type))
                at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and the position after it."""
    value = shift = 0
    while (byte := content[at]) & 0x80 and shift < 63:
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
    return value | byte << shift, at + 1


def _dtype(name: str, proto: Any) -> Any:
    try:
        return tf.as_dtype(proto.dtype).as_numpy_dtype
    except (KeyError, TypeError) as error:
        raise invalid(f"Tensor {name} has type {proto.dtype}, which no input has.") from error


def write_tensor(array: np.ndarray) -> Any:
    """Return an array as a `TensorProto`, with its values in the typed field of TensorFlow Serving.

    >>> proto = write_tensor(np.array([0.5, 1], np.float32))
    >>> list(proto.float_val), proto.tensor_content
    ([0.5, 1.0], b'')
    """
    dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
    if dtype not in _FIELDS:  # Such as float16, whose values no field holds as numbers.
        return tf.make_tensor_proto(array, shape=array.shape)
    shape = tf.TensorShape(array.shape).as_proto()
    proto = tensor_pb2.TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape)
    values, flat = getattr(proto, _FIELDS[dtype]), array.ravel()
    for start in range(0, len(flat), _AT_ONCE):  # Other threads wait for each part.
        values.extend(flat[start : start + _AT_ONCE].tolist())
    return proto


def check_names(sent: Iterable[str], wanted: Iterable[str]) -> None:
    """Check the names of a gRPC request's inputs.

    Raises:
        ServingError: If they differ from the signature's inputs.
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
