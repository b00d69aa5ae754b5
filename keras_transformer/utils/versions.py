"""Version directories of an exported model: NAME/1, NAME/2, ..., as the model server reads them."""

import functools
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

GRAPH = "saved_model.pb"
HIGHEST = (1 << 63) - 1
"""The highest version that the model server's messages can hold."""


def numbered_versions(path: str | os.PathLike) -> dict[int, Path]:
    """Return the entries of a directory whose names are numbers, by number.

    Numbers above `HIGHEST` are left out, as TensorFlow Serving does, with a line in the log.

    Args:
        path: A model's directory. It may be missing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("1", "10", "9", "10.bak", "serving"):
    ...         (Path(folder) / name).mkdir()
    ...     sorted(numbered_versions(folder))
    [1, 9, 10]
    """
    path = Path(path)
    children = path.iterdir() if path.is_dir() else ()
    return {int(child.name): child for child in children if _is_number(child.name)}


def find_saved_model(path: str | os.PathLike) -> Path | None:
    """Return the SavedModel at a path, or the highest version below it.

    Args:
        path: A version directory, such as saved_models/NAME/1, or the directory of all versions.

    Returns:
        The version directory, or None if there is no SavedModel.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for version in "129":
    ...         (Path(folder) / version).mkdir()
    ...     for version in "12":  # 9 is not whole
    ...         (Path(folder) / version / "saved_model.pb").touch()
    ...     find_saved_model(folder).name
    '2'
    """
    path = Path(path)
    if (path / GRAPH).exists():
        return path
    versions = numbered_versions(path)
    whole = [number for number, version in versions.items() if (version / GRAPH).exists()]
    return versions[max(whole)] if whole else None


def find_served_version(path: str | os.PathLike) -> Path:
    """Return the version that a model server loads first, as an absolute path.

    The server loads the highest number, whatever is in it.

    Args:
        path: The directory of all versions, or the directory of the highest version.

    Raises:
        FileNotFoundError: If there is no SavedModel where the server looks for one.
        ValueError: If `path` is a SavedModel that the server would not load.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for version in "12":
    ...         (Path(folder) / version).mkdir()
    ...         (Path(folder) / version / "saved_model.pb").touch()
    ...     find_served_version(folder).name
    '2'
    """
    path = Path(os.path.abspath(path))  # Unlike `resolve`, it keeps the name of a link.
    is_version = (path / GRAPH).exists()
    if is_version and not _is_number(path.name):
        raise ValueError(
            f"The model server loads numbered directories, and {path} is a SavedModel whose name "
            f"is not a number. Move it to {path / '1'}."
        )
    base = path.parent if is_version else path
    versions = numbered_versions(base)
    if not versions:
        raise FileNotFoundError(
            f"There is no model in {path}: expected {path / '1' / GRAPH} or a higher number. "
            "Export one with python -m pipelines.export --output, and give the same path here."
        )
    highest = versions[max(versions)]
    if not (highest / GRAPH).exists():
        raise FileNotFoundError(
            f"{highest} has no {GRAPH}, and the model server loads the highest number. Remove or "
            "rename that directory."
        )
    if is_version and path != highest:
        raise ValueError(
            f"The model server loads the highest version, {highest}, and not {path.name}. Give "
            f"{base} to serve it, or move {path.name} to another directory, NAME/1."
        )
    return highest


def _is_number(name: str) -> bool:
    is_number = name.isascii() and name.isdecimal()
    if is_number and int(name) > HIGHEST:
        _warn(name)
        return False
    return is_number


@functools.cache  # A server looks every second.
def _warn(name: str) -> None:
    log.warning("no version: %s is above %d, the highest version. Rename it.", name, HIGHEST)
