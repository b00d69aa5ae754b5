"""Weight files in the safetensors format."""

import os
from typing import Any

import ml_dtypes  # noqa: F401  Gives NumPy the type bfloat16; installed with TensorFlow.
import numpy as np

_LOW_PRECISION = ("F16", "BF16")
_DTYPES = (*_LOW_PRECISION, "F32", "F64", "I64", "I32", "I16", "I8", "U8", "BOOL")


def _array(file: Any, key: str, path: str) -> np.ndarray:
    dtype = file.get_slice(key).get_dtype()
    if dtype not in _DTYPES:
        raise ValueError(
            f"{path} must hold tensors of {', '.join(_DTYPES)}, received {key!r} of {dtype}. Use "
            "weights that are not quantized."
        )
    array = file.get_tensor(key)
    return array.astype(np.float32) if dtype in _LOW_PRECISION else array


def read_safetensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the tensors of a file such as `model.safetensors`.

    Args:
        path: The file.

    Returns:
        Arrays by name: float16 and bfloat16 as float32, other types as they are.

    Raises:
        FileNotFoundError: If the file does not exist.
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
    with open(name, "rb"):  # Raises what `open` raises, with the name of the file.
        pass
    try:
        with safe_open(name, framework="np") as file:
            return {key: _array(file, key, name) for key in file.keys()}
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{name} must be a safetensors file, received a damaged file or another kind of file "
            f"({error}). Download it again."
        ) from error
