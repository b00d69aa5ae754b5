"""Position encodings, added to the embeddings (Section 3.5)."""

import math
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.alternatives import POSITION_ORDERS
from keras_transformer.utils.backends import is_known


def sinusoid(positions: Any, d_model: int) -> Any:
    """Return the encoding of positions, with sines and cosines interleaved (Section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i / D)) and PE(pos, 2i + 1) = cos(pos / 10000^(2i / D)).

    Args:
        positions: float32 [T], counted from 0.
        d_model: D, even.

    Returns:
        float32 [T, D].

    >>> [round(float(x), 4) for x in sinusoid(ops.array([1.0]), 2)[0]]
    [0.8415, 0.5403]
    """
    even = ops.arange(0, d_model, 2, dtype="float32")
    angles = ops.expand_dims(positions, 1) * ops.exp(even * (-math.log(10_000.0) / d_model))
    pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
    return ops.reshape(pairs, (-1, d_model))


ENCODINGS = {"interleaved": sinusoid, **POSITION_ORDERS}
"""By the orders that `SinusoidalPositionEncoding` accepts."""


@keras.saving.register_keras_serializable(package="keras_transformer")
class SinusoidalPositionEncoding(keras.layers.Layer):
    """Add the paper's sines and cosines to the inputs, for any length (Section 3.5).

    The encoding is computed and added in float32, then cast to the inputs' dtype.

    Args:
        order: `"interleaved"`, as in the paper; `"sines_cosines"`, all sines before all cosines;
            or `"tensor2tensor"`, likewise with the wavelengths of the authors' library, whose
            exponents end at 1 instead of 1 - 2 / D.
        offset: The number of the first position, at least 0.

    Call arguments:
        inputs: float [B, T, D] with an even D.

    Returns:
        float [B, T, D].

    Raises:
        ValueError: If D is odd, or too small for the order, or an argument is out of range.

    >>> layer = SinusoidalPositionEncoding()
    >>> [float(x) for x in layer(ops.zeros((1, 1, 4)))[0, 0]]
    [0.0, 1.0, 0.0, 1.0]
    """

    def __init__(self, order: str = "interleaved", offset: int = 0, **kwargs: Any):
        super().__init__(**kwargs)
        if offset < 0:
            raise ValueError(f"offset must be at least 0, received {offset}.")
        if order not in ENCODINGS:
            raise ValueError(
                f"order must be one of {', '.join(map(repr, ENCODINGS))}, received {order!r}."
            )
        self.order = order
        self.offset = offset
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3, name="inputs")

    def build(self, input_shape: Any) -> None:
        smallest = 4 if self.order == "tensor2tensor" else 2
        if input_shape[-1] % 2 or input_shape[-1] < smallest:
            raise ValueError(
                f"Sinusoidal positions need inputs with an even last axis of at least {smallest}, "
                f"received inputs of shape {tuple(input_shape)}."
            )
        self.d_model = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: self.d_model}, name="inputs")

    def encoding(self, length: Any) -> Any:
        """Return the vectors added at positions 0 to `length` - 1, float32 [length, D]."""
        positions = ops.arange(length, dtype="float32") + self.offset
        return ENCODINGS[self.order](positions, self.d_model)

    def call(self, inputs: Any) -> Any:
        encoding = self.encoding(ops.shape(inputs)[1])
        return ops.cast(ops.cast(inputs, "float32") + encoding, inputs.dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "order": self.order, "offset": self.offset}


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionEncoding(keras.layers.Layer):
    """Add a learned vector per position to the inputs (Section 3.5; Table 3, row E).

    It is added in float32, then cast to the inputs' dtype. In a graph of TensorFlow without a known
    length, and in a function that JAX compiles, positions from `max_length` on are NaN.

    Args:
        max_length: The number of positions.

    Call arguments:
        inputs: float [B, T, D].

    Returns:
        float [B, T, D].

    Raises:
        ValueError: If `max_length` is below 1, or the inputs are longer.

    >>> tuple(LearnedPositionEncoding(max_length=50)(ops.zeros((2, 3, 4))).shape)
    (2, 3, 4)
    """

    def __init__(self, max_length: int, **kwargs: Any):
        super().__init__(**kwargs)
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, received {max_length}.")
        self.max_length = max_length
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3, name="inputs")

    def build(self, input_shape: Any) -> None:
        d_model = input_shape[-1]
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: d_model}, name="inputs")
        self.embeddings = self.add_weight(
            shape=(self.max_length, d_model),
            initializer=keras.initializers.RandomNormal(stddev=d_model**-0.5),
            name="embeddings",
            autocast=False,
        )

    def encoding(self, length: Any) -> Any:
        """Return the vectors added at positions 0 to `length` - 1, float32 [length, D].

        Positions from `max_length` on are NaN.
        """
        if isinstance(length, int) and length <= self.max_length:
            return ops.cast(self.embeddings[:length], "float32")
        positions = ops.arange(length, dtype="int32")
        known = ops.take(self.embeddings, ops.minimum(positions, self.max_length - 1), axis=0)
        nan = ops.convert_to_tensor(float("nan"), "float32")
        is_known = ops.expand_dims(positions < self.max_length, 1)
        return ops.where(is_known, ops.cast(known, "float32"), nan)

    def call(self, inputs: Any) -> Any:
        # Where other backends trace a function, unknown lengths are invented.
        if keras.backend.backend() == "tensorflow" or is_known(inputs):
            self._check_length(inputs.shape)
        encoding = self.encoding(ops.shape(inputs)[1])
        return ops.cast(ops.cast(inputs, "float32") + encoding, inputs.dtype)

    def _check_length(self, shape):
        if (shape[1] or 0) > self.max_length:
            raise ValueError(
                f"Layer {self.name!r} has {self.max_length} positions, received inputs of shape "
                f"{tuple(shape)}. Build it with a larger max_length, or cut the inputs off."
            )

    def compute_output_shape(self, input_shape: Any) -> Any:
        self._check_length(input_shape)
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
