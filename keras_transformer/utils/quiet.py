"""TensorFlow without its start-up report."""

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator

_REPORT = re.compile(r"[IWE]\d{4} \d\d:\d\d:|WARNING: All log messages before absl::")


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Let TensorFlow start in the block without its report.

    TensorFlow writes it to file descriptor 2 before any of its settings apply, so the descriptor is
    redirected in the block; other lines reach standard error afterwards. Does nothing if
    TensorFlow is imported already, if TF_CPP_MIN_LOG_LEVEL is set, or without standard error.
    """
    if "tensorflow" in sys.modules or "TF_CPP_MIN_LOG_LEVEL" in os.environ or sys.stderr is None:
        yield
        return
    # A missing GPU driver is reported as an error, hence level 3. TensorFlow reads the variable
    # once, so that child processes need not inherit it.
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryFile("w+", errors="replace") as written:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            del os.environ["TF_CPP_MIN_LOG_LEVEL"]
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            written.seek(0)
            sys.stderr.writelines(line for line in written if not _REPORT.match(line))
