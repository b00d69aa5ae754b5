"""Signals with which a scheduler, `kill` or a closed terminal ends a command."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """A signal asks the command to end; what Ctrl-C ends, it ends too.

    Args:
        number: The signal.
    """

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextlib.contextmanager
def stop_on_signals() -> Iterator[None]:
    """Raise `Stopped` in the block when SIGTERM or SIGHUP arrives, and then restore the handlers.

    A second signal ends the process at once. Signals that are ignored, as SIGHUP is under `nohup`,
    stay ignored. Outside the main thread, which alone receives signals, nothing happens.

    Raises:
        Stopped: When a signal arrives.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handlers = {
        number: handler
        for number, handler in before.items()
        if handler not in (signal.SIG_IGN, None)  # None: not installed from Python.
    }

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    def stop(number: int, frame: FrameType | None) -> None:
        restore()
        raise Stopped(number)

    for number in handlers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        restore()
