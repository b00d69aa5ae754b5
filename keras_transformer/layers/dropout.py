"""Dropout (Section 5.4) that needs fewer random numbers."""

from typing import Any

import keras
from keras import ops

_LEVELS = 256


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Layer):
    """Set some inputs to 0 in training and scale up the others (Section 5.4).

    With TensorFlow it takes one random byte per input, where `keras.layers.Dropout` takes four and
    converts them to a float. So `rate` is rounded to a multiple of 1/256, at least 1/256 and at
    most 255/256, and the scale is that of the rounded rate. Each replica of a `tf.distribute`
    strategy has a mask of its own. Other backends use Keras's dropout.

    Args:
        rate: The share of inputs that become 0, from 0 to below 1.
        seed: Seed of the random numbers; a different one each time by default.

    Call arguments:
        inputs: float, of any shape.
        training: Whether to drop anything.

    Returns:
        The shape and dtype of `inputs`.

    Raises:
        ValueError: If `rate` is not in [0, 1).

    >>> outputs = Dropout(0.5, seed=1)(ops.ones((100, 100)), training=True)
    >>> sorted({float(x) for x in ops.reshape(outputs, (-1,))})
    [0.0, 2.0]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be at least 0 and below 1, received {rate}.")
        self.rate = rate
        self.seed = seed
        if rate:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not (training and self.rate):
            return inputs
        if keras.backend.backend() != "tensorflow":
            return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)
        dropped = min(max(round(_LEVELS * self.rate), 1), _LEVELS - 1)
        is_kept = _random_bytes_like(inputs, self.seed_generator) >= dropped
        scaled = inputs * ops.cast(_LEVELS / (_LEVELS - dropped), inputs.dtype)
        return ops.where(is_kept, scaled, ops.zeros((), inputs.dtype))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _random_bytes_like(inputs, seed_generator):
    """Return uniform uint8 numbers in the inputs' shape."""
    # Keras has no integers of the whole range, and derives others by a division.
    import tensorflow as tf

    seed, count = tf.cast(seed_generator.next(), tf.int32), tf.size(inputs, tf.int64)
    replica = tf.distribute.get_replica_context()
    if replica is not None and replica.num_replicas_in_sync > 1:
        # Keras has one seed for all replicas.
        seed = tf.random.fold_in(seed, replica.replica_id_in_sync_group)
    words = tf.random.stateless_uniform([(count + 3) // 4], seed, None, None, tf.uint32)
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count], tf.shape(inputs))
