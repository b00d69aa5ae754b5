"""Files that take long to make, made once for all processes of a test run."""

import fcntl
import shutil

folder = None
"""The directory that the processes share; tests/conftest.py sets it."""


def shared(name, make):
    """Return a directory that `make(directory)` has filled, in the process that asked first.

    Tests must not change it.
    """
    path = folder / name
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (path / "complete").exists():
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            make(path)
            (path / "complete").touch()
    return path
