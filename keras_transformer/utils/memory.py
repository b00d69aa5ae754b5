"""The memory of this process."""

import contextlib
import ctypes
import mmap
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

_ARENA_MAX = -8  # Of mallopt(3).
_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Return the bytes that the process may use: the machine's memory, or a lower limit on it.

    >>> available_memory() > 1e8
    True
    """
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _limits():
        with contextlib.suppress(OSError, ValueError):  # "max".
            limits.append(int(path.read_text()))
    of_process, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(limits if of_process == resource.RLIM_INFINITY else [*limits, of_process])


def _limits() -> Iterator[Path]:
    """Yield the files with the limits of the process's control groups and their parents."""
    with contextlib.suppress(OSError):
        for line in _GROUP.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            group = Path(path[1:])
            for each in (group, *group.parents):  # Of version 2, and of version 1.
                if not controllers:
                    yield _GROUPS / each / "memory.max"
                elif controllers == "memory":
                    yield _GROUPS / "memory" / each / "memory.limit_in_bytes"


def trim_memory() -> None:
    """Return free memory to the system, where the C library would keep it."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # It is not that of GNU.
        ctypes.CDLL(None).malloc_trim(0)


def release_pages(view: Any) -> None:
    """Let the system take back the pages of a mapped file, which are read again when needed.

    Args:
        view: An array, or another object whose `base` is one. Nothing happens if none is a view of
            a mapped file.
    """
    while view is not None and not isinstance(view, mmap.mmap):
        view = view.obj if isinstance(view, memoryview) else getattr(view, "base", None)
    if view is not None:
        view.madvise(mmap.MADV_DONTNEED)


class StoreOfViews:
    """A store of weights for `save_own_variables` that passes them on to another as NumPy arrays.

    Keras copies a weight of TensorFlow when it reads it, and the array again when it writes it. An
    array of this store is a read-only view of the weight, so that only the second copy is left.

    Args:
        store: A store of Keras that writes what is set into a file.
    """

    def __init__(self, store: Any):
        self.store = store

    def __setitem__(self, name: str, weight: Any) -> None:
        from keras import ops  # Not at the top: `share_arenas` is called before TensorFlow starts.

        tensor = ops.stop_gradient(weight)
        try:
            values = np.asarray(memoryview(tensor))
        except (BufferError, TypeError, ValueError):  # Such as bfloat16.
            values = ops.convert_to_numpy(tensor)
        self.store[name] = values


def share_arenas(most: int) -> None:
    """Let the C library divide memory among a few arenas instead of eight per core.

    Args:
        most: Their number; threads that allocate at the same time share them.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, most)
