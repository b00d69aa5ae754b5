"""A small model with weights that are trained and others that are not."""

import keras


def make_model():
    """A model with a trainable kernel [2, 3], and statistics [3] that are not trainable."""
    inputs = keras.Input([2])
    x = keras.layers.Dense(3, use_bias=False, name="dense")(inputs)
    return keras.Model(inputs, keras.layers.BatchNormalization(name="norm")(x))
