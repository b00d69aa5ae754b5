"""The devices that a model trains on."""

import tensorflow as tf


def replica_strategy(replicas: int | None = None) -> tf.distribute.Strategy:
    """Return a strategy with so many replicas: `MirroredStrategy`, or the default one for one.

    Call it before anything else of TensorFlow, if CPUs are to be divided.

    Args:
        replicas: the first so many GPUs; without a GPU, so many logical CPU devices, which are made
            here. By default all GPUs, or one CPU device.

    Raises:
        ValueError: there are fewer GPUs.
        RuntimeError: TensorFlow has started with fewer CPU devices.
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
            f"{count} replicas need {count} logical CPU devices, and TensorFlow has started with "
            f"{len(tf.config.list_logical_devices('CPU'))}. Ask for the strategy before using "
            "TensorFlow."
        ) from error
