"""The position-wise feed-forward network (Section 3.3)."""

import keras
from keras import ops

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.linear import linear


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """max(0, x W1 + b1) W2 + b2, the same at every position (Section 3.3, eq. 2).

    Args:
        d_model: D, the width of inputs and outputs.
        d_ff: the width in between.
        dropout: the rate on the activations in between.

    Call arguments:
        inputs: float [..., D].
        training: whether dropout applies.

    Returns:
        float [..., D].

    >>> tuple(FeedForward(d_model=4, d_ff=16)(ops.ones((2, 3, 4))).shape)
    (2, 3, 4)
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        for name, size in (("d_model", d_model), ("d_ff", d_ff)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, received {size}.")
        self.d_model = d_model
        self.d_ff = d_ff
        self.dropout = dropout
        self.inner_dropout = Dropout(dropout, dtype=self.dtype_policy)

    def build(self, input_shape):
        if input_shape[-1] != self.d_model:
            raise ValueError(
                f"The last axis of the inputs must be d_model={self.d_model}, "
                f"received inputs of shape {tuple(input_shape)}."
            )
        sizes = (("inner", self.d_model, self.d_ff), ("outer", self.d_ff, self.d_model))
        for name, inputs, outputs in sizes:
            kernel = self.add_weight(
                shape=(inputs, outputs), initializer="glorot_uniform", name=f"{name}_kernel"
            )
            bias = self.add_weight(shape=(outputs,), initializer="zeros", name=f"{name}_bias")
            setattr(self, f"{name}_kernel", kernel)
            setattr(self, f"{name}_bias", bias)

    def call(self, inputs, training=None):
        # Flat throughout: TensorFlow makes one operation of a product, a bias and a relu in a row.
        # Not so [1, R, D], as beams, single rows and sentences alone are: to prepare that operation
        # takes longer than to multiply a row of float32, and in bfloat16 it rearranges the kernel.
        keeps_shape = len(inputs.shape) == 2 or inputs.shape[0] == 1
        rows = inputs if keeps_shape else ops.reshape(inputs, (-1, self.d_model))
        hidden = ops.relu(linear(rows, self.inner_kernel, self.inner_bias))
        hidden = self.inner_dropout(hidden, training=training)
        outputs = linear(hidden, self.outer_kernel, self.outer_bias)
        return outputs if keeps_shape else ops.reshape(outputs, ops.shape(inputs))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "dropout": self.dropout,
        }
