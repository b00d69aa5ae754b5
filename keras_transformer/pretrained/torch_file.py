"""PyTorch weight files, read without PyTorch and without running what they hold."""

import io
import mmap
import os
import zipfile
import zlib
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.pretrained.torch_pickle import STORAGES, Refusal, StoredTensor, unpickle

_MAGIC = 0x1950A86A20F9469CFC6C  # The first pickle of a file written before PyTorch 1.6.


class _Source(NamedTuple):
    """The object of a file, where its storages are (start and size in bytes), and their order."""

    content: Any
    places: dict[str, tuple[int, int]]
    order: str


def _read_zip(path: str, mapped: mmap.mmap) -> _Source:
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
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
    content = unpickle(io.BytesIO(mapped[start : start + size]), path)
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
        if type(name) is not str or type(tensor) is not StoredTensor:
            raise ValueError("a value of the dictionary is not a tensor, or has no name")
    return {tensor.storage.key: tensor.storage.kind for tensor in content.values()}


def _read_stream(path: str, mapped: mmap.mmap) -> _Source:
    """Read the format before PyTorch 1.6: five pickles, then the size and data of each storage."""
    if unpickle(mapped, path) != _MAGIC:
        raise ValueError("neither of the two formats of torch.save")
    unpickle(mapped, path)  # The version of the format.
    system = unpickle(mapped, path)
    content = unpickle(mapped, path)
    keys = unpickle(mapped, path)
    kinds = _kinds(content)
    order = "little" if system["little_endian"] else "big"
    integer = np.dtype("i8").newbyteorder(order)
    places = {}
    for key in keys:
        if key not in kinds:
            raise ValueError("no tensor says which type a storage has")
        count = int(np.frombuffer(mapped.read(8), integer)[0])
        size = count * np.dtype(STORAGES[kinds[key]]).itemsize
        start = mapped.tell()
        if count < 0 or start + size > len(mapped):
            raise ValueError(f"storage {key!r} ends after the file")
        places[key] = (start, size)
        mapped.seek(start + size)
    return _Source(content, places, order)


def _array(tensor: StoredTensor, source: _Source, data: np.ndarray) -> np.ndarray:
    storage = tensor.storage
    if storage.key not in source.places:
        raise ValueError(f"storage {storage.key!r} is missing")
    if source.order not in ("little", "big"):
        raise ValueError("the byte order is neither little nor big")
    dtype = np.dtype(STORAGES[storage.kind]).newbyteorder(source.order)
    start, size = source.places[storage.key]
    if storage.size * dtype.itemsize > size:
        raise ValueError(f"storage {storage.key!r} of {storage.size} elements has {size} bytes")
    flat = data[start : start + storage.size * dtype.itemsize].view(dtype)
    strides = [stride * dtype.itemsize for stride in tensor.strides]
    array = np.lib.stride_tricks.as_strided(
        flat[tensor.offset :], tensor.shape, strides, writeable=False
    )
    if storage.kind == "BFloat16Storage":
        bits = array.astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    if storage.kind == "HalfStorage":
        return array.astype(np.float32)
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def read_torch_weights(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the tensors of a file written by `torch.save`, such as `pytorch_model.bin`.

    PyTorch is not needed, and nothing in the file runs: a file with anything but tensors in a
    dictionary is refused.

    Args:
        path: The file, in the zip format or in the format before PyTorch 1.6.

    Returns:
        Arrays by name: float16 and bfloat16 as float32, other types as they are. Arrays that need
        no conversion are read-only views of the mapped file.

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
        return {key: _array(tensor, source, data) for key, tensor in source.content.items()}
    except Refusal:
        raise
    except Exception as error:  # A damaged pickle raises errors of any type.
        raise ValueError(
            f"{name} must be a file of tensors written by torch.save, received a damaged file or "
            f"another kind of file ({error}). Download it again."
        ) from error
