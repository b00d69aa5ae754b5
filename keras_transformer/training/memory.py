"""How the C library manages the memory of tensors."""

import ctypes

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # Of mallopt(3).


def keep_freed_memory() -> bool:
    """Let the process keep the memory of tensors that are freed, for those to come.

    glibc asks the system for each large tensor anew, and the system clears every page of it: a
    third of the processors' time, while a small model trains on them. To keep the memory costs some
    tenths more of it at most. `train` does this; a script that calls `model.fit` on a CPU can.
    Programs beside this one keep their own ways.

    Returns:
        Whether the C library could be told: it is glibc, that of most Linux systems.

    >>> keep_freed_memory() in (True, False)
    True
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Other systems have no mallopt.
        return False
    return bool(mallopt(_MMAP_MAX, 0) and mallopt(_TRIM_THRESHOLD, -1))
