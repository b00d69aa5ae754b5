"""The devices of a training run, and the CPU settings of its process."""

import contextlib
import ctypes
import os

import tensorflow as tf

from keras_transformer.utils.devices import available_cores

_MAX_PARTS = 4
"""The limit on parts of a training step, because each part holds a gradient of every weight."""

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # Of mallopt(3).


def replica_strategy(replicas: int | None = None) -> tf.distribute.Strategy:
    """Return a distribution strategy with the given number of replicas.

    Call it before any other use of TensorFlow if several replicas share a CPU.

    Args:
        replicas: Number of GPUs to use; without a GPU, number of logical CPU devices, which this
            function creates. By default all GPUs, or one CPU device.

    Returns:
        A `MirroredStrategy`, or TensorFlow's default strategy for a single replica.

    Raises:
        ValueError: If `replicas` is less than 1, or more than the number of GPUs.
        RuntimeError: If TensorFlow has already started with fewer CPU devices.

    >>> replica_strategy(1).num_replicas_in_sync
    1
    """
    if replicas is not None and replicas < 1:
        raise ValueError(f"replicas must be at least 1, received {replicas}.")
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        replicas = len(gpus) if replicas is None else replicas
        if replicas > len(gpus):
            raise ValueError(
                f"replicas must be at most the number of GPUs, {len(gpus)}; received {replicas}."
            )
        kind = "GPU"
    else:
        replicas = 1 if replicas is None else replicas
        kind = "CPU"
        if replicas > 1:
            _divide_cpu(replicas)
    if replicas == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy([f"/{kind}:{i}" for i in range(replicas)])


def _divide_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        if len(tf.config.get_logical_device_configuration(cpu) or ()) < count:
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * count
            )
    except RuntimeError as error:
        raise RuntimeError(
            f"{count} replicas need {count} logical CPU devices, but TensorFlow has started with "
            f"{len(tf.config.list_logical_devices('CPU'))}. Call replica_strategy before any other "
            "use of TensorFlow."
        ) from error


def prepare_cpu() -> int:
    """Configure the process for fast training and translation on a CPU.

    Call it before any other use of TensorFlow. `train` calls it, and so do the commands that
    translate. With a GPU it does nothing. Otherwise it

    - keeps freed memory (see `keep_freed_memory`);
    - with 2 to 4 cores that the process may use, runs one operation per core at a time, with one
      thread each. A training step in that many parts, as
      `TrainingTransformer(config, parts=prepare_cpu())` makes it, keeps the cores busier than
      dividing each operation does. Other models train more slowly with these settings.

    Thread settings stay as they are with more cores, because each part holds a gradient of every
    weight; if TensorFlow has already started; and if `tf.config.threading`,
    TF_NUM_INTRAOP_THREADS or TF_NUM_INTEROP_THREADS set them.

    Some settings are read when TensorFlow is imported and are out of reach here. On a CPU without
    AVX-512, a script trains faster if it begins with `os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"`,
    as `pipelines.train` does.

    Returns:
        The number of parts in which to make a training step; 1 is a whole step.

    Example:

    ```python
    parts = prepare_cpu()
    model = TrainingTransformer(config, parts=parts)
    model.compile("adam", LabelSmoothedCrossEntropy(0.1), jit_compile=False)
    ```
    """
    if tf.config.list_physical_devices("GPU"):
        return 1
    keep_freed_memory()
    threading, cores = tf.config.threading, available_cores()
    parts = cores if cores <= _MAX_PARTS else 1
    wanted = (1, parts)

    def threads():
        return (
            threading.get_intra_op_parallelism_threads(),
            threading.get_inter_op_parallelism_threads(),
        )

    chosen = {"TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"} & os.environ.keys()
    if parts > 1 and not chosen and threads() == (0, 0):
        with contextlib.suppress(RuntimeError):  # TensorFlow has started.
            threading.set_intra_op_parallelism_threads(wanted[0])
            threading.set_inter_op_parallelism_threads(wanted[1])
    return parts if threads() == wanted else 1


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors in the process, so that later tensors can reuse it.

    By default, glibc returns the memory of large tensors to the operating system, which clears
    every page when it is requested again; on a CPU this is a good part of a training step. The
    setting lasts until the process ends. `prepare_cpu` calls this function; call it directly
    before `model.fit` to leave thread settings alone.

    Returns:
        True if the C library is glibc and accepted the setting, as on most Linux systems.

    Example:

    ```python
    keep_freed_memory()
    model.fit(batches)
    ```
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Other systems have no mallopt.
        return False
    # With arenas per thread, blocks of over 64 MB would be returned whatever the threshold is.
    options = ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1))
    return all([mallopt(option, value) for option, value in options])
