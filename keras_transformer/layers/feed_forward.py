"""The position-wise feed-forward network (Section 3.3)."""

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.adaptation import KernelLayer
from keras_transformer.layers.initial import part_seeds, serialized_initializer
from keras_transformer.layers.residual import Dropout


def linear(inputs: Any, kernel: Any, bias: Any = None) -> Any:
    """Return inputs @ kernel + bias over the last axis, as one matrix product.

    A product of each sentence with the kernel would take longer, forward and backward.

    Args:
        inputs: float [..., D].
        kernel: float [D, U].
        bias: float [U], or None.

    Returns:
        [..., U], in the inputs' dtype.

    Raises:
        ValueError: If the last axes differ.

    >>> linear(ops.ones((2, 3, 4)), ops.ones((4, 5))).shape[2]
    5
    """
    shape, dtype = ops.shape(inputs), inputs.dtype
    if shape[-1] != kernel.shape[0]:
        raise ValueError(
            f"The last axis of the inputs must be {kernel.shape[0]}, "
            f"received inputs of shape {tuple(inputs.shape)}."
        )
    rows = inputs if len(shape) == 2 else ops.reshape(inputs, (-1, shape[-1]))
    # With PyTorch, Keras's product of float64 is float32.
    outputs = ops.cast(ops.matmul(rows, ops.cast(kernel, dtype)), dtype)
    if len(shape) != 2:
        outputs = ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))
    return outputs if bias is None else ops.add(outputs, ops.cast(bias, dtype))


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(KernelLayer):
    """Compute max(0, x W1 + b1) W2 + b2 at every position (Section 3.3, eq. 2).

    Args:
        d_model: D, the width of inputs and outputs.
        d_ff: The width in between.
        dropout: The dropout rate of the activations in between.
        activation: The function in between, a Keras activation or its name. The paper's is
            `"relu"`.
        use_bias: Whether to add b1 and b2.
        kernel_initializer: The initializer of W1 and W2.
        seed: Seed of the kernels and the dropout.

    Call arguments:
        inputs: float [..., D].
        training: Whether dropout applies.

    Returns:
        float [..., D].

    Raises:
        ValueError: If a size is below 1, or the inputs' last axis is not D.

    >>> tuple(FeedForward(d_model=4, d_ff=16)(ops.ones((2, 3, 4))).shape)
    (2, 3, 4)
    """

    kernel_names = ("inner_kernel", "outer_kernel")
    kind = "feed_forward"

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        dropout: float = 0.0,
        *,
        activation: Any = "relu",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        for name, size in (("d_model", d_model), ("d_ff", d_ff)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, received {size}.")
        self.d_model = d_model
        self.d_ff = d_ff
        self.dropout = dropout
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.seed = seed
        self._seeds = part_seeds(seed)
        self.inner_dropout = Dropout(
            dropout, next(self._seeds), dtype=self.dtype_policy, name="inner_dropout"
        )
        self._share_trainable()
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        if input_shape[-1] != self.d_model:
            raise ValueError(
                f"The last axis of the inputs must be d_model={self.d_model}, "
                f"received inputs of shape {tuple(input_shape)}."
            )
        self.input_spec = keras.layers.InputSpec(axes={-1: self.d_model}, name="inputs")
        self.inner_kernel, self.inner_bias = self.add_linear("inner", self.d_model, self.d_ff)
        self.outer_kernel, self.outer_bias = self.add_linear("outer", self.d_ff, self.d_model)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        # As rows, TensorFlow computes a product, its bias and its relu in one operation.
        x = ops.reshape(inputs, (-1, self.d_model))
        x = self.activation(linear(x, self.kernel("inner_kernel"), self.inner_bias))
        x = self.inner_dropout(x, training=training)
        x = linear(x, self.kernel("outer_kernel"), self.outer_bias)
        return ops.reshape(x, ops.shape(inputs))

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "dropout": self.dropout,
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": serialized_initializer(self.kernel_initializer),
            "seed": self.seed,
        }
