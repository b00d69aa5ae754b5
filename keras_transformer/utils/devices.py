"""The GPUs of this process, and what depends on whether there are any."""

from keras_transformer.utils.cores import available_cores


def has_gpu() -> bool:
    """Return whether TensorFlow computes on a GPU."""
    import tensorflow as tf  # The page in front of another server needs no TensorFlow.

    return bool(tf.config.get_visible_devices("GPU"))


def device_name() -> str:
    """Return where models run: `the CPU`, or the first GPU, as `GPU:0 (NVIDIA H200)`."""
    import tensorflow as tf

    if not has_gpu():
        return "the CPU"
    first, *_ = tf.config.get_visible_devices("GPU")
    details = tf.config.experimental.get_device_details(first)
    return f"GPU:0 ({details.get('device_name', 'unknown')})"


def usual_batch_size() -> int:
    """Return the sentences of a batch: 64, or 256 on a GPU, where they take little longer."""
    return 256 if has_gpu() else 64


def usual_runs() -> int:
    """Return how many runs a server has at a time.

    On a CPU, that is one per core. On a GPU, one run reads and writes text while the other one
    computes; each further one would only take memory.
    """
    return 2 if has_gpu() else available_cores()
