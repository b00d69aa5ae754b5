"""The memory of this process."""

import contextlib
import ctypes
import math
import mmap
import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ALIGNED = 64
"""The address of memory that TensorFlow uses as it is is a multiple of this."""
_AT_ONCE = 2**26
"""Bytes of values that are moved at a time."""
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # Of mallopt(3).
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


def aligned_array(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """Return a new array, whose values are anything, for `shared_tensor`.

    >>> aligned_array([2, 3], "float32").ctypes.data % 64
    0
    """
    dtype, size = np.dtype(dtype), math.prod(shape)
    memory = np.empty(size * dtype.itemsize + _ALIGNED, "uint8")
    first = -memory.ctypes.data % _ALIGNED
    return memory[first : first + size * dtype.itemsize].view(dtype).reshape(shape)


def shared_tensor(array: np.ndarray) -> Any:
    """Return a TensorFlow tensor in the memory of an `aligned_array`, which nobody may change.

    TensorFlow would copy it twice, and a variable that gets the tensor takes over its memory.
    """
    import tensorflow as tf  # Not at the top: `share_arenas` is called before TensorFlow starts.

    return tf.experimental.dlpack.from_dlpack(array.__dlpack__())


class WeightStore:
    """A store of Keras for a layer's weights that makes fewer copies of them in TensorFlow.

    Keras copies a weight when it reads it from TensorFlow, and again when it writes it into a file.
    Here, only types that NumPy lacks are copied, such as bfloat16. When it loads a weight,
    TensorFlow makes two more copies of what was read; here, it is moved to where the variable
    keeps it.

    Args:
        store: The store that `save_own_variables` or `load_own_variables` gets for a file.
    """

    def __init__(self, store: Any):
        self.store = store

    def keys(self) -> Any:
        """Return the names of the weights."""
        return self.store.keys()

    def __setitem__(self, name: str, weight: Any) -> None:
        from keras import ops

        tensor = ops.stop_gradient(weight)
        try:
            values = _AsItIs(np.asarray(memoryview(tensor)))
        except (BufferError, TypeError, ValueError):  # Such as bfloat16.
            values = ops.convert_to_numpy(tensor)
        self.store[name] = values

    def __getitem__(self, name: str) -> Any:
        values = np.asarray(self.store[name])
        if values.dtype.kind not in "fiu" or not values.size:  # Such as bfloat16.
            return values
        array = aligned_array(values.shape, values.dtype.newbyteorder("="))
        target, step = array.reshape(-1), _AT_ONCE // values.itemsize
        # From the end, so that each part can be freed after its copy; resizing keeps the first
        # bytes, and is refused if somebody else holds the values.
        with contextlib.suppress(ValueError):
            while values.flags.c_contiguous and values.size > step:
                start = (values.size - 1) // step * step
                target[start : values.size] = values.flat[start:]
                values.resize(start)
        target[: values.size] = values.flat
        return shared_tensor(array)


class _AsItIs:
    """Values that `numpy.array`, which Keras's files call, does not copy."""

    def __init__(self, values: np.ndarray):
        self._values = values
        self.shape, self.dtype = values.shape, values.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._values


def share_arenas(most: int) -> None:
    """Let the C library divide memory among a few arenas instead of eight per core.

    Args:
        most: Their number; threads that allocate at the same time share them.
    """
    _set_malloc(_ARENA_MAX, most)


def map_arrays() -> None:
    """Let the C library give memory of a megabyte and more back when it is freed.

    By default, it keeps what may be used again, also in pieces that are too small for what comes.
    """
    _set_malloc(_MMAP_THRESHOLD, 2**20)


def _set_malloc(option: int, value: int) -> None:
    with contextlib.suppress(AttributeError, OSError, TypeError):  # It is not that of GNU.
        ctypes.CDLL(None).mallopt(option, value)
