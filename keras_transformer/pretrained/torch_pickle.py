"""Pickles of tensors, read without running what they hold."""

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple

_MAX_RANK = 32
STORAGES = {
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",  # The upper half of a float32.
    "DoubleStorage": "f8",
    "LongStorage": "i8",
    "IntStorage": "i4",
}
"""The NumPy type of each kind of storage."""

# What `torch.save` writes for a dictionary of tensors. INST, OBJ, NEWOBJ and EXT are not in it.
_OPCODES = frozenset(
    """
    PROTO FRAME STOP MARK POP POP_MARK BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET
    NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
    BINUNICODE SHORT_BINUNICODE BINSTRING SHORT_BINSTRING
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS
    GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID
    """.split()
)


class Refusal(ValueError):
    """A pickle that holds more than tensors; its message is complete."""


class Storage(NamedTuple):
    """The numbers of tensors: their type, name and count."""

    kind: str
    key: str
    size: int


class StoredTensor(NamedTuple):
    """A view of a storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _OrderedDict(dict):
    """An ordered dictionary of the file; the attributes that the file gives it are dropped."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        pass


class _Global:
    """A global that a file may use: it can be called, and not changed."""

    __slots__ = ("kind", "_build")

    def __init__(self, kind: str, build: Callable | None = None) -> None:
        self.kind, self._build = kind, build

    def __call__(self, *args: Any) -> Any:
        if self._build is None:
            raise ValueError(f"{self.kind} is called")
        return self._build(*args)

    def __setstate__(self, state: Any) -> None:
        raise ValueError(f"{self.kind} is given a state")


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _rebuild_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any
) -> StoredTensor:
    if type(storage) is not Storage or type(shape) is not tuple or type(strides) is not tuple:
        raise ValueError("a tensor is not made of a storage, a shape and strides")
    if len(shape) != len(strides) or len(shape) > _MAX_RANK:
        raise ValueError(f"a tensor has {len(shape)} axes and {len(strides)} strides")
    if not all(map(_natural, (offset, *shape, *strides))):
        raise ValueError("an offset, size or stride of a tensor is not a natural number")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    elements = math.prod(shape)
    if elements > storage.size or (elements and last >= storage.size):
        raise ValueError(f"a tensor of shape {shape} is larger than its storage {storage.key!r}")
    return StoredTensor(storage, offset, shape, strides)


def _rebuild_parameter(tensor: Any, *rest: Any) -> StoredTensor:
    if type(tensor) is not StoredTensor:
        raise ValueError("a parameter does not hold a tensor")
    return tensor


def _ordered_dict(pairs: Any = ()) -> _OrderedDict:
    return _OrderedDict(pairs)


_GLOBALS = {
    "collections.OrderedDict": _Global("OrderedDict", _ordered_dict),
    "torch._utils._rebuild_tensor_v2": _Global("_rebuild_tensor_v2", _rebuild_tensor),
    "torch._utils._rebuild_parameter": _Global("_rebuild_parameter", _rebuild_parameter),
    **{f"torch.{kind}": _Global(kind) for kind in STORAGES},
}


class _Unpickler(pickle.Unpickler):
    """Unpickle dictionaries of tensors, and nothing else."""

    def __init__(self, data: bytes, path: str) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        found = _GLOBALS.get(f"{module}.{name}")
        if found is None:
            raise Refusal(
                f"{self._path} must hold tensors only, received the global {module}.{name}. The "
                "file may hold code that runs when other libraries load it. Use a safetensors "
                "file of the model instead."
            )
        return found

    def persistent_load(self, pid: Any) -> Storage:
        if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
            raise ValueError("a reference is not one to a storage")
        _, kind, key, _, count, *view = pid
        if type(kind) is not _Global or kind.kind not in STORAGES or type(key) is not str:
            raise ValueError("a storage has no known type or no name")
        if not _natural(count) or view not in ([], [None]):
            raise ValueError(f"storage {key!r} has no size, or is a view of another")
        return Storage(kind.kind, key, count)


def unpickle(stream: Any, path: str) -> Any:
    """Return the object of the next pickle of `stream`, and leave the stream at its end."""
    start = stream.tell()
    for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        if opcode.name not in _OPCODES:
            raise Refusal(
                f"{path} must hold tensors only, received the pickle instruction {opcode.name}. "
                "The file may hold code that runs when other libraries load it. Use a "
                "safetensors file of the model instead."
            )
        # The unpickler allocates its memo up to the largest index.
        if opcode.name in ("BINPUT", "LONG_BINPUT") and int(argument or 0) > number:
            raise ValueError(f"memo index {argument} at instruction {number}")
    end = stream.tell()
    stream.seek(start)
    return _Unpickler(stream.read(end - start), path).load()
