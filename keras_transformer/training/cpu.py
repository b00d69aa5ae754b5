"""How a process trains fast on a CPU."""

import os

import tensorflow as tf

from keras_transformer.training.memory import keep_freed_memory


def prepare_cpu() -> None:
    """Make `model.fit` fast on a CPU; call it before anything else of TensorFlow.

    The process keeps the memory of its tensors: see `keep_freed_memory`. Where it has two cores,
    each operation gets one thread and two run at a time: a step of a `Transformer` with
    `LabelSmoothedCrossEntropy` is then made in halves, which keeps both cores busier than dividing
    each operation does (docs/benchmarks.md). A step of another model, or a search, uses one core.

    Threads stay as they are with more cores, where TensorFlow has started, or where
    TF_NUM_INTRAOP_THREADS or TF_NUM_INTEROP_THREADS say how many. `train` calls this.
    """
    keep_freed_memory()
    if {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & os.environ.keys() or _cores() != 2:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(2)
    except RuntimeError:  # TensorFlow has started.
        return


def _cores() -> int:
    """Return the cores that the process may use, as `taskset` and containers limit them."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # Not on Linux.
        return os.cpu_count() or 1
