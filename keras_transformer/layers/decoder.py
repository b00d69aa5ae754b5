"""The decoder and its layer (Section 3.1)."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.cpu_kernels import step_rows
from keras_transformer.layers.masks import as_attention_mask, explicit_or_implicit
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
            memory; by default its implicit Keras mask.
        attention_mask: bool [B, 1, T] or [B, T, T], True where a position may attend to another
            one that is not later.
        training: Whether dropout applies.
        return_attention_scores: Whether to also return the attention weights.
        inputs_mask, mask: The implicit Keras mask of the inputs, bool [B, T], which Keras fills in
            as one or the other. It is used if there is no `attention_mask`.

    Returns:
        float [B, T, D], or a pair with the weights of self-attention [B, H, T, T] and
        cross-attention [B, H, T, S], if there is a memory.

    Raises:
        ValueError: If a size is below 1, D is not a multiple of H and there is no `key_dim`, or the
            layer is given a memory and was built without one, or the reverse.

    >>> layer = DecoderLayer(d_model=8, d_ff=32, num_heads=2)
    >>> tuple(layer(ops.ones((3, 5, 8)), ops.ones((3, 7, 8))).shape)
    (3, 5, 8)
    """

    attentions = ("self_attention", "cross_attention")
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
        _check_memory(self, memory)
        self_mask = explicit_or_implicit(
            attention_mask, mask if inputs_mask is None else inputs_mask
        )
        memory_mask = as_attention_mask(memory_mask, "memory_mask", is_padding=True)
        options = {"return_attention_scores": True, "training": training}
        outputs, *weights = self._run(
            inputs,
            lambda x: self.self_attention(
                x, x, attention_mask=self_mask, use_causal_mask=True, **options
            ),
            lambda x: self.cross_attention(x, memory, attention_mask=memory_mask, **options),
            lambda x: self.feed_forward(x, training=training),
            training,
        )
        weights = tuple(each for each in weights if each is not None)
        return (outputs, weights) if return_attention_scores else outputs

    def step(
        self,
        inputs: Any,
        memory_heads: Sequence[Any],
        memory_bias: Any,
        cache: Sequence[Any],
        write: Callable[[Any, Any], Any],
        projections: tuple[Any, Any],
        self_bias: Any = None,
    ) -> tuple[Any, Sequence[Any]]:
        """Run the layer on the next position of N beams per sentence, without dropout.

        The beams of a sentence share its memory, and one cache that holds the tokens of them all.

        Args:
            inputs: float [B * N, D], the beams of a sentence in succession.
            memory_heads: The result of `project_memory` for the B sentences; () without memory.
            memory_bias: float32 [B, 1, S], the `mask_bias` of the memory's mask, or None.
            cache: Keys and values [B, H, P, K] of earlier positions; see `empty_cache`.
            write: `write(cached, heads) -> cached` adds the heads [B, H, N, K] of this position to
                the keys or the values of the cache.
            projections: The result of `join_projections`.
            self_bias: float32 [B, N, P'], the `mask_bias` of which written keys a beam may attend
                to: its own and those of the beams that it continues. All by default, which is right
                for N = 1.

        Returns:
            The output [B * N, D], and the cache as `write` returned it.
        """
        beams = 1 if self_bias is None else self_bias.shape[1]

        def attend_self(x):
            query, key, value = self.self_attention.project_self(x, beams, projections)
            written = write(cache[0], key), write(cache[1], value)
            return self.self_attention.attend_step(query, *written, self_bias), written

        def attend_memory(x):
            # The beams of a sentence are several queries to one memory, which is never repeated.
            query = self.cross_attention.project_query(x, beams)
            return self.cross_attention.attend_step(query, *memory_heads, memory_bias), None

        def feed_forward(x):
            rows = step_rows(x, beams)
            outputs = self.feed_forward(rows, training=False)
            return outputs if rows is x else outputs[0]

        outputs, cache, _ = self._run(inputs, attend_self, attend_memory, feed_forward)
        return outputs, cache

    def _run(self, inputs, attend_self, attend_memory, feed_forward, training=False):
        outputs, first = attend_self(self.self_attention_residual.prepare(inputs))
        x = self.self_attention_residual(inputs, outputs, training=training)
        second = None
        if self.has_memory:
            outputs, second = attend_memory(self.cross_attention_residual.prepare(x))
            x = self.cross_attention_residual(x, outputs, training=training)
        outputs = feed_forward(self.feed_forward_residual.prepare(x))
        return self.feed_forward_residual(x, outputs, training=training), first, second

    def project_memory(self, memory: Any) -> Sequence[Any]:
        """Return the heads of the memory's keys and values, once for all steps of a search."""
        return () if memory is None else self.cross_attention.project_memory(memory)

    def join_projections(self) -> tuple[Any, Any]:
        """Return the projections of self-attention side by side, once for all steps of a search."""
        return self.self_attention.join_projections()

    def empty_cache(self, batch: Any) -> tuple[Any, Any]:
        """Return keys and values [B, H, 0, K] of no positions, for `batch` sentences."""
        keys, values = (
            ops.zeros((batch, self.num_heads, 0, size), dtype=self.compute_dtype)
            for size in (self.key_dim, self.value_dim)
        )
        return keys, values


@keras.saving.register_keras_serializable(package="keras_transformer")
class Decoder(Stack):
    """Run a stack of decoder layers (Section 3.1).

    A stack that is built without memory is that of a decoder-only language model.

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
            memory; by default its implicit Keras mask.
        attention_mask: bool [B, 1, T] or [B, T, T], True where a position may attend to another
            one that is not later.
        training: Whether dropout applies.
        return_attention_scores: Whether to also return the attention weights.
        inputs_mask, mask: The implicit Keras mask of the inputs, bool [B, T], which Keras fills in
            as one or the other. It is used if there is no `attention_mask`.

    Returns:
        float [B, T, D], or a pair with a list that has, for each layer, the weights of
        self-attention [B, H, T, T] and cross-attention [B, H, T, S], if there is a memory.

    Raises:
        ValueError: If a size is below 1, D is not a multiple of H and there is no `key_dim`, or the
            stack is given a memory and was built without one, or the reverse.

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
        self_mask = explicit_or_implicit(
            attention_mask, mask if inputs_mask is None else inputs_mask
        )
        for layer in self.layers:
            x, layer_weights = layer(
                x,
                memory,
                memory_mask=memory_mask,
                attention_mask=self_mask,
                return_attention_scores=True,
                training=training,
            )
            weights.append(layer_weights)
        outputs = self.normalize(x)
        return (outputs, weights) if return_attention_scores else outputs

    def step(
        self,
        inputs: Any,
        memory_heads: Sequence[Any],
        memory_bias: Any,
        caches: Sequence[Any],
        write: Callable[[Any, Any], Any],
        projections: Sequence[Any],
        self_bias: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Run all layers like `DecoderLayer.step`.

        `memory_heads`, `caches` and `projections` are lists over the layers.
        """
        x, written = inputs, []
        for layer, heads, cache, joined in zip(
            self.layers, memory_heads, caches, projections, strict=True
        ):
            x, cache = layer.step(x, heads, memory_bias, cache, write, joined, self_bias)
            written.append(cache)
        return self.normalize(x), written

    def project_memory(self, memory: Any) -> list[Any]:
        """Return `DecoderLayer.project_memory` of every layer."""
        return [layer.project_memory(memory) for layer in self.layers]

    def join_projections(self) -> list[Any]:
        """Return `DecoderLayer.join_projections` of every layer."""
        return [layer.join_projections() for layer in self.layers]

    def empty_cache(self, batch: Any) -> list[Any]:
        """Return `DecoderLayer.empty_cache` of every layer."""
        return [layer.empty_cache(batch) for layer in self.layers]


def _check_memory(layer, memory):
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
