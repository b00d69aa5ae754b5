"""The decoder and its layer (Section 3.1)."""

from typing import Any

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.masks import as_attention_mask
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.stack import Stack, SubLayers


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(SubLayers):
    """Apply causal self-attention, attention to the encoder's output, and a feed-forward network.

    Each is in a residual connection (Section 3.1). A layer that is built without memory has no
    cross-attention, as the layers of a decoder-only language model.

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
        inputs: float [B, T, D].
        memory: float [B, S, D], the encoder's output.
        memory_mask: bool [B, S], [B, 1, S] or [B, T, S], True where a position may attend to the
            memory. Its implicit Keras mask applies too.
        attention_mask: bool [B, 1, T] or [B, T, T], True where a position may attend to another
            one that is not later.
        training: Whether dropout applies.
        return_attention_scores: Whether to also return the attention weights.
        inputs_mask, mask: The implicit Keras mask of the inputs, bool [B, T], which Keras fills in
            as one or the other. It is combined with `attention_mask`.

    Returns:
        float [B, T, D], or a pair with the weights of self-attention [B, H, T, T] and
        cross-attention [B, H, T, S], if there is a memory.

    Raises:
        ValueError: If a size is below 1, D is not a multiple of H and there is no `key_dim`, or the
            layer is given a memory and was built without one, or the reverse.

    >>> from keras import ops
    >>> layer = DecoderLayer(d_model=8, d_ff=32, num_heads=2)
    >>> tuple(layer(ops.ones((3, 5, 8)), ops.ones((3, 7, 8))).shape)
    (3, 5, 8)
    """

    kernel_parts = ("self_attention", "cross_attention", "feed_forward")
    self_attention: MultiHeadAttention
    self_attention_residual: Residual
    cross_attention: MultiHeadAttention
    cross_attention_residual: Residual

    def build(self, inputs_shape: Any, memory_shape: Any = None) -> None:
        self._build(inputs_shape, memory_shape)

    @property
    def has_memory(self) -> bool:
        """Whether the layer was built with a memory to attend to."""
        return self.cross_attention.built

    def compute_output_shape(self, inputs_shape: Any, memory_shape: Any = None) -> Any:
        return inputs_shape

    def call(
        self,
        inputs: Any,
        memory: Any = None,
        memory_mask: Any = None,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        inputs_mask: Any = None,
        mask: Any = None,
    ) -> Any:
        check_memory(self, memory)
        implicit = mask if inputs_mask is None else inputs_mask
        options = {"return_attention_scores": True, "training": training}

        x = self.self_attention_residual.prepare(inputs)
        outputs, self_weights = self.self_attention(
            x,
            x,
            attention_mask=attention_mask,
            query_mask=implicit,
            value_mask=implicit,
            use_causal_mask=True,
            **options,
        )
        x = self.self_attention_residual(inputs, outputs, training=training)
        weights: tuple[Any, ...] = (self_weights,)

        if memory is not None:
            outputs, cross_weights = self.cross_attention(
                self.cross_attention_residual.prepare(x),
                memory,
                attention_mask=as_attention_mask(memory_mask, name="memory_mask", is_padding=True),
                **options,
            )
            x = self.cross_attention_residual(x, outputs, training=training)
            weights += (cross_weights,)

        outputs = self.feed_forward(self.feed_forward_residual.prepare(x), training=training)
        outputs = self.feed_forward_residual(x, outputs, training=training)
        return (outputs, weights) if return_attention_scores else outputs


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(Stack):
    """Run a stack of decoder layers (Section 3.1).

    A stack that is built without memory is a decoder-only language model.

    Args:
        num_layers: N, the number of layers.
        d_model: D, the width of inputs and outputs.
        d_ff: The width inside the feed-forward networks.
        num_heads: H, the number of attention heads.
        **options: Other arguments of `DecoderLayer`. With `norm="pre"`, the stack ends in a layer
            normalization.

    Call arguments:
        inputs: float [B, T, D], embeddings with positions.
        memory: float [B, S, D], the encoder's output.
        memory_mask: bool [B, S], [B, 1, S] or [B, T, S], True where a position may attend to the
            memory. Its implicit Keras mask applies too.
        attention_mask: bool [B, 1, T] or [B, T, T], True where a position may attend to another
            one that is not later.
        training: Whether dropout applies.
        return_attention_scores: Whether to also return the attention weights.
        inputs_mask, mask: The implicit Keras mask of the inputs, bool [B, T], which Keras fills in
            as one or the other. It is combined with `attention_mask`.

    Returns:
        float [B, T, D], or a pair with a list that has, for each layer, the weights of
        self-attention [B, H, T, T] and cross-attention [B, H, T, S], if there is a memory.

    Raises:
        ValueError: If a size is below 1, D is not a multiple of H and there is no `key_dim`, or the
            stack is given a memory and was built without one, or the reverse.

    >>> from keras import ops
    >>> decoder = Decoder(num_layers=2, d_model=8, d_ff=32, num_heads=2)
    >>> tuple(decoder(ops.ones((3, 5, 8)), ops.ones((3, 7, 8))).shape)
    (3, 5, 8)
    """

    layer_class = DecoderLayer

    def build(self, inputs_shape: Any, memory_shape: Any = None) -> None:
        self._build(inputs_shape, memory_shape)

    def compute_output_shape(self, inputs_shape: Any, memory_shape: Any = None) -> Any:
        return inputs_shape

    def call(
        self,
        inputs: Any,
        memory: Any = None,
        memory_mask: Any = None,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        inputs_mask: Any = None,
        mask: Any = None,
    ) -> Any:
        x, weights = inputs, []
        for layer in self.layers:
            x, layer_weights = layer(
                x,
                memory,
                memory_mask=memory_mask,
                attention_mask=attention_mask,
                inputs_mask=mask if inputs_mask is None else inputs_mask,
                return_attention_scores=True,
                training=training,
            )
            weights.append(layer_weights)
        outputs = x if self.final_norm is None else self.final_norm(x)
        return (outputs, weights) if return_attention_scores else outputs


def check_memory(layer: DecoderLayer, memory: Any) -> None:
    """Raise a ValueError if a layer gets a memory and was built without one, or the reverse."""
    if layer.has_memory and memory is None:
        raise ValueError(
            f"Layer {layer.name!r} was built with a memory, received none. Pass the encoder's "
            "output as memory, or make another layer for a decoder-only model."
        )
    if memory is not None and not layer.has_memory:
        raise ValueError(
            f"Layer {layer.name!r} was built without a memory, received one. Pass the memory in "
            "the first call too, or give its shape to build."
        )
