"""How a process trains and translates fast on a CPU."""

import contextlib
import os

import tensorflow as tf

from keras_transformer.training.memory import keep_freed_memory


def prepare_cpu() -> bool:
    """Make `model.fit` and translations fast on a CPU; call it before anything else of TensorFlow.

    The process keeps the memory of its tensors: see `keep_freed_memory`. Where it has two cores,
    each operation gets one thread and two run at a time: a step of a `Transformer` with
    `LabelSmoothedCrossEntropy` is then made in halves, which keeps both cores busier than dividing
    each operation does (docs/benchmarks.md). A step of another model uses one core, and so does the
    search of a batch, of which `Translator` makes two at a time.

    With a GPU nothing changes. Threads stay as they are with more cores, where TensorFlow has
    started, and where `tf.config.threading`, TF_NUM_INTRAOP_THREADS or TF_NUM_INTEROP_THREADS say
    how many. `train` calls this, and so do the command lines that translate.

    What TensorFlow decides when it is imported is out of its reach: on a processor without AVX-512
    a script that begins with `os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"` trains faster yet, as
    `pipelines.train` does.

    Returns:
        Whether steps will be made in halves.
    """
    if tf.config.list_physical_devices("GPU"):
        return False
    keep_freed_memory()
    threading = tf.config.threading

    def threads():
        return (
            threading.get_intra_op_parallelism_threads(),
            threading.get_inter_op_parallelism_threads(),
        )

    chosen = {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & os.environ.keys()
    if _cores() == 2 and not chosen and threads() == (0, 0):
        with contextlib.suppress(RuntimeError):  # TensorFlow has started.
            threading.set_intra_op_parallelism_threads(1)
            threading.set_inter_op_parallelism_threads(2)
    return threads() == (1, 2)


def _cores() -> int:
    """Return the cores that the process may use, as `taskset` and cpusets limit them."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on Linux.
        return os.cpu_count() or 1
