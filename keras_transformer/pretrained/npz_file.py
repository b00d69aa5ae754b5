"""The weights and the configuration of a model that Marian trained."""

import os
import zipfile
import zlib

import numpy as np
import yaml

_CONFIG = "special:model.yml"
_FLOATS = (np.float16, np.float32, np.float64)


def _weights(path: str) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except FileNotFoundError:
        raise
    except (
        AttributeError,
        EOFError,
        KeyError,
        NotImplementedError,
        OSError,
        RuntimeError,
    ) as error:
        problem: Exception = error
    except (SyntaxError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        problem = error
    raise ValueError(
        f"{path} must be a model.npz of Marian, received a damaged file or another kind of file "
        f"({problem}). Download it again, or convert a binary with `marian-conv`."
    ) from problem


def read_marian_npz(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict]:
    """Return the weights and the configuration of a `model.npz` of Marian.

    Args:
        path: The file. Binary models (`.bin`) and quantized models are not supported.

    Returns:
        Arrays by Marian's name, and the content of `special:model.yml`.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged, holds quantized weights or has no configuration.

    >>> read_marian_npz("model.bin")
    Traceback (most recent call last):
    ValueError: model.bin is a binary model of Marian, ...
    """
    name = os.fspath(path)
    if name.endswith(".bin"):
        raise ValueError(
            f"{name} is a binary model of Marian, which may be quantized or packed. Use the "
            "model.npz that it was made from."
        )
    weights = _weights(name)
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
    try:
        config = yaml.safe_load(encoded.tobytes().rstrip(b"\0").decode("utf-8"))
    except (RecursionError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        raise ValueError(
            f"{name}: {_CONFIG} must be YAML in UTF-8 ({error}). Download the file again."
        ) from error
    if not isinstance(config, dict):
        raise ValueError(f"{name}: {_CONFIG} must be a mapping, received {type(config).__name__}.")
    return weights, config
