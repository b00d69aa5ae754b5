"""Writing JSON, without TensorFlow."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

AT_ONCE = 1 << 14
"""Values that are written without interruption."""


def encode(answer: Any, indent: int | None = None) -> bytes:
    """Return a value as JSON, written in parts for the sake of other threads if not indented.

    >>> encode({"outputs": [["a", "b"], [0.5]]})
    b'{"outputs": [["a", "b"], [0.5]]}'
    """
    if indent is not None:
        return _dump(answer, indent)
    return b"".join(_pieces(answer))


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        items: Iterable = ((_dump(key) + b": ", item) for key, item in value.items())
        ends = b"{", b"}"
    elif isinstance(value, list) and value and isinstance(value[0], list | dict):
        items, ends = ((b"", item) for item in value), (b"[", b"]")
    elif isinstance(value, list):
        parts = (value[i : i + AT_ONCE] for i in range(0, len(value), AT_ONCE))
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
