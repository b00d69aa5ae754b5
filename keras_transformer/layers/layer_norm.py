"""Layer normalization (Ba et al., 2016), part of every residual connection (Section 3.1)."""

from typing import Any

import keras
from keras import ops

NORM_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNorm(keras.layers.Layer):
    """Compute (x - mean) / sqrt(variance + 1e-6) * gamma + beta over the last axis, in float32.

    It is `keras.layers.LayerNormalization` in 9 operations instead of 14, and with TensorFlow its
    gradient has a third fewer operations.

    Call arguments:
        inputs: float [..., D].
        training: Whether a gradient will be computed. Results are the same.

    Returns:
        [..., D], in the layer's compute dtype.

    >>> layer = LayerNorm()
    >>> [round(float(x), 4) for x in layer(ops.array([[1.0, 3.0]]))[0]]
    [-1.0, 1.0]
    """

    def build(self, input_shape: Any) -> None:
        shape = (input_shape[-1],)
        # Not cast to the compute dtype on the way to float32.
        self.gamma = self.add_weight(shape, initializer="ones", autocast=False, name="gamma")
        self.beta = self.add_weight(shape, initializer="zeros", autocast=False, name="beta")

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        gamma, beta = (ops.cast(weight, "float32") for weight in (self.gamma, self.beta))
        x = ops.cast(inputs, "float32")
        if training and keras.backend.backend() == "tensorflow":
            rows = ops.reshape(x, (-1, gamma.shape[0]))
            outputs = ops.reshape(_layer_norm_with_gradient(rows, gamma, beta), ops.shape(x))
        else:
            outputs = _layer_norm(x, gamma, beta)[0]
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape


def _layer_norm(x, gamma, beta):
    """Return the layer's output, the normalized inputs, and one over their standard deviation."""
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + NORM_EPSILON)
    normalized = centered * scale
    return normalized * gamma + beta, normalized, scale


@ops.custom_gradient
def _layer_norm_with_gradient(rows, gamma, beta):
    """Return the layer's output for float32 rows [N, D]."""
    outputs, normalized, scale = _layer_norm(rows, gamma, beta)

    def gradient(upstream):
        product = upstream * normalized
        # The mean of each row of upstream * gamma, and of its product with the normalized row.
        weights = ops.expand_dims(gamma / gamma.shape[0], 1)
        mean, slope = ops.matmul(upstream, weights), ops.matmul(product, weights)
        to_rows = (upstream * gamma - mean - normalized * slope) * scale
        return to_rows, ops.sum(product, axis=0), ops.sum(upstream, axis=0)

    return outputs, gradient
