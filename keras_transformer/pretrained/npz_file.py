"""The weights that Marian writes: a NumPy archive with the model's configuration inside."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml

_OPTIONS = "special:model.yml"


def read_marian_npz(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the weights of a model by name, in float32, and its options.

    Args:
        path: A .npz file that Marian wrote.

    Raises:
        ValueError: If the file is damaged, has no options, or its weights are integers.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise ValueError(
            f"{path} is not a NumPy archive, or is damaged: {error}. Give the .npz file of a "
            "training run by Marian, or restore it."
        ) from error
    if _OPTIONS not in arrays:
        raise ValueError(f"{path} must hold its options as {_OPTIONS!r}, as Marian writes them.")
    try:
        text = arrays.pop(_OPTIONS).tobytes().rstrip(b"\0").decode("utf-8")
        options = yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path} is damaged: {_OPTIONS!r} is not YAML ({error}).") from error
    if not isinstance(options, dict):
        raise ValueError(f"{path} is damaged: {_OPTIONS!r} does not hold options by name.")
    if integers := [name for name, array in arrays.items() if array.dtype.kind != "f"]:
        raise ValueError(
            f"The weights in {path} must be floats, received {arrays[integers[0]].dtype} for "
            f"{integers[0]}. Give the model before it was quantized."
        )
    return {name: array.astype("float32") for name, array in arrays.items()}, options
