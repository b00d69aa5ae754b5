"""The cores and GPUs of this process, and what depends on whether there are any.

Imports are in the functions: a server needs neither Keras nor TensorFlow for Python.
"""

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


def has_gpu() -> bool:
    """Return whether TensorFlow computes on a GPU."""
    import tensorflow as tf

    return bool(tf.config.get_visible_devices("GPU"))


def count_gpus() -> int:
    """Return the number of GPUs that TensorFlow computes on."""
    import tensorflow as tf

    return len(tf.config.get_visible_devices("GPU"))


def has_bfloat16() -> bool:
    """Return whether all accelerators of the backend multiply in bfloat16; False without any.

    NVIDIA's GPUs do so from compute capability 8.0 on.
    """
    import keras

    if keras.backend.backend() == "jax":
        import jax

        known = [float(getattr(device, "compute_capability", 8)) for device in jax.devices()]
        return jax.default_backend() != "cpu" and min(known) >= 8
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.get_visible_devices("GPU"))
    capabilities = [about.get("compute_capability", (0, 0)) for about in details]
    return bool(capabilities) and min(capabilities) >= (8, 0)


def usual_batch_size(on_gpu: bool | None = None) -> int:
    """Return the sentences of a batch: 64, or 256 on a GPU, where they take little longer.

    Args:
        on_gpu: Whether there is a GPU; None to ask TensorFlow.
    """
    return 256 if (has_gpu() if on_gpu is None else on_gpu) else 64
