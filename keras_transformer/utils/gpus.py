"""Whether the backend has a GPU, and what that means for formulas and their precision."""

import keras


def has_gpu() -> bool:
    """Return whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


def has_bfloat16() -> bool:
    """Return whether all accelerators of the backend multiply in bfloat16; False without any.

    NVIDIA's GPUs do so from compute capability 8.0 on.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.default_backend() != "cpu"
    import tensorflow as tf

    details = map(tf.config.experimental.get_device_details, tf.config.list_physical_devices("GPU"))
    capabilities = [about.get("compute_capability", (0, 0)) for about in details]
    return bool(capabilities) and min(capabilities) >= (8, 0)


def fuses_formulas() -> bool:
    """Return whether XLA fuses a formula with its gradient: with JAX, or TensorFlow on a GPU.

    There the plain formula is the fast one. Elsewhere each operation takes a pass over memory.
    """
    backend = keras.backend.backend()
    return backend == "jax" or (backend == "tensorflow" and has_gpu())
