"""One position of a decoder, with a cache of the earlier ones: what searches run.

This is the forward pass of `layers.Decoder` for a few queries per sentence, written once, in
`keras.ops`, for every search and backend. Its plain equivalent is the decoder's `call` on all
positions, without dropout; `tests/translation/test_cached_step.py` compares the two.

Unless the device is a GPU, products suit CPUs, by the static shapes of a TensorFlow graph. oneDNN,
TensorFlow's default on CPUs with AVX-512, divides every product among all threads, however small,
and waking them takes longer than a step's products do. Sizes are constants because a graph may be
served on another machine than the one that writes it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    TokenEmbedding,
)
from keras_transformer.layers.attention import join_heads, split_heads
from keras_transformer.layers.decoder import check_memory
from keras_transformer.layers.feed_forward import linear
from keras_transformer.layers.masks import mask_bias
from keras_transformer.model import Transformer

_SMALL = 160
"""Elements of one head's queries, up to which TensorFlow's own kernel wins: 5 beams of 32."""
_FEW_ROWS = 8
"""Largest number of static rows that count as few: the beams of one sentence."""
_TILE = 2**17
"""Elements of a weight tile: 512 KiB of float32, half of the 1 MiB of L2 cache up to which oneDNN
multiplies in one thread."""
_MAX_SUMMED_TILES = 4
"""Largest number of tiles whose products are added up."""

Linear = tuple[Any, Any]
"""A kernel [D, U] and a bias [U] or None."""


class LayerWeights(NamedTuple):
    """What the steps of a search multiply with in a decoder layer, computed before the first one.

    LoRA and int8 are part of the kernels, as `kernel` of a layer returns them.

    Attributes:
        projections: The joined projections of self-attention; see `join_projections`.
        self_output: The output projection of self-attention.
        memory_query: The query projection of cross-attention, or () without memory.
        memory_output: The output projection of cross-attention, or () without memory.
        inner: The first linear map of the feed-forward network.
        outer: The second one.
    """

    projections: Linear
    self_output: Linear
    memory_query: Linear | tuple[()]
    memory_output: Linear | tuple[()]
    inner: Linear
    outer: Linear


def layer_weights(layer: DecoderLayer, projections: Linear | None = None) -> LayerWeights:
    """Return the weights of a layer for its steps.

    Args:
        layer: A built layer.
        projections: The result of `join_projections`; computed here by default.
    """
    attention, memory = layer.self_attention, layer.cross_attention
    return LayerWeights(
        projections=join_projections(attention) if projections is None else projections,
        self_output=_linear_map(attention, "output"),
        memory_query=_linear_map(memory, "query") if memory.built else (),
        memory_output=_linear_map(memory, "output") if memory.built else (),
        inner=_linear_map(layer.feed_forward, "inner"),
        outer=_linear_map(layer.feed_forward, "outer"),
    )


def join_projections(attention: MultiHeadAttention) -> Linear:
    """Return the kernels of query, key and value side by side, and their biases or None."""
    maps = [_linear_map(attention, name) for name in ("query", "key", "value")]
    kernels, biases = zip(*maps, strict=True)
    joined = None if biases[0] is None else ops.concatenate(biases)
    return ops.concatenate(kernels, axis=1), joined


def _linear_map(layer, name):
    return layer.kernel(f"{name}_kernel"), getattr(layer, f"{name}_bias")


def project_memory(decoder: Decoder, memory: Any) -> list[Any]:
    """Return the heads of the memory's keys and values in each layer, once for all steps.

    Args:
        decoder: A built decoder.
        memory: float [B, S, D], or None for a decoder that was built without memory.

    Returns:
        For each layer, the keys and the values [B, H, S, K], or () without memory.

    Raises:
        ValueError: If a memory is missing, or the decoder was built without one.
    """
    heads: list[Any] = []
    for layer in decoder.layers:
        check_memory(layer, memory)
        attention = layer.cross_attention
        heads.append(
            ()
            if memory is None
            else tuple(
                split_heads(linear(memory, *_linear_map(attention, name)), attention.num_heads)
                for name in ("key", "value")
            )
        )
    return heads


def empty_cache(decoder: Decoder, batch: Any) -> list[tuple[Any, ...]]:
    """Return each layer's keys and values [B, H, 0, K] of no positions, for `batch` sentences."""
    return [
        tuple(
            ops.zeros((batch, layer.num_heads, 0, size), dtype=layer.compute_dtype)
            for size in (layer.key_dim, layer.value_dim)
        )
        for layer in decoder.layers
    ]


def decoder_step(
    decoder: Decoder,
    weights: Sequence[LayerWeights],
    inputs: Any,
    memory_heads: Sequence[Any],
    memory_bias: Any,
    caches: Sequence[Any],
    write: Callable[[Any, Any], Any],
    self_bias: Any = None,
    device: str = "cpu",
) -> tuple[Any, list[Any]]:
    """Run a decoder on the next position of N beams per sentence, without dropout.

    The beams of a sentence share its memory, and one cache that holds the tokens of them all.

    Args:
        decoder: A built decoder.
        weights: The `layer_weights` of each layer.
        inputs: float [B * N, D], the beams of a sentence in succession.
        memory_heads: The result of `project_memory` for the B sentences.
        memory_bias: float32 [B, 1, S], the `mask_bias` of the memory's mask, or None.
        caches: Each layer's keys and values [B, H, P, K] of earlier positions; see `empty_cache`.
        write: `write(cached, heads) -> cached` adds the heads [B, H, N, K] of this position to the
            keys or the values of a layer.
        self_bias: float32 [B, N, P'], the `mask_bias` of which written keys a beam may attend to:
            its own and those of the beams that it continues. All by default, which is right for
            N = 1.
        device: "cpu", or "gpu" for operations that suit a GPU.

    Returns:
        The output [B * N, D], and the caches as `write` returned them.
    """
    x, written = inputs, []
    beams = 1 if self_bias is None else self_bias.shape[1]
    for layer, own, memory, cache in zip(
        decoder.layers, weights, memory_heads, caches, strict=True
    ):
        outputs = layer.self_attention_residual.prepare(x)
        outputs = multiply_rows(outputs, *own.projections)
        # In a graph, a split into equal parts is one operation, and any other is eight.
        width = layer.num_heads * layer.key_dim
        parts = 3 if layer.key_dim == layer.value_dim else [width, 2 * width]
        query, key, value = (
            _split_rows(part, layer.num_heads, beams, device)
            for part in ops.split(outputs, parts, axis=-1)
        )
        keys, values = write(cache[0], key), write(cache[1], value)
        written.append((keys, values))
        outputs = _attend(query, keys, values, self_bias, device)
        outputs = multiply_rows(outputs, *own.self_output)
        x = layer.self_attention_residual(x, outputs, training=False)

        if memory:
            # The beams of a sentence are several queries to one memory, which is never repeated.
            outputs = layer.cross_attention_residual.prepare(x)
            outputs = multiply_rows(outputs, *own.memory_query)
            query = _split_rows(outputs, layer.num_heads, beams, device)
            keys, values = memory
            outputs = _attend(query, keys, values, memory_bias, device)
            outputs = multiply_rows(outputs, *own.memory_output)
            x = layer.cross_attention_residual(x, outputs, training=False)

        outputs = layer.feed_forward_residual.prepare(x)
        is_fused = device == "gpu" or (beams == 1 and not _are_few(outputs))
        outputs = _feed_forward(layer.feed_forward, outputs, own.inner, own.outer, is_fused)
        x = layer.feed_forward_residual(x, outputs, training=False)
    return x if decoder.final_norm is None else decoder.final_norm(x), written


def check_decoder(decoder: Decoder, model: Transformer | None = None) -> None:
    """Raise a ValueError if a subclass overrides a method that the steps of a search do without.

    Args:
        decoder: The decoder.
        model: The model that it is part of, if any.
    """
    parts: list[tuple[Any, Any, Sequence[str]]] = [(decoder, Decoder, ["call"])]
    if model is not None:
        parts.append((model, Transformer, ["decode", "embed_target", "project_to_logits"]))
        embeddings = model.target_embedding, model.output_embedding
        parts += [(each, TokenEmbedding, ["call"]) for each in embeddings]
    for layer in decoder.layers:
        attentions = layer.self_attention, layer.cross_attention
        parts += [(layer, DecoderLayer, ["call"]), (layer.feed_forward, FeedForward, ["call"])]
        parts += [(each, MultiHeadAttention, ["call"]) for each in attentions]
    for part, base, names in parts:
        for name in names:
            if getattr(type(part), name) is not getattr(base, name):
                raise ValueError(
                    f"A search computes one token at a time, without `{name}`, which "
                    f"{type(part).__name__} overrides. Leave it as it is, or give a step function "
                    "of your own to keras_transformer.decoding."
                )


def has_plain_encoder(model: Transformer) -> bool:
    """Return whether `encode_sentence` does what `encode` does, as no part is of a subclass.

    Args:
        model: A `Transformer`, or an instance of a subclass.
    """
    encoder, kinds = model.encoder, {EncoderLayer, MultiHeadAttention, FeedForward}
    parts = [(each, each.self_attention, each.feed_forward) for each in encoder.layers]
    is_plain = {type(part) for layer_parts in parts for part in layer_parts} == kinds
    return is_plain and type(encoder) is Encoder and type(model).encode is Transformer.encode


def encode_sentence(model: Transformer, source: Any, mask: Any = None) -> Any:
    """Return what `Transformer.encode` does for a single sentence, in the products of a step.

    Args:
        model: A `Transformer`.
        source: int [1, S].
        mask: bool [1, 1, S], which ids are tokens; all by default.

    Returns:
        float [1, S, D].
    """
    encoder, bias = model.encoder, None if mask is None else mask_bias(mask)
    has_key = None if mask is None else ops.any(mask, axis=-1)
    x = ops.squeeze(model.embed_source(source), 0)
    for layer in encoder.layers:
        attention, feed_forward = layer.self_attention, layer.feed_forward
        outputs = layer.self_attention_residual.prepare(x)
        query, key, value = (
            _split_rows(_multiply_unfused(outputs, *_linear_map(attention, name)), layer.num_heads)
            for name in ("query", "key", "value")
        )
        outputs = _attend(query, key, value, bias)
        outputs = ops.squeeze(_multiply_unfused(outputs, *_linear_map(attention, "output")), 0)
        if has_key is not None:  # A query that may attend to no key gets 0.
            outputs = ops.multiply(outputs, ops.cast(has_key, outputs.dtype))
        x = layer.self_attention_residual(x, outputs, training=False)
        outputs = layer.feed_forward_residual.prepare(x)
        inner, outer = (_linear_map(feed_forward, name) for name in ("inner", "outer"))
        outputs = _feed_forward(feed_forward, outputs, inner, outer, is_fused=False)
        x = layer.feed_forward_residual(x, outputs, training=False)
    return ops.expand_dims(x if encoder.final_norm is None else encoder.final_norm(x), 0)


def _split_rows(rows, num_heads, length=None, device="cpu"):
    """Return the heads [B, H, T, K] of rows [B * T, H * K], T = `length`, or of rows [1, T, H * K].

    On a CPU, copying a few short heads takes less time than transposing them.
    """
    if length == 1:  # Nothing needs to move.
        return ops.reshape(rows, (-1, num_heads, 1, rows.shape[-1] // num_heads))
    x = rows if length is None else ops.reshape(rows, (-1, length, rows.shape[-1]))
    if device == "gpu":
        return split_heads(x, num_heads)
    return ops.stack(ops.split(x, num_heads, axis=-1), axis=1)


def _attend(query, key, value, bias, device="cpu"):
    """Return the outputs of `layers.attention.attention` as rows [B * T, H * K].

    The output of a query with no key to attend to is finite and meaningless.
    """
    query = ops.multiply(query, ops.cast(query.shape[-1] ** -0.5, query.dtype))
    scores = ops.cast(heads_matmul(query, key, transpose_b=True), "float32")
    if bias is not None:
        scores = scores + ops.expand_dims(bias, 1)
    # A softmax in operations that oneDNN has no kernel for.
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    weights = powers / ops.sum(powers, axis=-1, keepdims=True)
    outputs = heads_matmul(ops.cast(weights, value.dtype), value)
    num_heads, length, size = outputs.shape[1:]
    if device == "gpu":
        outputs = join_heads(outputs)
    elif length != 1:
        outputs = ops.concatenate(ops.unstack(outputs, num_heads, axis=1), axis=-1)
    return ops.reshape(outputs, (-1, num_heads * size))


def _feed_forward(layer, rows, inner, outer, is_fused):
    """Return the outputs of `layers.FeedForward` for rows [R, D]."""
    if is_fused:
        return multiply_rows(layer.activation(multiply_rows(rows, *inner)), *outer)
    hidden = ops.squeeze(layer.activation(_multiply_unfused(rows, *inner)), 0)
    return ops.squeeze(_multiply_unfused(hidden, *outer), 0)


def _multiply_unfused(rows, kernel, bias):
    """Return `multiply_rows` as [1, R, U], with the bias added to three axes.

    TensorFlow fuses a flat product, its bias and its relu into one operation. Preparing that takes
    longer than multiplying a few rows, and in bfloat16 it rearranges the kernel each time.
    """
    outputs = ops.expand_dims(multiply_rows(rows, kernel), 0)
    return outputs if bias is None else ops.add(outputs, ops.cast(bias, outputs.dtype))


def multiply_rows(rows, kernel, bias=None):
    """Return `layers.feed_forward.linear` of rows [R, D], of which a few have faster products."""
    kernel = ops.cast(kernel, rows.dtype)
    size, width = kernel.shape
    tiles = min(size * width // _TILE, _MAX_SUMMED_TILES)
    if not _are_few(rows):
        outputs = ops.matmul(rows, kernel)
    elif rows.shape[0] > 1:
        outputs = _native_matmul(rows, kernel)
    elif tiles < 2 or size % tiles:
        outputs = ops.matmul(rows, kernel)
    else:
        # The rows of a kernel are contiguous, so its tiles need no copy.
        pairs = zip(ops.split(rows, tiles, axis=1), ops.split(kernel, tiles), strict=True)
        outputs = functools.reduce(ops.add, (ops.matmul(*pair) for pair in pairs))
    return outputs if bias is None else ops.add(outputs, ops.cast(bias, rows.dtype))


def few_rows_logits(rows: Any, embeddings: Any) -> Any:
    """Return rows @ embeddings^T for a few rows, as the transpose of embeddings @ rows^T.

    The embeddings are read as they lie in memory: to transpose them takes longer than the product,
    and TensorFlow's kernels are slow for a few rows on the left. TensorFlow multiplies the two
    halves of the vocabulary at the same time, which takes up to 30% less time with oneDNN.

    Args:
        rows: float [R, D].
        embeddings: float [V, D], of the same dtype.

    Returns:
        float [R, V].

    >>> tuple(few_rows_logits(ops.ones((1, 64)), ops.ones((5000, 64))).shape)
    (1, 5000)
    """
    columns, half = ops.transpose(rows), -(-embeddings.shape[0] // 2)
    halves = embeddings[:half], embeddings[half:]
    return ops.transpose(ops.concatenate([ops.matmul(part, columns) for part in halves]))


def heads_matmul(a: Any, b: Any, transpose_b: bool = False) -> Any:
    """Return the matrix product over the last two axes, for each sentence and head.

    TensorFlow's own kernel is the faster one for one query, or a few short ones, per sentence and
    head, and for a single sentence.

    Args:
        a: float [B, H, T, X].
        b: float [B, H, X, Y] or, with `transpose_b`, [B, H, Y, X].
        transpose_b: Whether to transpose `b`.

    Returns:
        float [B, H, T, Y], in the dtype of `a`.

    >>> tuple(heads_matmul(ops.ones((2, 3, 1, 4)), ops.ones((2, 3, 5, 4)), True).shape)
    (2, 3, 1, 5)
    """
    dtype = keras.backend.standardize_dtype(a.dtype)
    queries, size = a.shape[2], b.shape[3]
    is_small = None not in (queries, size) and queries * size <= _SMALL
    # There is no such CPU kernel in float16, and several queries in bfloat16 are slow.
    is_native = queries == 1 or a.shape[0] == 1 or (dtype == "float32" and is_small)
    is_tensorflow = keras.backend.backend() == "tensorflow"
    if not (is_native and is_tensorflow and dtype in ("float32", "bfloat16")):
        return ops.einsum("bhtx,bhyx->bhty" if transpose_b else "bhtx,bhxy->bhty", a, b)
    used = dtype if queries == 1 else "float32"
    outputs = _native_matmul(ops.cast(a, used), ops.cast(b, used), transpose_b)
    return ops.cast(outputs, dtype)


def _native_matmul(a, b, transpose_b=False):
    """Multiply with TensorFlow's own kernel, which oneDNN doesn't replace under this name."""
    import tensorflow as tf

    return tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=a.dtype, adj_y=transpose_b)


def _are_few(rows):
    """Return whether R of rows [R, D] is static and small, in float32 on TensorFlow."""
    is_float32 = keras.backend.standardize_dtype(rows.dtype) == "float32"
    is_few = rows.shape[0] is not None and 0 < rows.shape[0] <= _FEW_ROWS
    return is_few and is_float32 and keras.backend.backend() == "tensorflow"
