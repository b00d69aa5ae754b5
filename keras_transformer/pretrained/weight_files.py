"""Weight files of published models: safetensors, PyTorch's, and Marian's npz."""

import io
import json
import math
import mmap
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import ml_dtypes
import numpy as np

from keras_transformer.pretrained.torch_file import read_torch_weights
from keras_transformer.utils.files import parse_yaml, read_json

_DTYPES = {
    **{"F16": np.dtype("<f2"), "F32": np.dtype("<f4"), "F64": np.dtype("<f8")},
    **{"I64": np.dtype("<i8"), "I32": np.dtype("<i4"), "I16": np.dtype("<i2")},
    **{"I8": np.dtype("i1"), "U8": np.dtype("u1"), "BOOL": np.dtype("?")},
    "BF16": np.dtype(ml_dtypes.bfloat16),
}
"""The NumPy types of safetensors' types, which are little-endian."""
_CONFIG = "special:model.yml"
_FLOATS = (np.float16, np.float32, np.float64)
_LARGEST_EXPANSION = 20
"""The most bytes of the arrays in a compressed file, as a multiple of the file's."""


def read_safetensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the tensors of a file such as `model.safetensors`.

    Args:
        path: The file.

    Returns:
        Arrays by name, which are read-only views of the mapped file.

    Raises:
        OSError: If the file does not exist, or cannot be mapped.
        ImportError: If `safetensors` is not installed.
        ValueError: If the file is damaged, or holds tensors of 8-bit floats.

    >>> read_safetensors("missing.safetensors")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs `pip install 'keras-transformer-mt[marian]'`."
        ) from error
    name = os.fspath(path)
    with open(name, "rb") as opened:  # Raises what `open` raises, with the name of the file.
        try:
            with safe_open(name, framework="np") as file:  # Checks the header.
                dtypes = {key: file.get_slice(key).get_dtype() for key in file.keys()}
            known = {key: _DTYPES[dtype] for key, dtype in dtypes.items() if dtype in _DTYPES}
            arrays = _map_tensors(opened, known)
        except OSError as error:  # The file is on a file system that cannot map it.
            error.filename = error.filename or name
            raise
        except (KeyError, SafetensorError, TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must be a safetensors file, received a damaged file or another kind of "
                f"file ({error}). Download it again."
            ) from error
    for key, dtype in dtypes.items():
        if key not in known:
            raise ValueError(
                f"{name} must hold tensors of {', '.join(_DTYPES)}, received {key!r} of {dtype}. "
                "Use weights that are not quantized."
            )
    return arrays


def _map_tensors(file: BinaryIO, dtypes: Mapping[str, np.dtype]) -> dict[str, np.ndarray]:
    """Return views of tensors of a safetensors file, by name."""
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(mapped[:8], "little")
    header, data = json.loads(mapped[8:start]), np.frombuffer(mapped, np.uint8)[start:]
    return {
        key: data[slice(*header[key]["data_offsets"])].view(dtype).reshape(header[key]["shape"])
        for key, dtype in dtypes.items()
    }


def read_marian_npz(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict]:
    """Return the weights and the configuration of a `model.npz` of Marian.

    Args:
        path: The file. Quantized models are not supported.

    Returns:
        Arrays by Marian's name, and the content of `special:model.yml`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged, holds quantized weights or has no configuration.

    >>> read_marian_npz("missing.npz")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    name = os.fspath(path)
    with open(name, "rb"):  # Raises what `open` raises.
        pass
    try:
        with zipfile.ZipFile(name) as archive:
            weights = _read_arrays(archive, os.path.getsize(name))
    except MemoryError:
        raise
    except Exception as error:  # A damaged archive or array raises errors of any type.
        raise ValueError(
            f"{name} must be a model.npz of Marian, received a damaged file or another kind of "
            f"file ({error}). Download it again, or convert a binary with `marian-conv`."
        ) from error
    if _CONFIG not in weights:
        raise ValueError(
            f"{name} must hold Marian's configuration as {_CONFIG!r}, which is missing. Use the "
            "model.npz that Marian saved in training."
        )
    encoded = weights.pop(_CONFIG)
    for key, array in weights.items():
        if key.endswith("_QuantMultA") or array.dtype not in _FLOATS:
            raise ValueError(
                f"{name} must hold weights that are not quantized, received {key!r} of "
                f"{array.dtype}. Use the model.npz before quantization."
            )
    text = encoded.tobytes().rstrip(b"\0")
    return weights, parse_yaml(text, f"{name}: {_CONFIG}")


def _read_arrays(archive: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file of this size in bytes, by name."""
    entries = archive.infolist()
    if sum(entry.file_size for entry in entries) > _LARGEST_EXPANSION * size:
        raise ValueError("its arrays are much larger than the file")
    return {
        entry.filename.removesuffix(".npy"): _read_array(archive, entry)
        for entry in entries
        if entry.filename.endswith(".npy")
    }


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    # `np.load` allocates what the header states before it reads any numbers.
    stream = io.BytesIO(archive.read(entry))
    version = np.lib.format.read_magic(stream)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, is_fortran, dtype = read_header(stream)
    numbers = stream.read()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != len(numbers):
        raise ValueError(f"{entry.filename} does not hold the numbers that it states")
    return np.frombuffer(numbers, dtype).reshape(shape, order="F" if is_fortran else "C")


_READERS: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    "model.safetensors": read_safetensors,
    "pytorch_model.bin": read_torch_weights,
}
_NAMES = [name + suffix for name in _READERS for suffix in ("", ".index.json")]


def read_weights(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the weights of a published model.

    Reads the first that exists of `model.safetensors`, `model.safetensors.index.json`,
    `pytorch_model.bin` and `pytorch_model.bin.index.json`. The index files list the files of a
    model in several parts.

    Args:
        folder: The folder of the model.

    Returns:
        Arrays by name, of the types in the files. Most are read-only views of the files, which
        must not change as long as the arrays are used.

    Raises:
        FileNotFoundError: If the folder holds none of these files, or not all parts.
        ValueError: If a file is damaged, or holds anything but tensors.

    >>> read_weights("missing")
    Traceback (most recent call last):
    FileNotFoundError: missing must hold model.safetensors, ...
    """
    folder = Path(folder)
    for name, read in _READERS.items():
        path = folder / name
        if path.is_file():
            return read(path)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _read_shards(index, read)
    raise FileNotFoundError(f"{folder} must hold {', '.join(_NAMES[:-1])} or {_NAMES[-1]}.")


def _weight_map(path: Path) -> dict[str, str]:
    """Return the file of each tensor; the files are in the folder of the index."""
    rule = f"{path} must hold a `weight_map` of tensor names to file names"
    found = read_json(path).get("weight_map")
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{rule}, which is missing or empty. Download it again.")
    for tensor, name in found.items():
        if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0:"):
            raise ValueError(f"{rule} without folders, received {name!r} for {tensor!r}.")
    return found


def _read_shards(index: Path, read: Callable[[Path], dict]) -> dict[str, np.ndarray]:
    places = _weight_map(index)
    weights = {}
    for name in sorted(set(places.values())):
        shard = index.with_name(name)
        if not os.path.isfile(shard):
            raise FileNotFoundError(f"{shard} is missing, which {index.name} lists. Download it.")
        tensors = read(shard)
        for key in [key for key, place in places.items() if place == name]:
            if key not in tensors:
                raise ValueError(f"{shard} must hold {key!r}, which {index.name} lists.")
            weights[key] = tensors[key]
    return weights
