"""The CPU cores of this process."""

import os


def available_cores() -> int:
    """Return the number of CPU cores that the process may use.

    `taskset`, cpusets and most container runtimes limit it to fewer than the machine has.

    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):  # Linux.
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
