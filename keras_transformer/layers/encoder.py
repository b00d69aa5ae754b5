"""The encoder and its layer (Section 3.1)."""

from typing import Any

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.stack import Stack, SubLayers


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(SubLayers):
    """Apply self-attention and a feed-forward network, each in a residual connection (Section 3.1).

    Args:
        d_model: D, the width of inputs and outputs.
        d_ff: The width inside the feed-forward network.
        num_heads: H, the number of attention heads.
        key_dim: The size of a head's queries and keys; D / H by default.
        value_dim: The size of a head's values; `key_dim` by default.
        dropout: The dropout rate of each sub-layer's output.
        attention_dropout: The dropout rate of the attention weights.
        ffn_dropout: The dropout rate inside the feed-forward network.
        norm: `"post"`, layer normalization after each residual sum as in the paper, or `"pre"`.
        activation: The function inside the feed-forward network, a Keras activation or its name.
        use_bias: Whether the projections of the attention add a bias. The paper's don't.
        layer_norm_epsilon: The epsilon of the layer normalizations.
        kernel_initializer: The initializer of all kernels.
        seed: Seed of the kernels and of dropout.

    Call arguments:
        inputs: float [B, S, D].
        attention_mask: bool [B, 1, S] or [B, S, S], True where a position may attend to another.
        training: Whether dropout applies.
        return_attention_scores: Whether to also return the attention weights.
        use_causal_mask: Whether to keep positions from attending to later ones.
        mask: The implicit Keras mask of the inputs, bool [B, S], which Keras fills in. It is
            combined with `attention_mask`.

    Returns:
        float [B, S, D], or a pair with the weights [B, H, S, S].

    Raises:
        ValueError: If a size is below 1, or D is not a multiple of H and there is no `key_dim`.

    >>> from keras import ops
    >>> layer = EncoderLayer(d_model=8, d_ff=32, num_heads=2)
    >>> tuple(layer(ops.ones((3, 5, 8))).shape)
    (3, 5, 8)
    """

    kernel_parts = ("self_attention", "feed_forward")
    self_attention: MultiHeadAttention
    self_attention_residual: Residual

    def build(self, input_shape: Any) -> None:
        self._build(input_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def call(
        self,
        inputs: Any,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        mask: Any = None,
    ) -> Any:
        x = self.self_attention_residual.prepare(inputs)
        outputs, weights = self.self_attention(
            x,
            x,
            attention_mask=attention_mask,
            query_mask=mask,
            value_mask=mask,
            use_causal_mask=use_causal_mask,
            return_attention_scores=True,
            training=training,
        )
        x = self.self_attention_residual(inputs, outputs, training=training)
        outputs = self.feed_forward(self.feed_forward_residual.prepare(x), training=training)
        outputs = self.feed_forward_residual(x, outputs, training=training)
        return (outputs, weights) if return_attention_scores else outputs


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(Stack):
    """Run a stack of encoder layers (Section 3.1).

    Args:
        num_layers: N, the number of layers.
        d_model: D, the width of inputs and outputs.
        d_ff: The width inside the feed-forward networks.
        num_heads: H, the number of attention heads.
        **options: Other arguments of `EncoderLayer`. With `norm="pre"`, the stack ends in a layer
            normalization.

    Call arguments:
        inputs: float [B, S, D], embeddings with positions.
        attention_mask: bool [B, 1, S] or [B, S, S], True where a position may attend to another.
        training: Whether dropout applies.
        return_attention_scores: Whether to also return the attention weights.
        use_causal_mask: Whether to keep positions from attending to later ones.
        mask: The implicit Keras mask of the inputs, bool [B, S], which Keras fills in. It is
            combined with `attention_mask`.

    Returns:
        float [B, S, D], or a pair with a list of each layer's weights [B, H, S, S].

    Raises:
        ValueError: If a size is below 1, or D is not a multiple of H and there is no `key_dim`.

    >>> from keras import ops
    >>> encoder = Encoder(num_layers=2, d_model=8, d_ff=32, num_heads=2)
    >>> tuple(encoder(ops.ones((3, 5, 8))).shape)
    (3, 5, 8)
    """

    layer_class = EncoderLayer

    def build(self, input_shape: Any) -> None:
        self._build(input_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return input_shape

    def call(
        self,
        inputs: Any,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        mask: Any = None,
    ) -> Any:
        x, weights = inputs, []
        for layer in self.layers:
            x, layer_weights = layer(
                x,
                attention_mask,
                mask=mask,
                use_causal_mask=use_causal_mask,
                return_attention_scores=True,
                training=training,
            )
            weights.append(layer_weights)
        outputs = x if self.final_norm is None else self.final_norm(x)
        return (outputs, weights) if return_attention_scores else outputs
