"""Files that are whole or not there."""

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
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
