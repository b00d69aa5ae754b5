"""PyTorch weight files, read without PyTorch and without running what they hold."""

import io
import math
import mmap
import os
import pickletools
import zipfile
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C  # The first pickle of a file written before PyTorch 1.6.
_MAX_RANK = 32
_MOST_INSTRUCTIONS = 1_000_000
"""The most of a pickle. A tensor takes about 30."""
_MOST_COPIES = 8
"""The most bytes of converted tensors, as a multiple of the file's."""
_STORAGES = {
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",  # Of which a view is bfloat16.
    "DoubleStorage": "f8",
    "LongStorage": "i8",
    "IntStorage": "i4",
}
"""The NumPy type of each kind of storage."""

# What `torch.save` writes for a dictionary of tensors. INST, OBJ, NEWOBJ and EXT are not in it.
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_LITERALS = frozenset(
    """
    BININT BININT1 BININT2 LONG1 BINFLOAT
    BINUNICODE SHORT_BINUNICODE BINSTRING SHORT_BINSTRING
    """.split()
)
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_OPCODES = frozenset(
    """
    PROTO FRAME STOP MARK POP POP_MARK BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET
    TUPLE APPEND APPENDS SETITEM SETITEMS GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID
    """.split()
).union(_CONSTANTS, _LITERALS, _TUPLES)


class _Refusal(ValueError):
    """A pickle that holds more than tensors; its message is complete."""


class _Storage(NamedTuple):
    """The numbers of tensors: their type, name and count."""

    kind: str
    key: str
    size: int


class _StoredTensor(NamedTuple):
    """A view of a storage."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _OrderedDict(dict):
    """An ordered dictionary of the file, which may be given attributes; they are dropped."""


class _Global(NamedTuple):
    """A global that a file may use, and the function that stands for it, if it may be called."""

    kind: str
    build: Callable | None = None


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _rebuild_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any
) -> _StoredTensor:
    if type(storage) is not _Storage or type(shape) is not tuple or type(strides) is not tuple:
        raise ValueError("a tensor is not made of a storage, a shape and strides")
    if len(shape) != len(strides) or len(shape) > _MAX_RANK:
        raise ValueError(f"a tensor has {len(shape)} axes and {len(strides)} strides")
    if not all(map(_natural, (offset, *shape, *strides))):
        raise ValueError("an offset, size or stride of a tensor is not a natural number")
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    elements = math.prod(shape)
    if elements > storage.size or (elements and last >= storage.size):
        raise ValueError(f"a tensor of shape {shape} is larger than its storage {storage.key!r}")
    return _StoredTensor(storage, offset, shape, strides)


def _rebuild_parameter(tensor: Any, *rest: Any) -> _StoredTensor:
    if type(tensor) is not _StoredTensor:
        raise ValueError("a parameter does not hold a tensor")
    return tensor


def _ordered_dict(pairs: Any = ()) -> _OrderedDict:
    found = _OrderedDict()
    _update(found, pairs)
    return found


_GLOBALS = {
    "collections.OrderedDict": _Global("OrderedDict", _ordered_dict),
    "torch._utils._rebuild_tensor_v2": _Global("_rebuild_tensor_v2", _rebuild_tensor),
    "torch._utils._rebuild_parameter": _Global("_rebuild_parameter", _rebuild_parameter),
    **{f"torch.{kind}": _Global(kind) for kind in _STORAGES},
}


def _find_global(name: str, path: str) -> _Global:
    if name not in _GLOBALS:
        raise _Refusal(
            f"{path} must hold tensors only, received the global {name}. The file may hold code "
            "that runs when other libraries load it. Use a safetensors file of the model instead."
        )
    return _GLOBALS[name]


def _find_storage(pid: Any) -> _Storage:
    if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != "storage":
        raise ValueError("a reference is not one to a storage")
    _, kind, key, _, count, *view = pid
    if type(kind) is not _Global or kind.kind not in _STORAGES or type(key) is not str:
        raise ValueError("a storage has no known type or no name")
    if not _natural(count) or view not in ([], [None]):
        raise ValueError(f"storage {key!r} has no size, or is a view of another")
    return _Storage(kind.kind, key, count)


def _unpickle(stream: Any, path: str) -> Any:
    """Return the object of the next pickle of `stream`, and leave the stream at its end.

    Python's unpickler would hash any key, which takes forever for a tuple of equal tuples, and
    overflows the stack for a deep one.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def take(start: int) -> list[Any]:
        items = stack[start:]
        del stack[start:]
        return items

    argument: Any
    for number, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
        name = opcode.name
        if name not in _OPCODES:
            raise _Refusal(
                f"{path} must hold tensors only, received the pickle instruction {name}. The file "
                "may hold code that runs when other libraries load it. Use a safetensors file of "
                "the model instead."
            )
        if number == _MOST_INSTRUCTIONS:
            raise ValueError(f"a pickle has more than {number:,} instructions")
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            stack.append(argument)
        elif name == "MARK":
            marks.append(len(stack))
        elif name in ("POP", "POP_MARK"):
            take(marks.pop() if name == "POP_MARK" else len(stack) - 1)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            index = len(memo) if argument is None else argument
            if index > number:
                raise ValueError(f"memo index {index} at instruction {number}")
            memo[index] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in _TUPLES or name == "TUPLE":
            start = len(stack) - _TUPLES[name] if name in _TUPLES else marks.pop()
            stack.append(tuple(take(start)))
        elif name in ("APPEND", "APPENDS"):
            items = take(len(stack) - 1 if name == "APPEND" else marks.pop())
            _as_list(stack[-1]).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = take(len(stack) - 2 if name == "SETITEM" else marks.pop())
            _update(stack[-1], zip(items[::2], items[1::2], strict=True))
        elif name == "GLOBAL":
            stack.append(_find_global(argument.replace(" ", "."), path))
        elif name == "STACK_GLOBAL":
            stack.append(_find_global(".".join(take(len(stack) - 2)), path))
        elif name == "REDUCE":
            function, arguments = take(len(stack) - 2)
            stack.append(_call(function, arguments))
        elif name == "BUILD":
            stack.pop()  # The attributes of an ordered dictionary, such as its `_metadata`.
            if type(stack[-1]) is not _OrderedDict:
                raise ValueError("an object other than an ordered dictionary is given a state")
        elif name == "BINPERSID":
            stack.append(_find_storage(stack.pop()))
    return stack.pop()


def _as_list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise ValueError("items are added to what is not a list")
    return value


def _update(mapping: Any, items: Iterable[tuple[Any, Any]]) -> None:
    if type(mapping) not in (dict, _OrderedDict):
        raise ValueError("items are set in what is not a dictionary")
    for key, value in items:
        if type(key) is not str:
            raise ValueError(f"a key of a dictionary is a {type(key).__name__}")
        mapping[key] = value


def _call(function: Any, arguments: Any) -> Any:
    if type(function) is not _Global or function.build is None or type(arguments) is not tuple:
        raise ValueError("what is called is not a function of tensors")
    return function.build(*arguments)


class _Source(NamedTuple):
    """The object of a file, where its storages are (start and size in bytes), and their order."""

    content: Any
    places: dict[str, tuple[int, int]]
    order: str


def _read_zip(path: str, mapped: mmap.mmap) -> _Source:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > len(mapped):
        raise ValueError("its entries overlap, or are longer than the file")
    places = {}
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
            raise ValueError(f"entry {entry.filename!r} is compressed or encrypted")
        header = mapped[entry.header_offset : entry.header_offset + 30]
        if len(header) < 30 or header[:4] != b"PK\x03\x04":
            raise ValueError(f"entry {entry.filename!r} has no header")
        lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:], "little")
        start = entry.header_offset + 30 + lengths
        if entry.file_size != entry.compress_size or start + entry.file_size > len(mapped):
            raise ValueError(f"entry {entry.filename!r} ends after the file")
        with memoryview(mapped) as view, view[start : start + entry.file_size] as content:
            if zlib.crc32(content) != entry.CRC:
                raise ValueError(f"entry {entry.filename!r} does not have its checksum")
        places[entry.filename] = (start, entry.file_size)
    names = [name for name in places if name.count("/") == 1 and name.endswith("/data.pkl")]
    if len(names) != 1:
        raise ValueError(f"{len(names)} entries are named FOLDER/data.pkl")
    folder = names[0].removesuffix("data.pkl")
    start, size = places[names[0]]
    content = _unpickle(io.BytesIO(mapped[start : start + size]), path)
    order = "little"
    if f"{folder}byteorder" in places:
        start, size = places[f"{folder}byteorder"]
        order = mapped[start : start + min(size, 8)].decode()
    prefix = f"{folder}data/"
    storages = {n.removeprefix(prefix): at for n, at in places.items() if n.startswith(prefix)}
    return _Source(content, storages, order)


def _kinds(content: Any) -> dict[str, str]:
    """Return the type of each storage that a dictionary of tensors uses."""
    if not isinstance(content, dict):
        raise ValueError(f"a {type(content).__name__} instead of a dictionary")
    for name, tensor in content.items():
        if type(name) is not str or type(tensor) is not _StoredTensor:
            raise ValueError("a value of the dictionary is not a tensor, or has no name")
    return {tensor.storage.key: tensor.storage.kind for tensor in content.values()}


def _read_stream(path: str, mapped: mmap.mmap) -> _Source:
    """Read the format before PyTorch 1.6: five pickles, then the size and data of each storage."""
    if _unpickle(mapped, path) != _MAGIC:
        raise ValueError("neither of the two formats of torch.save")
    _unpickle(mapped, path)  # The version of the format.
    system = _unpickle(mapped, path)
    content = _unpickle(mapped, path)
    keys = _unpickle(mapped, path)
    kinds = _kinds(content)
    order = "little" if system["little_endian"] else "big"
    integer = np.dtype("i8").newbyteorder(order)
    places = {}
    for key in keys:
        if key not in kinds:
            raise ValueError("no tensor says which type a storage has")
        count = int(np.frombuffer(mapped.read(8), integer)[0])
        size = count * np.dtype(_STORAGES[kinds[key]]).itemsize
        start = mapped.tell()
        if count < 0 or start + size > len(mapped):
            raise ValueError(f"storage {key!r} ends after the file")
        places[key] = (start, size)
        mapped.seek(start + size)
    return _Source(content, places, order)


def _array(tensor: _StoredTensor, source: _Source, data: np.ndarray) -> np.ndarray:
    storage = tensor.storage
    if storage.key not in source.places:
        raise ValueError(f"storage {storage.key!r} is missing")
    if source.order not in ("little", "big"):
        raise ValueError("the byte order is neither little nor big")
    dtype = np.dtype(_STORAGES[storage.kind]).newbyteorder(source.order)
    start, size = source.places[storage.key]
    if storage.size * dtype.itemsize > size:
        raise ValueError(f"storage {storage.key!r} of {storage.size} elements has {size} bytes")
    flat = data[start : start + storage.size * dtype.itemsize].view(dtype)
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    array = np.lib.stride_tricks.as_strided(
        flat[tensor.offset :], tensor.shape, strides, writeable=False
    )
    if storage.kind != "BFloat16Storage":
        return array
    # NumPy has no bfloat16 in another byte order.
    return array.astype("u2", copy=False).view(ml_dtypes.bfloat16)


def read_torch_weights(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the tensors of a file written by `torch.save`, such as `pytorch_model.bin`.

    PyTorch is not needed, and nothing in the file runs: a file with anything but tensors in a
    dictionary is refused.

    Args:
        path: The file, in the zip format or in the format before PyTorch 1.6.

    Returns:
        Arrays by name: read-only views of the mapped file, but copies of big-endian bfloat16.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged, or holds anything but tensors.

    >>> read_torch_weights("missing.bin")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    name = os.fspath(path)
    with open(name, "rb") as file:
        if not file.read(1):
            raise ValueError(f"{name} must be a file written by torch.save, received 0 bytes.")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        is_zip = mapped[:4] == b"PK\x03\x04"
        source = _read_zip(name, mapped) if is_zip else _read_stream(name, mapped)
        _kinds(source.content)
        data = np.frombuffer(mapped, np.uint8)
        copied = source.content.values() if source.order == "big" else ()
        if sum(2 * math.prod(each.shape) for each in copied) > _MOST_COPIES * len(mapped):
            raise ValueError("its tensors are much larger than the file")
        return {key: _array(tensor, source, data) for key, tensor in source.content.items()}
    except _Refusal:
        raise
    except Exception as error:  # A damaged pickle raises errors of any type.
        raise ValueError(
            f"{name} must be a file of tensors written by torch.save, received a damaged file or "
            f"another kind of file ({error}). Download it again."
        ) from error
