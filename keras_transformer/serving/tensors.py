"""The messages of TensorFlow and TensorFlow Serving, without TensorFlow itself, and their tensors.

The modules of messages lie in the package `tensorflow`, whose import takes seconds and 170 MB.
"""

import contextlib
import importlib.util
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from keras_transformer.serving.errors import invalid


@contextlib.contextmanager
def _messages_only() -> Iterator[None]:
    """Let the block import modules of the package `tensorflow` without running the package."""
    spec = None if "tensorflow" in sys.modules else importlib.util.find_spec("tensorflow")
    if spec is None:  # It is imported, or missing.
        yield
        return
    sys.modules["tensorflow"] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules["tensorflow"]  # A later import runs it.


with _messages_only():
    from tensorflow.core.framework import tensor_pb2 as tensor_pb2
    from tensorflow.core.protobuf import config_pb2 as config_pb2
    from tensorflow.core.protobuf import saved_model_pb2 as saved_model_pb2
    from tensorflow_serving.apis import get_model_metadata_pb2 as get_model_metadata_pb2
    from tensorflow_serving.apis import get_model_status_pb2 as get_model_status_pb2
    from tensorflow_serving.apis import model_service_pb2_grpc as model_service_pb2_grpc
    from tensorflow_serving.apis import predict_pb2 as predict_pb2
    from tensorflow_serving.apis import prediction_log_pb2 as prediction_log_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc as prediction_service_pb2_grpc
    from tensorflow_serving.config import model_server_config_pb2 as model_server_config_pb2

_MOST_ELEMENTS = 1 << 20
"""Elements of an input. A few bytes can declare a shape that fills all memory."""
MOST_DIMENSIONS = 32
"""As NumPy has; it is checked before an array is made."""
_MOST_FIELDS = 1 << 16
_FIXED = {1: 8, 5: 4}  # Bytes of a field, by its wire type.
_AT_ONCE = 1 << 14  # Values that are written without interruption.
_FIELDS = {"object": "string_val", "float32": "float_val", "float64": "double_val"}
_FIELDS |= {"complex64": "scomplex_val", "complex128": "dcomplex_val"}
_FIELDS |= dict.fromkeys(("float16", "bfloat16"), "half_val")
_FIELDS |= dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int_val")
"""The fields of a `TensorProto` by type; those of the others are called like the type."""
_PARTS = {"complex64": "float32", "complex128": "float64", "float16": "uint16"}
_PARTS["bfloat16"] = "uint16"
"""The types of the numbers in a field, where they are not the type itself."""
_NAMES = {
    **{1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "object"},
    **{8: "complex64", 9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16", 18: "complex128"},
    **{19: "float16", 22: "uint32", 23: "uint64"},
}
DTYPES = {
    number: np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
    for number, name in _NAMES.items()
}
"""The types of arrays by their numbers in `DataType`; strings are objects, of bytes."""
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def type_name(dtype: np.dtype) -> str:
    """Return TensorFlow's name of a type of arrays.

    >>> type_name(np.dtype(object)), type_name(np.dtype("float32"))
    ('string', 'float32')
    """
    return "string" if dtype.kind == "O" else dtype.name


def _field(proto: Any, dtype: np.dtype) -> Any:
    """Return the values of a type in a `TensorProto`."""
    return getattr(proto, _FIELDS.get(dtype.name, f"{dtype.name}_val"))


def read_tensor(name: str, proto: Any) -> np.ndarray:
    """Return a `TensorProto` as an array; strings are bytes.

    Args:
        name: The input's name, for errors.
        proto: The message. If it has fewer values than elements, the last one is repeated, as in
            TensorFlow.

    Raises:
        ServingError: If the message is malformed.

    >>> read_tensor("text", write_tensor(np.array([b"a", b"b"], object))).tolist()
    [b'a', b'b']
    """
    shape = [dimension.size for dimension in proto.tensor_shape.dim]
    if proto.tensor_shape.unknown_rank or min(shape, default=0) < 0:
        raise invalid(f"Tensor {name} has an unknown shape. Send its dimensions.")
    if len(shape) > MOST_DIMENSIONS:
        raise invalid(f"Tensor {name} has {len(shape)} dimensions, more than {MOST_DIMENSIONS}.")
    if math.prod(shape) > _MOST_ELEMENTS:
        raise invalid(f"Tensor {name} has shape {shape}, more than {_MOST_ELEMENTS} elements.")
    if proto.dtype not in DTYPES:
        raise invalid(f"Tensor {name} has type {proto.dtype}, which no input has.")
    for field, values in proto.ListFields():  # A complex number is two values.
        if field.name.endswith("_val") and len(values) > 2 * math.prod(shape):
            raise invalid(f"Tensor {name} has {len(values)} values, and shape {shape}.")
    try:
        return _values(proto, DTYPES[proto.dtype], math.prod(shape)).reshape(shape)
    except (OverflowError, ValueError) as error:
        raise invalid(f"Tensor {name} is malformed: {error}") from error


def _values(proto: Any, dtype: np.dtype, size: int) -> np.ndarray:
    if proto.tensor_content:
        return np.frombuffer(proto.tensor_content, dtype)
    parts = _PARTS.get(dtype.name, dtype)
    values = np.array(list(_field(proto, dtype)), parts).view(dtype)
    if not len(values):
        return np.full(size, b"" if dtype.kind == "O" else 0, dtype)
    return np.pad(values, (0, size - len(values)), "edge") if len(values) < size else values


def check_fields(content: bytes, kind: Any) -> None:
    """Check the number of fields of a message before it is read, which nothing can interrupt.

    Args:
        content: The message. Its first malformed field ends the check; to read it fails.
        kind: Its descriptor.

    Raises:
        ServingError: If it has too many.

    >>> proto = write_tensor(np.array([b"a", b"b"], object))
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


def write_tensor(array: np.ndarray) -> Any:
    """Return an array as a `TensorProto`, with its values in the typed field of TensorFlow Serving.

    >>> proto = write_tensor(np.array([0.5, 1], np.float32))
    >>> list(proto.float_val), proto.tensor_content
    ([0.5, 1.0], b'')
    """
    shape = [{"size": size} for size in array.shape]
    proto = tensor_pb2.TensorProto(dtype=NUMBERS[array.dtype], tensor_shape={"dim": shape})
    values = _field(proto, array.dtype)
    flat = array.ravel().view(_PARTS.get(array.dtype.name, array.dtype))
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
