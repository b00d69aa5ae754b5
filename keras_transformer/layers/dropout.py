"""Dropout (Section 5.4) that needs fewer random numbers."""

import keras
from keras import ops

_LEVELS = 256


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Layer):
    """Sets some of its inputs to 0 in training and scales up the others (Section 5.4).

    With TensorFlow it takes a byte of randomness for each input, where `keras.layers.Dropout` takes
    four and turns them into a float, and keeps a byte for the way back. So `rate` is rounded to
    256ths, of which one at least is dropped and one kept, and the scale is that of the rounded
    rate, in the inputs' type. Each replica of a `tf.distribute` strategy has a mask of its own.
    With other backends it is Keras's.

    Args:
        rate: how many of the inputs become 0, from 0 to below 1.
        seed: of the random numbers; by default another one each time.

    Call arguments:
        inputs: float, of any shape.
        training: whether to drop anything.

    Returns:
        What `inputs` is, in shape and type.

    Raises:
        ValueError: `rate` is below 0, or 1 or more.

    >>> outputs = Dropout(0.5, seed=1)(ops.ones((100, 100)), training=True)
    >>> sorted({float(x) for x in ops.reshape(outputs, (-1,))})
    [0.0, 2.0]
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs):
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(f"rate must be at least 0 and below 1, received {rate}.")
        self.rate = rate
        self.seed = seed
        if rate:
            self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self.built = True

    def call(self, inputs, training=None):
        if not (training and self.rate):
            return inputs
        if keras.backend.backend() != "tensorflow":
            return keras.random.dropout(inputs, self.rate, seed=self.seed_generator)
        dropped = min(max(round(_LEVELS * self.rate), 1), _LEVELS - 1)
        is_kept = _random_bytes_like(inputs, self.seed_generator) >= dropped
        scaled = inputs * ops.cast(_LEVELS / (_LEVELS - dropped), inputs.dtype)
        return ops.where(is_kept, scaled, ops.zeros((), inputs.dtype))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}


def _random_bytes_like(inputs, seed_generator):
    """Return uint8 numbers of the inputs' shape, each of the 256 as probable as any other."""
    # Keras has no integers of the whole range, and cuts others out by a division.
    import tensorflow as tf

    seed, count = tf.cast(seed_generator.next(), tf.int32), tf.size(inputs, tf.int64)
    replica = tf.distribute.get_replica_context()
    if replica is not None and replica.num_replicas_in_sync > 1:
        # Keras keeps a seed for all replicas.
        seed = tf.random.fold_in(seed, replica.replica_id_in_sync_group)
    words = tf.random.stateless_uniform([(count + 3) // 4], seed, None, None, tf.uint32)
    return tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count], tf.shape(inputs))
