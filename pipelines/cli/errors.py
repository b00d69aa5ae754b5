"""Errors that a person can cause, in one line, and signals that end a command."""

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

INTERRUPTED = 128 + signal.SIGINT
"""Exit status after Ctrl-C, as shells expect it; after another signal it is 128 and its number."""
FAILED, MISTAKE, TRY_AGAIN = 1, 2, 75
"""Exit status after an error; after a mistake in the options or in the configuration; and after an
error that the same command may not meet later (EX_TEMPFAIL of sysexits.h)."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""With which a scheduler, `kill` or a closed terminal ends a command."""

_MEMORY = (
    "Free some memory, raise its limit (ulimit -v) or that of threads (ulimit -u), or use smaller "
    "batches."
)
_REMEDIES = {
    errno.EACCES: "Choose another path, or change its permissions.",
    errno.EPERM: "Choose another path, or change its permissions.",
    errno.EROFS: "Choose a path on a file system that can be written to.",
    errno.ENOSPC: "Free some disk space and run the command again.",
    errno.EDQUOT: "Free some disk space and run the command again.",
    errno.EFBIG: "Raise the limit of file sizes (ulimit -f), or use a smaller model.",
    errno.ENOMEM: _MEMORY,
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Check the path.",
    errno.EISDIR: "Give a file instead of a directory.",
    errno.EEXIST: "Choose another path, or remove what is there.",
}
_RESOURCES = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM}
_NO_MEMORY = ("can't start new thread", "failed to map segment from shared object")


class Stopped(KeyboardInterrupt):
    """A signal asks the command to end; what Ctrl-C ends, it ends too."""

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


class Failed(SystemExit):
    """End the program with a message on standard error, and an exit status."""

    def __init__(self, message: str, status: int):
        super().__init__(message)
        self.code = status
        print(message, file=sys.stderr)


@contextlib.contextmanager
def plain_errors(
    interrupted: Callable[[], str] | None = None, status: int = FAILED
) -> Iterator[None]:
    """End the program with one line for an error that a person can cause, and for a signal.

    Other exceptions are bugs and keep their traceback. It is a context manager and a decorator.

    Args:
        interrupted: Returns the line to print after Ctrl-C, or after a signal that raised
            `Stopped`.
        status: The exit status of errors that the same command would meet again.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        with contextlib.suppress(OSError):  # After SIGHUP, the terminal may be closed.
            print(interrupted() if interrupted else "Interrupted.", file=sys.stderr)
        sys.exit(128 + stop.number if isinstance(stop, Stopped) else INTERRUPTED)
    except BrokenPipeError:  # The reader of a pipe, such as `head`, has seen enough.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        message = explain(error)
        if message is None:
            raise
        raise Failed(f"error: {message}", TRY_AGAIN if _may_pass(error) else status) from None


def _may_pass(error: Exception) -> bool:
    """Return whether the same command may succeed later: with a directory in use, or a network."""
    return isinstance(error, BlockingIOError | ConnectionError)


def explain(error: Exception) -> str | None:
    """Return an error's message in one line, or None if the user cannot correct it."""
    # Classes of packages that have not been imported cannot have been raised.
    pydantic, yaml, tensorflow, zipfile = map(
        sys.modules.get, ("pydantic", "yaml", "tensorflow", "zipfile")
    )
    if pydantic and isinstance(error, pydantic.ValidationError):
        from keras_transformer.config.strict import describe_mistake

        return "; ".join(describe_mistake(mistake) for mistake in error.errors())
    if yaml and isinstance(error, yaml.YAMLError):
        return _one_line(f"a file is not YAML: {error}. Correct or restore it.")
    if zipfile and isinstance(error, zipfile.BadZipFile):
        return _one_line(f"a file is damaged: {error}. Restore it, or choose another checkpoint.")
    if tensorflow and isinstance(error, tensorflow.errors.OpError):
        return _explain_tensorflow(error, tensorflow.errors)
    if isinstance(error, OSError):
        is_clear = error.filename is not None or error.errno in _RESOURCES
        remedy = _REMEDIES.get(error.errno) if is_clear else None
        return _one_line(f"{error}. {remedy}" if remedy else str(error))
    if isinstance(error, MemoryError) or any(text in str(error) for text in _NO_MEMORY):
        return f"out of memory{_one_line(f': {error}' if str(error) else '')}. {_MEMORY}"
    if isinstance(error, ImportError | ValueError | EOFError | FloatingPointError):
        return _one_line(str(error))
    return None


def _explain_tensorflow(error: Any, errors: Any) -> str | None:
    remedies = {
        errors.PermissionDeniedError: _REMEDIES[errno.EACCES],
        errors.NotFoundError: "Check the path.",
        errors.DataLossError: "A file is damaged: restore it.",
        errors.ResourceExhaustedError: "Free memory or disk space, or use smaller batches.",
    }
    for kind, remedy in remedies.items():
        if isinstance(error, kind):
            first_line = (error.message or str(error)).strip().splitlines()[0]
            return f"{first_line.removesuffix('.')}. {remedy}"
    return None


def _one_line(message: str) -> str:
    return " ".join(line.strip() for line in message.splitlines())
