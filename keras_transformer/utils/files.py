"""Files and directories that are either complete or absent."""

import importlib
import json
import os
import shutil
import tempfile
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_transformer.utils.errors import one_line

_LONGEST_JSON = 50_000_000
_LONGEST_YAML = 100_000
"""Bytes; PyYAML reads about 100,000 characters a second."""
_DEEPEST_YAML = 20


def as_path(address: str | os.PathLike) -> Path:
    """Return a path on the disk, or one of an object store by its address.

    Args:
        address: A path, or an address such as file:///corpus or s3://bucket/corpus.

    Returns:
        A `Path`, or an object of universal-pathlib with the same methods.

    Raises:
        ImportError: If the package of an object store is missing.
        ValueError: If an address with file:// names another machine.

    >>> as_path("corpus/a.txt"), as_path("file:///corpus/a%20b-?.txt")
    (PosixPath('corpus/a.txt'), PosixPath('/corpus/a b-?.txt'))
    """
    text = str(address)
    if "://" not in text:
        return Path(address)
    if text.startswith("file://"):
        host, slash, rest = text.removeprefix("file://").partition("/")
        if host not in ("", "localhost"):
            raise ValueError(
                f"file:// must be followed by a whole path of this machine, received {text}. Write "
                f"file:///{host}/{rest} for /{host}/{rest}, or the path alone."
            )
        return Path(urllib.parse.unquote(slash + rest))
    return import_of_corpora("upath").UPath(text)


def is_remote(path: Path) -> bool:
    """Return whether a path of `as_path` is in an object store, which has no renaming or locks."""
    return not isinstance(path, Path)


def import_of_corpora(name: str) -> Any:
    """Import a module of the extra `corpora`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            "Parquet, zstd and object stores need pip install 'keras-transformer-mt[corpora]'"
        ) from error


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, and rename it to `path` if the block succeeds.

    The temporary path has the same suffix and directory, and is unique to each writer. An error of
    writing, such as that of a full disk, names the final path. A file of an object store is written
    on the disk and copied there as a whole, and a device or pipe is written to directly.

    Args:
        path: The final path. An existing file is replaced, also where a link points to it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "scores.json") as temporary:
    ...         _ = temporary.write_text("{}")
    ...     [file.name for file in Path(folder).iterdir()]
    ['scores.json']
    """
    if is_remote(path):
        with tempfile.TemporaryDirectory() as folder:
            temporary = Path(folder, path.name)
            yield temporary
            path.fs.put_file(str(temporary), path.path)  # type: ignore[attr-defined]
        return
    if path.exists() and not path.is_file() and not path.is_dir():
        yield path
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f"writing-{uuid.uuid4().hex}-{path.name}")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())  # A power loss cannot separate name and content.
        temporary.replace(target)
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory to fill, and rename it to `path` if the block succeeds.

    Args:
        path: The final path. An existing directory is replaced, but an empty one is filled at the
            end, since it may be the current one of a shell.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole_directory(Path(folder) / "model") as temporary:
    ...         _ = (temporary / "config.yaml").write_text("{}")
    ...     [str(path.relative_to(folder)) for path in Path(folder).rglob("*")]
    ['model', 'model/config.yaml']
    """
    path = path.absolute()
    is_empty = path.is_dir() and not any(path.iterdir())
    name = f"writing-{uuid.uuid4().hex}"
    # Files can't be moved into a mounted directory from beside it.
    is_mounted = is_empty and path.stat().st_dev != path.parent.stat().st_dev
    temporary = path / name if is_mounted else path.with_name(f"{name}-{path.name}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if is_empty:
            for each in temporary.iterdir():
                each.rename(path / each.name)
        elif path.is_dir() and any(path.iterdir()):
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


def parse_yaml(text: bytes, name: str) -> dict[str, Any]:
    """Return the mapping of a YAML text in UTF-8.

    Args:
        text: The text. Aliases, which can make a short text endless, are refused.
        name: What it is, for error messages.

    Raises:
        ValueError: If the text is damaged, too long or too deep, or holds anything else.

    >>> parse_yaml(b"beam-size: 6", "decoder.yml")
    {'beam-size': 6}
    """
    import yaml

    if len(text) > _LONGEST_YAML:
        raise ValueError(f"{name} must have at most {_LONGEST_YAML:,} bytes, has {len(text):,}.")
    try:
        decoded, depth = text.decode("utf-8"), 0
        for event in yaml.parse(decoded, yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST_YAML or isinstance(event, yaml.AliasEvent):
                raise ValueError("it has aliases, or is nested too deeply")
        values = yaml.safe_load(decoded)
    except MemoryError:
        raise
    except Exception as error:  # PyYAML raises errors of any type for values with tags.
        raise ValueError(
            f"{name} is not YAML, or is damaged: {one_line(error)}. Restore it."
        ) from error
    if not isinstance(values, dict):
        raise ValueError(f"{name} must hold options by name, received {type(values).__name__}.")
    return values


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write an object to a file, which appears only when it is complete."""
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
