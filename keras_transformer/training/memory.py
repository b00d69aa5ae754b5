"""How the C library manages the memory of tensors."""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # Of mallopt(3).


def keep_freed_memory() -> bool:
    """Let the process keep the memory of large tensors that are freed, for those to come.

    glibc otherwise gives it back to the system, which clears every page when it is asked for again:
    a good part of a step of training on a CPU (docs/benchmarks.md). It holds until the process
    ends. `train` calls it; a script that calls `model.fit` on a CPU can, before it starts.

    Returns:
        Whether the C library could be told: it is glibc, that of most Linux systems.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Other systems have no mallopt.
        return False
    # Threads' own arenas would give back what is larger than 64 MB whatever the threshold is.
    options = ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1))
    return all([mallopt(option, value) for option, value in options])
