"""Files that are whole or not there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give another name to write a file by, and rename it when the block has ended well.

    The name has the same suffix, and is different for each writer.

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
    finally:
        temporary.unlink(missing_ok=True)


def flush_and_rename(temporary: Path, path: Path) -> Path:
    """Give a file its name, once it is on the disk: a power loss may keep one without the other."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    return temporary.replace(path)
