"""The residual connection with layer normalisation around every sub-layer (Section 3.1)."""

import keras

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.layer_norm import LayerNorm


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(keras.layers.Layer):
    """LayerNorm(x + Dropout(Sublayer(x))), or x + Dropout(Sublayer(LayerNorm(x))) with norm="pre".

    The caller runs the sub-layer: `residual(x, sublayer(residual.prepare(x)))`.

    Args:
        dropout: the rate on the sub-layer's output (Section 5.4).
        norm: "post", the paper's, or "pre".

    Call arguments:
        inputs: float [..., D], x.
        outputs: float [..., D], what the sub-layer made of `prepare(x)`.
        training: whether dropout applies.

    Returns:
        float [..., D].
    """

    def __init__(self, dropout: float = 0.1, norm: str = "post", **kwargs):
        super().__init__(**kwargs)
        if norm not in ("post", "pre"):
            raise ValueError(f"norm must be 'post' or 'pre', received {norm!r}.")
        self.dropout = dropout
        self.norm = norm
        self.output_dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.layer_norm = LayerNorm(dtype=self.dtype_policy, name="layer_norm")

    def build(self, inputs_shape, outputs_shape=None):
        self.layer_norm.build(inputs_shape)

    def prepare(self, inputs):
        """Return what the sub-layer is to be given."""
        return self.layer_norm(inputs) if self.norm == "pre" else inputs

    def call(self, inputs, outputs, training=None):
        total = inputs + self.output_dropout(outputs, training=training)
        return total if self.norm == "pre" else self.layer_norm(total)

    def compute_output_shape(self, inputs_shape, outputs_shape):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "dropout": self.dropout, "norm": self.norm}


def final_norm(layers, dtype):
    """Return the normalisation that ends a stack of pre-norm layers; None after post-norm ones."""
    if layers[-1].norm == "post":
        return None
    return LayerNorm(dtype=dtype, name="final_norm")
