"""The decoder and its layer (Section 3.1)."""

import keras
from keras import ops

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.few_rows import are_few
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
        return self.attend(inputs, memory, memory_mask, training)[0]

    def attend(self, inputs, memory, memory_mask=None, training=None):
        """Return what `call` returns, and the attention weights.

        They are those of self-attention [B, H, T, T] and of cross-attention [B, H, T, S].
        """

        def attend_self(x):
            heads = self.self_attention.project_self(x)
            return self.self_attention.attend(*heads, use_causal_mask=True, training=training)

        def attend_memory(x):
            heads = (self.cross_attention.project_query(x), *self.project_memory(memory))
            return self.cross_attention.attend(*heads, memory_mask, training=training)

        def feed_forward(x):
            return self.feed_forward(x, training=training)

        outputs, *weights = self._run(inputs, attend_self, attend_memory, feed_forward, training)
        return outputs, tuple(weights)

    def project_memory(self, memory):
        """Return the heads of the memory's keys and values, once for all steps of a search."""
        return self.cross_attention.project_memory(memory)

    def join_projections(self):
        """Return the projections of self-attention side by side, once for all steps of a search."""
        return self.self_attention.join_projections()

    def step(self, inputs, memory_heads, memory_bias, cache, write, projections, self_bias=None):
        """Run the layer on the next position of N beams of each sentence, without dropout.

        The beams of a sentence share its memory, and one cache that holds the tokens of them all.

        Args:
            inputs: float [B * N, D], the beams of a sentence in succession.
            memory_heads: what `project_memory` returned for the B sentences.
            memory_bias: float32 [B, 1, S], the `mask_bias` of the memory's mask, or None.
            cache: keys and values [B, H, P, K] of positions before; see `empty_cache`.
            write: `write(cached, heads) -> cached` adds the heads [B, H, N, K] of this position to
                the keys or the values of the cache.
            projections: what `join_projections` returned.
            self_bias: float32 [B, N, P'], the `mask_bias` of which keys so written a beam may
                attend to: its own and those of the beams that it continues. By default, which suits
                N = 1, all.

        Returns:
            The output [B * N, D] and the cache as `write` returned it.
        """
        beams = 1 if self_bias is None else self_bias.shape[1]

        def attend_self(x):
            query, key, value = self.self_attention.project_self(x, beams, projections)
            written = write(cache[0], key), write(cache[1], value)
            return self.self_attention.attend_rows(query, *written, self_bias), written

        def attend_memory(x):
            # The beams of a sentence are so many queries to one memory, which is never repeated.
            query = self.cross_attention.project_query(x, beams)
            return self.cross_attention.attend_rows(query, *memory_heads, memory_bias), None

        def feed_forward(x):
            if beams == 1 and not are_few(x):
                return self.feed_forward(x, training=False)
            # Beams and few rows take less time if they are not flat: see `FeedForward.call`.
            return self.feed_forward(ops.expand_dims(x, 0), training=False)[0]

        outputs, cache, _ = self._run(inputs, attend_self, attend_memory, feed_forward)
        return outputs, cache

    def _run(self, inputs, attend_self, attend_memory, feed_forward, training=False):
        outputs, first = attend_self(self.self_attention_residual.prepare(inputs))
        x = self.self_attention_residual(inputs, outputs, training=training)
        outputs, second = attend_memory(self.cross_attention_residual.prepare(x))
        x = self.cross_attention_residual(x, outputs, training=training)
        outputs = feed_forward(self.feed_forward_residual.prepare(x))
        return self.feed_forward_residual(x, outputs, training=training), first, second

    def empty_cache(self, batch):
        """Return keys and values [B, H, 0, K] of no position, for so many sentences."""
        shapes = ((batch, self.num_heads, 0, size) for size in (self.key_dim, self.value_dim))
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
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, received {num_layers}.")
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
        return self.attend(inputs, memory, memory_mask, training)[0]

    def attend(self, inputs, memory, memory_mask=None, training=None):
        """Return what `call` returns, and for each layer the weights of its two attentions."""
        x, weights = inputs, []
        for layer in self.layers:
            x, layer_weights = layer.attend(x, memory, memory_mask, training)
            weights.append(layer_weights)
        return (x if self.final_norm is None else self.final_norm(x)), weights

    def project_memory(self, memory):
        """Return `DecoderLayer.project_memory` of every layer."""
        return [layer.project_memory(memory) for layer in self.layers]

    def join_projections(self):
        """Return `DecoderLayer.join_projections` of every layer."""
        return [layer.join_projections() for layer in self.layers]

    def step(self, inputs, memory_heads, memory_bias, caches, write, projections, self_bias=None):
        """Run all layers as `DecoderLayer.step`.

        `memory_heads`, `caches` and `projections` are lists over the layers.
        """
        x, written = inputs, []
        for layer, *given in zip(self.layers, memory_heads, caches, projections, strict=True):
            heads, cache, joined = given
            x, cache = layer.step(x, heads, memory_bias, cache, write, joined, self_bias)
            written.append(cache)
        return (x if self.final_norm is None else self.final_norm(x)), written

    def empty_cache(self, batch):
        """Return `DecoderLayer.empty_cache` of every layer."""
        return [layer.empty_cache(batch) for layer in self.layers]

    def compute_output_shape(self, inputs_shape, memory_shape=None):
        return inputs_shape

    def get_config(self):
        return {**super().get_config(), "num_layers": len(self.layers), **self.sizes}
