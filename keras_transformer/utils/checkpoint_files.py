"""The files of checkpoints: names, writing them with a checksum, reading and checking them."""

import errno
import hashlib
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import keras
import numpy as np

from keras_transformer.utils.errors import one_line
from keras_transformer.utils.files import whole_file

# A checkpoint ends with this and the digest of what is before, which readers of HDF5 ignore. In the
# file itself, content and checksum appear at once.
_LABEL = b"\nSHA-256 "
_TRAILER = len(_LABEL) + hashlib.sha256().digest_size * 2
_CHUNK = 2**20
_ARRAYS = "run"
_SUFFIX = ".weights.h5"
OTHER_METRICS = ("nll", "chrf")
"""Scores whose best epochs are kept too; they don't select an epoch while a run trains."""


class Position(NamedTuple):
    """How far a run is: the epochs that are complete, and the steps of the one after them."""

    epochs: int
    steps: int

    def __str__(self) -> str:
        if self.steps:
            return f"step {self.steps} of epoch {self.epochs + 1}"
        return f"epoch {self.epochs}"


def position_of(path: Path) -> Position:
    """Return how far a run was at a checkpoint, by the name of its file.

    >>> str(position_of(Path("step-0013-000400.weights.h5")))
    'step 400 of epoch 13'
    >>> str(position_of(Path("best-0007-bleu-31.4159.weights.h5")))
    'epoch 7'
    """
    kind, epoch, *rest = path.name.removesuffix(_SUFFIX).split("-")
    return Position(int(epoch) - 1, int(rest[0])) if kind == "step" else Position(int(epoch), 0)


def score_of(path: Path) -> float:
    """Return the score in the name of the checkpoint of a best epoch."""
    return float(path.name.removesuffix(_SUFFIX).split("-")[3])


def best_first(directory: Path, metric: str | None = None) -> list[Path]:
    """Return the checkpoints of the best epochs, best first, and the first epoch of equal ones.

    Args:
        directory: The directory of the checkpoints.
        metric: What they are the best by: "nll", of which less is better, or "chrf"; by default
            the score that selects, BLEU or F1.
    """
    paths = [
        path
        for path in sorted(directory.glob(f"best-*{_SUFFIX}"), key=position_of)
        if (name := path.name.split("-")[2]) == metric or not (metric or name in OTHER_METRICS)
    ]
    return sorted(paths, key=score_of, reverse=metric != "nll")


def save_checkpoint(
    model: keras.Model, path: Path, arrays: Mapping[str, np.ndarray] | None = None
) -> None:
    """Write the weights and the state of the optimizer to a file, with a checksum.

    Args:
        model: The model.
        path: The file, which appears only when it is complete; its name ends in .weights.h5.
        arrays: Others to add by name, which `load_weights` ignores; see `read_arrays`.

    Raises:
        OSError: If the disk is full.

    >>> import tempfile
    >>> model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "epoch-0001.weights.h5"
    ...     save_checkpoint(model, path)
    ...     print(damage(path))
    None
    """
    import h5py

    with whole_file(path) as temporary:
        _check_space(temporary, _variables(model), arrays or {})
        model.save_weights(temporary)
        if arrays:
            with h5py.File(temporary, "a") as file:
                for name, array in arrays.items():
                    file[f"{_ARRAYS}/{name}"] = array
        digest = _digest(temporary, temporary.stat().st_size)
        with open(temporary, "ab") as file:
            file.write(_LABEL + digest)


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Return the arrays that `save_checkpoint` added to the weights of a checkpoint, by name."""
    import h5py

    with h5py.File(path, "r") as file:
        return {name: array[()] for name, array in file.get(_ARRAYS, {}).items()}


def weight_shapes(path: str | os.PathLike) -> dict[str, list[int]] | None:
    """Return the shape of each weight in a checkpoint by name, or None if it cannot be read."""
    import h5py

    shapes = {}

    def add(name, item):
        if isinstance(item, h5py.Dataset) and name.split("/")[0] not in ("optimizer", _ARRAYS):
            shapes[name] = list(item.shape)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(add)
    except OSError:
        return None
    return shapes


def damage(path: str | os.PathLike) -> str | None:
    """Return what is wrong with the file of a checkpoint, or None if it is as it was written.

    A file without a checksum, from version 0.1 or `save_weights`, is only checked for its length.
    """
    import h5py

    size = os.path.getsize(path)
    with open(path, "rb") as file:
        file.seek(max(0, size - _TRAILER))
        trailer = file.read()
    if trailer.startswith(_LABEL):
        is_whole = _digest(path, size - _TRAILER) == trailer.removeprefix(_LABEL)
        return None if is_whole else "its checksum differs"
    try:
        h5py.File(path, "r").close()
    except OSError as error:
        return one_line(error)
    return None


def _digest(path: str | os.PathLike, size: int) -> bytes:
    """Return the SHA-256 of the first `size` bytes of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(min(_CHUNK, size)):
            digest.update(chunk)
            size -= len(chunk)
    return digest.hexdigest().encode()


def load_checkpoint(model: keras.Model, path: str | os.PathLike) -> None:
    """Load a file that `save_checkpoint` or `model.save_weights` wrote, and check it.

    Args:
        model: A model with the architecture of the checkpoint.
        path: The file, whose name ends in .weights.h5.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is damaged, belongs to another architecture, or has NaN or infinite
            values.
    """
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist. Give a file that save_weights wrote.")
    try:
        if reason := damage(path):
            raise ValueError(reason)
        model.load_weights(path)
    except (KeyError, OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"{path} must be a complete checkpoint of this model: {one_line(error)}. Restore "
            "it, or remove it to go on from the checkpoint before."
        ) from error
    if name := not_finite(model):
        raise ValueError(
            f"{path} must have finite weights, received NaN or infinity in {name}. Remove it to go "
            "on from the checkpoint before; if there is no other, train in another directory with "
            "a lower training.learning_rate_scale."
        )


def _variables(model: keras.Model) -> list[keras.Variable]:
    optimizer = getattr(model, "optimizer", None)  # Only a compiled model has one.
    return [*model.weights, *(optimizer.variables if optimizer else ())]


def _check_space(
    path: Path, variables: Sequence[keras.Variable], arrays: Mapping[str, np.ndarray]
) -> None:
    """Raise an OSError if there is no space for a checkpoint: HDF5 may crash on a full disk."""
    numbers = sum(math.prod(variable.shape) for variable in variables)
    size = 2**20 + 4 * numbers + sum(array.nbytes for array in arrays.values())
    if not hasattr(os, "posix_fallocate"):  # It also knows quotas and limits, but macOS lacks it.
        if shutil.disk_usage(path.parent).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return
    with open(path, "wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno in (errno.EDQUOT, errno.EFBIG, errno.ENOSPC):
                raise  # Others mean that the file system cannot tell.


def not_finite(model: keras.Model) -> str | None:
    """Return the path of a weight, or of the optimizer's state, that has NaN or infinite values.

    Returns:
        The path of the first such variable, or None if all values are finite.
    """
    for variable in _variables(model):
        is_number = keras.backend.is_float_dtype(variable.dtype)
        if is_number and not keras.ops.all(keras.ops.isfinite(variable)):
            return variable.path
    return None
