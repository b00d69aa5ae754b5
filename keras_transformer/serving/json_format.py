"""Predict requests and answers in JSON, with the rules and messages of TensorFlow Serving."""

import base64
import binascii
import codecs
import itertools
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from keras_transformer.serving.errors import invalid
from keras_transformer.serving.tensors import MOST_DIMENSIONS, type_name

_AT_ONCE = 1 << 14
"""Values that are written without interruption."""
_SHOWN = 500  # Characters of a JSON value in an error.
_BYTES_SUFFIX = "_bytes"
_BYTES_AT_ONCE = 1 << 20
_MARKS = (b",", b":", b"[", b"{")
_MOST_MARKS = 1 << 18
"""Of a request. While the interpreter parses them, it does nothing else for some 20 ms."""
_UNPAIRED = re.compile("([\udc00-\udc7f\udd00-\udfff]+)")  # Not those that stand for bytes.


def parse(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body. What follows the object is ignored, as is a BOM.

    Raises:
        ServingError: If the body does not begin with a JSON object.

    >>> parse(b'{"instances": ["a"]} and more')
    {'instances': ['a']}
    """
    marks = sum(map(body.count, _MARKS))
    if marks > _MOST_MARKS:
        raise invalid(
            f"JSON Parse error: a request may have {_MOST_MARKS} commas, colons and brackets, and "
            f"this one has {marks}. Send fewer values at a time."
        )
    # Invalid UTF-8 becomes surrogates, from which `_encode` restores the bytes.
    parts = (body[i : i + _BYTES_AT_ONCE] for i in range(0, len(body), _BYTES_AT_ONCE))
    text = "".join(codecs.iterdecode(parts, "utf-8", "surrogateescape"))
    text = text.removeprefix("\ufeff").lstrip(" \t\r\n")
    if not text:
        raise invalid("JSON Parse error: The document is empty")
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        raise invalid(f"JSON Parse error: {error.msg} at offset: {error.pos}") from error
    except (RecursionError, ValueError) as error:  # Too deep, or an integer of too many digits.
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(value, dict):
        raise invalid(f"JSON Value: {_show(value)} Is not object")
    return value


def signature_name(request: Mapping[str, Any]) -> str:
    """Return the name of the signature that a request asks for, "" for the default one."""
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise invalid(
            f"JSON Value: {_show(request)} not formatted correctly. 'signature_name' key must be a "
            "string value."
        )
    return name


def count_rows(request: Mapping[str, Any], names: Iterable[str]) -> int:
    """Return the number of rows of a request, before they are converted.

    Args:
        request: What `parse` returned.
        names: The inputs of the signature.

    >>> count_rows({"inputs": {"text": ["a", "b"], "translation": ["c"]}}, ["text", "translation"])
    2
    """
    values = request.get("instances", request.get("inputs"))
    columns = [values.get(name) for name in names] if _is_object(values) else [values]
    return max((len(column) for column in columns if isinstance(column, list)), default=0)


def read_inputs(
    request: Mapping[str, Any], dtypes: Mapping[str, np.dtype]
) -> tuple[bool, dict[str, np.ndarray]]:
    """Return whether a request is in rows, and its inputs; strings are bytes.

    Args:
        request: What `parse` returned. With `instances` it is in rows, as is its answer.
        dtypes: The type of each input of the signature.

    Raises:
        ServingError: If the request does not fit the signature.
    """
    if "instances" in request and "inputs" in request:
        raise invalid(
            f"JSON Value: {_show(request)} Not formatted correctly expecting only one of 'inputs' "
            "or 'instances' keys to exist "
        )
    if "instances" in request:
        rows = request["instances"]
        if not isinstance(rows, list):
            raise invalid(f"JSON Value: {_show(request)} Excepting 'instances' to be an list/array")
        if not rows:
            raise invalid(f"JSON Value: {_show(request)} No values in 'instances' array")
        columns = _columns(rows, sorted(dtypes))
        return True, {name: _array(columns[name], dtype) for name, dtype in dtypes.items()}
    if "inputs" not in request:
        raise invalid("Missing 'inputs' or 'instances' key")
    values = request["inputs"]
    if not _is_object(values):
        if len(dtypes) > 1:
            raise invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                "required as per tensorinfo_map"
            )
        values = dict.fromkeys(dtypes, values)
    for name in dtypes:
        if name not in values:
            raise invalid(f"Missing named input: {name} in 'inputs' object.")
    return False, {name: _array(values[name], dtypes[name]) for name in dtypes}


def write_outputs(outputs: Mapping[str, np.ndarray], in_rows: bool) -> dict[str, Any]:
    """Return the answer to a request, before it is encoded as JSON.

    Args:
        outputs: The outputs of the signature.
        in_rows: Whether the request has `instances`.

    Raises:
        ServingError: If JSON cannot hold an output, or outputs have no rows in common.
    """
    columns = {name: _values(name, array) for name, array in outputs.items()}
    if not in_rows:
        return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}
    for name, array in outputs.items():
        if not array.ndim:
            raise invalid(f"Tensor name: {name} has no shape information ")
    if len({len(array) for array in outputs.values()}) > 1:
        sizes = {name: len(array) for name, array in outputs.items()}
        raise invalid(f"Tensor has inconsistent batch size: {sizes}")
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    rows = zip(*columns.values(), strict=True)
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def encode(answer: Any, indent: int | None = None) -> bytes:
    """Return a value as JSON, written in parts for the sake of other threads if not indented.

    >>> encode({"outputs": [["a", "b"], [0.5]]})
    b'{"outputs": [["a", "b"], [0.5]]}'
    """
    if indent is not None:
        return _dump(answer, indent)
    return b"".join(_pieces(answer))


def _columns(rows: list[Any], names: list[str]) -> dict[str, list[Any]]:
    """Return the values of each input in rows of objects or, for one input, of values."""
    objects = _is_object(rows[0])
    if not objects and len(names) > 1:
        raise invalid(
            "instances is a plain list, but expecting list of objects as multiple input tensors "
            "required as per tensorinfo_map"
        )
    for i, row in enumerate(rows):
        if _is_object(row) != objects:
            expected, got = ("object", "list") if objects else ("value/list", "object")
            raise invalid(f"Expecting {expected} but got {got} at item {i} of input list")
        if objects and sorted(row) != names:
            raise invalid(
                f"Failed to process element: {i} of 'instances' list. JSON object: {_show(row)} "
                f"keys must be equal to: {','.join(names)}"
            )
    if not objects:
        return {names[0]: rows}
    return {name: [row[name] for row in rows] for name in names}


def _array(value: Any, dtype: np.dtype) -> np.ndarray:
    """Return nested lists as an array; strings as bytes."""
    shape, first = [], value
    while isinstance(first, list):
        shape.append(len(first))
        first = first[0] if first else None
        if len(shape) > MOST_DIMENSIONS:
            raise invalid(f"JSON Value: lists are nested more than {MOST_DIMENSIONS} deep")
    convert = _encode if dtype.kind == "O" else _number_check(dtype)
    flat = [convert(leaf) for leaf in _leaves(value, shape, 0)]
    try:
        return np.array(flat, dtype).reshape(shape)
    except (OverflowError, TypeError, ValueError) as error:
        raise invalid(f"Cannot convert JSON values to {type_name(dtype)}: {error}") from error


def _leaves(value: Any, shape: list[int], level: int) -> Iterator[Any]:
    if not isinstance(value, list):
        if level != len(shape):
            raise invalid(
                f"JSON Value: {_show(value)} found at incorrect level: {level + 1} in the JSON "
                f"DOM. Expected at level: {len(shape)}"
            )
        yield value
        return
    if level >= len(shape):
        raise invalid(f"Encountered list at unexpected level: {level} expected < {len(shape)}")
    if len(value) != shape[level]:
        raise invalid(
            f"Encountered list at unexpected size: {len(value)} at level: {level} expected size: "
            f"{shape[level]}"
        )
    for item in value:
        yield from _leaves(item, shape, level + 1)


def _encode(value: Any) -> bytes:
    if isinstance(value, dict):
        if not _is_base64(value):
            raise invalid(f"JSON Value: {_show(value)} not formatted correctly for base64 data")
        try:
            text = value["b64"].encode("ascii").translate(None, string.whitespace.encode())
            return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError) as error:
            raise invalid("Unable to base64 decode") from error
    if not isinstance(value, str):
        raise _wrong_type(value, "string")
    try:
        return value.encode()
    except UnicodeEncodeError:
        pass
    if re.search("[\ud800-\udbff]", value):
        raise invalid("JSON Parse error: The surrogate pair in string is invalid.")
    # Bytes that were no UTF-8, or low surrogates that were written as escapes.
    return b"".join(
        part.encode("utf-8", "surrogatepass" if i % 2 else "surrogateescape")
        for i, part in enumerate(_UNPAIRED.split(value))
    )


def _number_check(dtype: np.dtype) -> Any:
    is_bool, is_integer = dtype.kind == "b", dtype.kind in "iu"
    kinds = (bool,) if is_bool else (int,) if is_integer else (int, float)

    def check(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and not is_bool):
            raise _wrong_type(value, type_name(dtype))
        return value

    return check


def _values(name: str, array: np.ndarray) -> Any:
    if array.dtype == object:
        if name.endswith(_BYTES_SUFFIX):
            return _map(lambda value: {"b64": base64.b64encode(value).decode()}, array)
        return _map(lambda value: value.decode("utf-8", "replace"), array)
    if array.dtype == np.float32:  # With the fewest digits that identify a value.
        return _nested(_shortest(array))
    if array.dtype not in (np.float64, np.bool_) and array.dtype.kind not in "iu":
        raise invalid(f"Failed to write JSON value for tensor type: {array.dtype}")
    return _nested(array)


def _nested(array: np.ndarray) -> Any:
    """Return an array as nested lists, made in parts for the sake of other threads."""
    is_large = array.ndim > 1 and array.size > _AT_ONCE
    return [_nested(part) for part in array] if is_large else array.tolist()


def _shortest(array: np.ndarray) -> np.ndarray:
    """Return float32 numbers as the float64 numbers with the same shortest digits."""
    flat, found = array.reshape(-1), np.empty(array.size)
    # In parts, because a number takes 128 bytes as text, and other threads wait for each part.
    for start in range(0, array.size, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        found[part] = flat[part].astype(str).astype(float)
    return found.reshape(array.shape)


def _map(function: Any, array: np.ndarray) -> Any:
    return np.vectorize(function, otypes=[object])(array).tolist()


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        items: Iterable = ((_dump(key) + b": ", item) for key, item in value.items())
        ends = b"{", b"}"
    elif isinstance(value, list) and value and isinstance(value[0], list | dict):
        items, ends = ((b"", item) for item in value), (b"[", b"]")
    elif isinstance(value, list):
        parts = (value[i : i + _AT_ONCE] for i in range(0, len(value), _AT_ONCE))
        yield b"[" + b", ".join(_dump(part)[1:-1] for part in parts) + b"]"
        return
    else:
        yield _dump(value)
        return
    separator = ends[0]
    for start, item in items:
        yield separator + start
        yield from _pieces(item)
        separator = b", "
    yield ends[1] if value else ends[0] + ends[1]


def _dump(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent).encode("utf-8", "replace")


def _is_base64(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _wrong_type(value: Any, expected: str) -> Exception:
    names = {dict: "Object", list: "Array", str: "String", bool: str(value), type(None): "Null"}
    return invalid(
        f"JSON Value: {_show(value)} Type: {names.get(type(value), 'Number')} is not of expected "
        f"type: {expected}"
    )


def _show(value: Any) -> str:
    try:  # Each piece has a character or more.
        text = "".join(itertools.islice(json.JSONEncoder().iterencode(value), _SHOWN + 1))
    except RecursionError:
        return "(deeply nested)"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
