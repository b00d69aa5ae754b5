"""Progress of work that takes minutes: a bar at a terminal, else lines in the log."""

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOGGER = logging.getLogger(__name__)
_SECONDS_BETWEEN_LINES = 60


@contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[[int], object]]:
    """Yield a function to call with the number of units that are done.

    Args:
        what: What is done, such as "encoding".
        unit: What is counted, in the plural.

    >>> with progress("reading", "lines") as advance:
    ...     for _ in range(3):
    ...         _ = advance(1)
    """
    if sys.stderr is not None and sys.stderr.isatty():
        from tqdm import tqdm

        with tqdm(desc=what, unit=f" {unit}", unit_scale=True, leave=False) as bar:
            yield bar.update
        return
    done, last = 0, time.monotonic()

    def advance(count: int) -> None:
        nonlocal done, last
        done += count
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            _LOGGER.info("%s: %s %s", what, f"{done:,}", unit)

    yield advance
