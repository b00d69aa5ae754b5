"""Layer normalization (Ba et al., 2016), part of every residual connection (Section 3.1)."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

NORM_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="keras_transformer")
class LayerNorm(keras.layers.Layer):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis, in float32.

    It is `keras.layers.LayerNormalization` in 9 operations instead of 14, and with TensorFlow its
    gradient has a third fewer operations.

    Args:
        epsilon: Added to the variance.

    Call arguments:
        inputs: float [..., D].
        training: Whether a gradient will be computed. Results are the same.

    Returns:
        [..., D], in the layer's compute dtype.

    >>> layer = LayerNorm()
    >>> [round(float(x), 4) for x in layer(ops.array([[1.0, 3.0]]))[0]]
    [-1.0, 1.0]
    """

    def __init__(self, epsilon: float = NORM_EPSILON, **kwargs: Any):
        super().__init__(**kwargs)
        self.epsilon = epsilon
        self.supports_masking = True

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
            layer_norm = _layer_norm_with_gradient(self.epsilon)
            outputs = ops.reshape(layer_norm(rows, gamma, beta), ops.shape(x))
        else:
            outputs = _layer_norm(x, gamma, beta, self.epsilon)[0]
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon}


def _layer_norm(x, gamma, beta, epsilon):
    """Return the layer's output, the normalized inputs, and one over their standard deviation."""
    centered = x - ops.mean(x, axis=-1, keepdims=True)
    scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
    normalized = centered * scale
    return normalized * gamma + beta, normalized, scale


@functools.cache
def _layer_norm_with_gradient(epsilon: float) -> Callable[..., Any]:
    """Return the function from float32 rows [N, D], gamma and beta to the layer's output."""

    @ops.custom_gradient
    def layer_norm(rows, gamma, beta):
        outputs, normalized, scale = _layer_norm(rows, gamma, beta, epsilon)

        def gradient(upstream):
            product = upstream * normalized
            # The mean of each row of upstream * gamma, and of its product with the normalized row.
            weights = ops.expand_dims(gamma / gamma.shape[0], 1)
            mean, slope = ops.matmul(upstream, weights), ops.matmul(product, weights)
            to_rows = (upstream * gamma - mean - normalized * slope) * scale
            return to_rows, ops.sum(product, axis=0), ops.sum(upstream, axis=0)

        return outputs, gradient

    return layer_norm
