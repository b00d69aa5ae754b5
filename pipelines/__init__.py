"""Command lines, one a job: `python -m pipelines.NAME --help`."""

import os
import re
import sys
import tempfile


def import_tensorflow_quietly() -> None:
    """Import TensorFlow without its report of instruction sets and missing GPUs.

    It writes these lines before any of its settings apply. What else is written stays, and so does
    everything where TF_CPP_MIN_LOG_LEVEL is set.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ or sys.stderr is None:
        return
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"  # Its errors also come as exceptions.
    with tempfile.TemporaryFile("w+", errors="replace") as written:
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(written.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            written.seek(0)
            report = re.compile(r"[IWE]\d{4} \d\d:\d\d:|WARNING: All log messages before absl::")
            sys.stderr.writelines(line for line in written if not report.match(line))


if {"pipelines.train", "pipelines.quickstart"} & set(sys.orig_argv):
    # The kernels of oneDNN, of which TensorFlow makes no use by itself on a processor without
    # AVX-512, and decides when it is imported. A training is faster with them there too, and a
    # search for a single sentence slower.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Those that start or ask a model server do without, and so without its seconds.
if not {"pipelines.client", "pipelines.serve"} & set(sys.orig_argv):
    import_tensorflow_quietly()
