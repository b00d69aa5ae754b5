"""The weights in the folder of a published model, in one file or in several."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from keras_transformer.pretrained.safetensors_file import read_safetensors
from keras_transformer.pretrained.torch_file import read_torch_weights

_READERS: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
    "model.safetensors": read_safetensors,
    "pytorch_model.bin": read_torch_weights,
}
_NAMES = [name + suffix for name in _READERS for suffix in ("", ".index.json")]


def _weight_map(path: Path) -> dict[str, str]:
    """Return the file of each tensor; the files are in the folder of the index."""
    rule = f"{path} must hold a `weight_map` of tensor names to file names"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{rule} in JSON ({error}). Download it again.") from error
    found = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(found, dict) or not found:
        raise ValueError(f"{rule}, received none. Download it again.")
    for tensor, name in found.items():
        if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\\0:"):
            raise ValueError(f"{rule} without folders, received {name!r} for {tensor!r}.")
    return found


def _read_shards(index: Path, read: Callable[[Path], dict]) -> dict[str, np.ndarray]:
    places = _weight_map(index)
    weights = {}
    for name in sorted(set(places.values())):
        shard = index.with_name(name)
        if not shard.is_file():
            raise FileNotFoundError(f"{shard} is missing, which {index.name} lists. Download it.")
        tensors = read(shard)
        for key in [key for key, place in places.items() if place == name]:
            if key not in tensors:
                raise ValueError(f"{shard} must hold {key!r}, which {index.name} lists.")
            weights[key] = tensors[key]
    return weights


def read_weights(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the weights of a published model.

    Reads the first that exists of `model.safetensors`, `model.safetensors.index.json`,
    `pytorch_model.bin` and `pytorch_model.bin.index.json`. The index files list the files of a
    model in several parts.

    Args:
        folder: The folder of the model.

    Returns:
        Arrays by name: float16 and bfloat16 as float32, other types as they are.

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
