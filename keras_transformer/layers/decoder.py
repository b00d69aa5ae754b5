"""The decoder and its layer (Section 3.1)."""

import keras
from keras import ops

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import Residual, final_norm
from keras_transformer.layers.sizes import head_sizes


@keras.saving.register_keras_serializable(package="keras_transformer")
class DecoderLayer(keras.layers.Layer):
    """Causal self-attention, attention to the encoder's output, and a feed-forward network.

    Each is in a residual connection (Section 3.1). The arguments are those of `EncoderLayer`.

    Args:
        d_model: D, the width of inputs and outputs.
        d_ff: the width inside the feed-forward network.
        num_heads: H.
        key_dim: the size of a head's queries and keys; D / H by default.
        value_dim: the size of a head's values; `key_dim` by default.
        dropout: the rate on each sub-layer's output.
        attention_dropout: the rate on the attention weights.
        ffn_dropout: the rate on the activations inside the feed-forward network.
        norm: "post", layer normalisation after each residual sum as in the paper, or "pre".

    Call arguments:
        inputs: float [B, T, D].
        memory: float [B, S, D], the encoder's output.
        memory_mask: bool [B, 1, S] or [B, T, S], True where a position may attend to the memory.
        training: whether dropout applies.

    Returns:
        float [B, T, D].

    >>> layer = DecoderLayer(d_model=8, d_ff=32, num_heads=2)
    >>> tuple(layer(ops.ones((3, 5, 8)), ops.ones((3, 7, 8))).shape)
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        ffn_dropout: float = 0.0,
        norm: str = "post",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_model = d_model
        self.d_ff = d_ff
        self.num_heads = num_heads
        self.key_dim, self.value_dim = head_sizes(d_model, num_heads, key_dim, value_dim)
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.ffn_dropout = ffn_dropout
        self.norm = norm
        policy = self.dtype_policy
        sizes = (num_heads, self.key_dim, self.value_dim, attention_dropout)
        self.self_attention = MultiHeadAttention(
            *sizes, use_bias=False, dtype=policy, name="self_attention"
        )
        self.self_attention_residual = Residual(
            dropout, norm, dtype=policy, name="self_attention_residual"
        )
        self.cross_attention = MultiHeadAttention(
            *sizes, use_bias=False, dtype=policy, name="cross_attention"
        )
        self.cross_attention_residual = Residual(
            dropout, norm, dtype=policy, name="cross_attention_residual"
        )
        self.feed_forward = FeedForward(
            d_model, d_ff, ffn_dropout, dtype=policy, name="feed_forward"
        )
        self.feed_forward_residual = Residual(
            dropout, norm, dtype=policy, name="feed_forward_residual"
        )

    def build(self, inputs_shape, memory_shape=None):
        self.self_attention.build(inputs_shape)
        self.self_attention_residual.build(inputs_shape)
        self.cross_attention.build(inputs_shape, memory_shape or inputs_shape)
        self.cross_attention_residual.build(inputs_shape)
        self.feed_forward.build(inputs_shape)
        self.feed_forward_residual.build(inputs_shape)

    def call(self, inputs, memory, memory_mask=None, training=None):
        return self.step(inputs, self.project_memory(memory), memory_mask, training=training)[0]

    def project_memory(self, memory):
        """Return the heads of the memory's keys and values, once for all steps of a search."""
        return self.cross_attention.project_memory(memory)

    def step(self, inputs, memory_heads, memory_mask=None, cache=None, training=None):
        """Run the layer on the positions that follow those of the cache.

        Args:
            inputs: float [R, T, D].
            memory_heads: what `project_memory` returned for B sentences. R may be a multiple of B:
                the rows of one sentence follow each other and share its memory.
            memory_mask: bool [B, 1, S], or None.
            cache: keys and values [R, H, P, K] of the P positions before, or None for P = 0.
            training: whether dropout applies.

        Returns:
            The output [R, T, D], the cache with T more positions, and the weights of self-attention
            [R, H, T, P + T] and cross-attention [B, H, R / B * T, S].
        """
        prepared = self.self_attention_residual.prepare(inputs)
        query, key, value = self.self_attention.project_self(prepared)
        if cache is not None:
            key = ops.concatenate([cache[0], key], axis=2)
            value = ops.concatenate([cache[1], value], axis=2)
        outputs, self_weights = self.self_attention.attend(
            query, key, value, use_causal_mask=inputs.shape[1] != 1, training=training
        )
        x = self.self_attention_residual(inputs, outputs, training=training)

        # The beams of a sentence are so many queries to one memory, which is never repeated.
        prepared = self.cross_attention_residual.prepare(x)
        sentences = ops.shape(memory_heads[0])[0]
        by_sentence = ops.reshape(prepared, (sentences, -1, self.d_model))
        outputs, cross_weights = self.cross_attention.attend(
            self.cross_attention.project_query(by_sentence),
            *memory_heads,
            attention_mask=memory_mask,
            training=training,
        )
        outputs = ops.reshape(outputs, ops.shape(x))
        x = self.cross_attention_residual(x, outputs, training=training)

        outputs = self.feed_forward(self.feed_forward_residual.prepare(x), training=training)
        x = self.feed_forward_residual(x, outputs, training=training)
        return x, (key, value), (self_weights, cross_weights)

    def empty_cache(self, rows):
        """Return the cache before the first position, for so many rows."""
        shapes = ((rows, self.num_heads, 0, size) for size in (self.key_dim, self.value_dim))
        return tuple(ops.zeros(shape, dtype=self.compute_dtype) for shape in shapes)

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "ffn_dropout": self.ffn_dropout,
            "norm": self.norm,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(keras.layers.Layer):
    """A stack of decoder layers (Section 3.1).

    Args:
        num_layers: N.
        d_model: D.
        d_ff: the width inside the feed-forward networks.
        num_heads: H.
        **options: the other arguments of `DecoderLayer`. With norm="pre" the stack ends in a layer
            normalisation, as the last residual sum has none.

    Call arguments:
        inputs: float [B, T, D], embeddings with positions.
        memory: float [B, S, D], the encoder's output.
        memory_mask: bool [B, 1, S] or [B, T, S], True where a position may attend to the memory.
        training: whether dropout applies.

    Returns:
        float [B, T, D].

    >>> decoder = Decoder(num_layers=2, d_model=8, d_ff=32, num_heads=2)
    >>> tuple(decoder(ops.ones((3, 5, 8)), ops.ones((3, 7, 8))).shape)
    (3, 5, 8)
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        d_ff: int,
        num_heads: int,
        *,
        name=None,
        dtype=None,
        trainable=True,
        **options,
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        self.sizes = {"d_model": d_model, "d_ff": d_ff, "num_heads": num_heads, **options}
        self.layers = [
            DecoderLayer(**self.sizes, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(num_layers)
        ]
        self.final_norm = final_norm(self.layers, self.dtype_policy)

    def build(self, inputs_shape, memory_shape=None):
        for layer in self.layers:
            layer.build(inputs_shape, memory_shape)
        if self.final_norm is not None:
            self.final_norm.build(inputs_shape)

    def call(self, inputs, memory, memory_mask=None, training=None):
        return self.step(inputs, self.project_memory(memory), memory_mask, training=training)[0]

    def project_memory(self, memory):
        """Return `DecoderLayer.project_memory` of every layer."""
        return [layer.project_memory(memory) for layer in self.layers]

    def step(self, inputs, memory_heads, memory_mask=None, cache=None, training=None):
        """Run all layers on the positions that follow those of the cache.

        As `DecoderLayer.step`, with a list over the layers for `memory_heads`, the cache and the
        weights.
        """
        x, new_cache, weights = inputs, [], []
        caches = [None] * len(self.layers) if cache is None else cache
        for layer, heads, layer_cache in zip(self.layers, memory_heads, caches, strict=True):
            x, layer_cache, layer_weights = layer.step(x, heads, memory_mask, layer_cache, training)
            new_cache.append(layer_cache)
            weights.append(layer_weights)
        return (x if self.final_norm is None else self.final_norm(x)), new_cache, weights

    def empty_cache(self, rows):
        """Return the cache before the first position, for so many rows."""
        return [layer.empty_cache(rows) for layer in self.layers]

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "num_layers": len(self.layers), **self.sizes}
