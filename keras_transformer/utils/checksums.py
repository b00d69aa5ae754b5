"""Checksums of a directory's files, in a file that `sha256sum --check` reads as well."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from keras_transformer.utils.files import as_path, whole_file

FILE = "SHA256SUMS"
_BLOCK, _BLOCKS = 2**16, 256
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def check_files(
    directory: str | os.PathLike, names: Sequence[str] | None = None, remedy: str = "Restore it"
) -> None:
    """Check files against the checksums that were recorded when they were written.

    A file without a record, as version 0.1 wrote it, is not checked.

    Args:
        directory: The directory of the files.
        names: Paths in the directory, with "/" as the separator; by default all that have a record.
        remedy: What the error says to do.

    Raises:
        ValueError: If a file that has a record is missing or differs, or the record is damaged.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with recorded_files(folder, ["config.yaml"]):
    ...         _ = Path(folder, "config.yaml").write_text("epochs: 7")
    ...     check_files(folder)
    ...     _ = Path(folder, "config.yaml").write_text("epochs: 3")
    ...     check_files(folder)
    Traceback (most recent call last):
    ValueError: ...config.yaml is damaged: its checksum is not the one in SHA256SUMS. Restore it...
    """
    directory = as_path(directory)
    recorded = read_checksums(directory)
    for name in recorded if names is None else names:
        path = directory / name
        if name not in recorded:
            continue
        if not path.exists():
            raise ValueError(f"{path} is missing, but {directory / FILE} lists it. {remedy}.")
        if _digest(path) != recorded[name]:
            raise ValueError(
                f"{path} is damaged: its checksum is not the one in {FILE}. {remedy}; if it was "
                f"changed on purpose, remove its line from {directory / FILE}."
            )


@contextmanager
def recorded_files(directory: str | os.PathLike, names: Sequence[str]) -> Iterator[None]:
    """Record the checksums of the files that the block writes; other records stay.

    If the process is killed in the block, these files have no record and are not checked.

    Args:
        directory: The directory of the files.
        names: Paths in the directory, with "/" as the separator.

    Raises:
        ValueError: If the record is damaged.
    """
    directory = as_path(directory)
    before = read_checksums(directory)
    kept = {name: digest for name, digest in before.items() if name not in names}
    if kept != before:
        _write(directory, kept)
    yield
    record_files(directory, names)


def record_files(directory: str | os.PathLike, names: Sequence[str]) -> None:
    """Record the checksums of existing files; other records stay.

    Args:
        directory: The directory of the files.
        names: Paths in the directory, with "/" as the separator.

    Raises:
        ValueError: If the record is damaged.
    """
    directory = as_path(directory)
    new = {name: _digest(directory / name) for name in names}
    _write(directory, read_checksums(directory) | new)


def sample_checksum(path: str | os.PathLike) -> str:
    """Return the size of a file and a checksum: of all, or of 256 blocks if it has over 16 MiB.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     sample_checksum(file.name)[:20]
    '0 e3b0c44298fc1c149a'
    """
    path = as_path(path)
    size, digest = path.stat().st_size, hashlib.sha256()
    step = max(_BLOCK, (size - _BLOCK) // (_BLOCKS - 1))
    with path.open("rb") as file:
        for place in range(0, size, step):
            file.seek(place)
            digest.update(file.read(_BLOCK))
        file.seek(max(0, size - _BLOCK))
        digest.update(file.read())
    return f"{size} {digest.hexdigest()}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_checksums(directory: Path) -> dict[str, str]:
    """Return the recorded checksums by file."""
    path = directory / FILE
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [_LINE.fullmatch(line) for line in text.splitlines()]
    if not all(lines):
        raise ValueError(
            f"{path} is damaged: line {1 + lines.index(None)} must be a checksum and the name of a "
            "file. Restore it, or remove it to use the files unchecked."
        )
    return {line[2]: line[1] for line in lines if line}


def _write(directory: Path, digests: Mapping[str, str]) -> None:
    with whole_file(directory / FILE) as temporary:
        lines = (f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        temporary.write_text("".join(lines), encoding="utf-8")
