"""Files and directories that are either complete or absent."""

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_LONGEST_JSON = 50_000_000


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to `path` if the block succeeds.

    The temporary path has the same suffix and directory, and is unique to each writer. An error of
    writing, such as that of a full disk, names the final path.

    Args:
        path: The final path. An existing file is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "scores.json") as temporary:
    ...         _ = temporary.write_text("{}")
    ...     [file.name for file in Path(folder).iterdir()]
    ['scores.json']
    """
    temporary = path.with_name(f"writing-{uuid.uuid4().hex}-{path.name}")
    try:
        yield temporary
        flush_and_rename(temporary, path)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def flush_and_rename(temporary: Path, path: Path) -> Path:
    """Rename a file after its content is on the disk, so that a power loss cannot separate them.

    Args:
        temporary: The file.
        path: The new path. An existing file is replaced.

    Returns:
        The new path.
    """
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    return temporary.replace(path)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory to fill, and rename it to `path` if the block succeeds.

    Args:
        path: The final path. An existing directory is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_directory(Path(folder) / "model") as temporary:
    ...         _ = (temporary / "config.yaml").write_text("{}")
    ...     [str(path.relative_to(folder)) for path in Path(folder).rglob("*")]
    ['model', 'model/config.yaml']
    """
    temporary = path.with_name(f"writing-{uuid.uuid4().hex}-{path.name}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if path.is_dir() and any(path.iterdir()):
            _replace_directory(temporary, path)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_directory(temporary: Path, path: Path) -> None:
    """Rename a directory to the path of another, which is removed afterwards."""
    replaced = path.with_name(f"replaced-{uuid.uuid4().hex}-{path.name}")
    path.rename(replaced)
    try:
        temporary.rename(path)
    except OSError:
        replaced.rename(path)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def read_json(path: Path, remedy: str = "Restore it") -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        path: The file.
        remedy: What an error says to do.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If it is damaged, too long or too deep, or holds anything else.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. {remedy}.")
    try:
        if (size := path.stat().st_size) > _LONGEST_JSON:
            raise ValueError(f"it must have at most {_LONGEST_JSON:,} bytes, received {size:,}")
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"it must hold an object, received {type(values).__name__}")
    except (RecursionError, ValueError) as error:
        raise ValueError(f"{path} is not JSON, or is damaged: {error}. {remedy}.") from error
    return values


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object to a file, which appears only when it is complete."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
