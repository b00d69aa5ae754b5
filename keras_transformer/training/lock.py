"""The lock of a run directory: one run at a time, for as long as its process lives."""

import contextlib
import errno
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

log = logging.getLogger(__name__)

_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}


@contextlib.contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Make a run directory, and keep other runs out of it while the block runs.

    The operating system releases the lock when the process ends, even if it is killed. Temporary
    files of killed runs are removed, and so are the new directories if the block leaves them empty.

    Args:
        directory: The run directory.

    Raises:
        BlockingIOError: If another run has the lock.
        OSError: If the directory cannot be made or written to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with locked_directory(Path(folder) / "runs" / "first"):
    ...         print([path.name for path in Path(folder).rglob("*")])
    ...     print([path.name for path in Path(folder).rglob("*")])
    ['runs', 'first', 'run.lock']
    []
    """
    made = [path for path in (directory, *directory.parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _lock(directory / "run.lock"):
            _sweep(directory)
            yield
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # It is not empty.
                path.rmdir()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with _locked_file(path) as file:
        try:
            file.truncate(0)
            print(f"process {os.getpid()} on {socket.gethostname()}", file=file, flush=True)
            yield
        finally:
            path.unlink(missing_ok=True)


def _locked_file(path: Path) -> TextIO:
    """Return the file at a path, opened and locked."""
    while True:
        file = open(path, "a+", encoding="utf-8")
        try:
            _lock_file(file)
            # A run that ended in between has removed this file, and the next one makes another.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock_file(file: TextIO) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.seek(0)
        directory = Path(file.name).parent
        raise BlockingIOError(
            f"A directory is for one run at a time; {directory} is in use by "
            f"{file.read().strip() or 'another process'}. Wait until that run ends, stop it, or "
            "choose another directory."
        ) from error
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        directory = Path(file.name).parent
        log.warning("%s is on a file system without locks: start no second run there", directory)


def _sweep(directory: Path) -> None:
    """Remove the temporary files that runs left when they were killed."""
    for folder in (directory, directory / "checkpoints"):
        for path in folder.glob("writing-*"):
            if path.is_file():  # Directories are exports, which may be in progress.
                path.unlink(missing_ok=True)
