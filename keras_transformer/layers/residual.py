"""The residual connection with layer normalization around every sub-layer (Section 3.1)."""

from typing import Any

import keras

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.layer_norm import NORM_EPSILON, LayerNorm


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(keras.layers.Layer):
    """Compute LayerNorm(x + Dropout(Sublayer(x))), the residual connection of Section 3.1.

    With `norm="pre"`, it is x + Dropout(Sublayer(LayerNorm(x))). The caller runs the sub-layer:
    `residual(x, sublayer(residual.prepare(x)))`.

    Args:
        dropout: The dropout rate of the sub-layer's output (Section 5.4).
        norm: `"post"`, as in the paper, or `"pre"`.
        layer_norm_epsilon: The epsilon of the layer normalization.
        seed: Seed of the dropout.

    Call arguments:
        inputs: float [..., D], x.
        outputs: float [..., D], the sub-layer's output for `prepare(x)`.
        training: Whether dropout applies.

    Returns:
        float [..., D].

    Raises:
        ValueError: If `norm` is neither.
    """

    def __init__(
        self,
        dropout: float = 0.1,
        norm: str = "post",
        layer_norm_epsilon: float = NORM_EPSILON,
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' or 'pre', received {norm!r}.")
        self.dropout = dropout
        self.norm = norm
        self.layer_norm_epsilon = layer_norm_epsilon
        self.seed = seed
        policy = self.dtype_policy
        self.output_dropout = Dropout(dropout, seed, dtype=policy, name="output_dropout")
        self.layer_norm = LayerNorm(layer_norm_epsilon, dtype=policy, name="layer_norm")
        self.supports_masking = True

    def build(self, inputs_shape: Any, outputs_shape: Any = None) -> None:
        self.layer_norm.build(inputs_shape)

    def prepare(self, inputs: Any) -> Any:
        """Return the sub-layer's input, float [..., D]."""
        return self.layer_norm(inputs) if self.norm == "pre" else inputs

    def call(self, inputs: Any, outputs: Any, training: bool | None = None) -> Any:
        total = inputs + self.output_dropout(outputs, training=training)
        return total if self.norm == "pre" else self.layer_norm(total)

    def compute_output_shape(self, inputs_shape: Any, outputs_shape: Any = None) -> Any:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "norm": self.norm,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "seed": self.seed,
        }
