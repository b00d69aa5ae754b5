"""What a model computes for known translations: scores, attention and likely tokens."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_transformer.config import BOS_ID, PAD_ID, DecodingConfig
from keras_transformer.model import Transformer

_MAX_TOKENS = 4096
"""The maximum number of tokens, including padding, of a part."""
_MAX_LOGITS = 2**27
"""The maximum number of logits of a part, which are 512 MB; some of its results take as much."""

_MAX_CANDIDATES = 5


def decoder_inputs(target: tf.Tensor) -> tf.Tensor:
    """Return what the decoder reads to predict ids [B, T]: bos, and the ids but the last."""
    return tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)


def decode_whole(
    model: Transformer, source: tf.Tensor, target: tf.Tensor
) -> tuple[tf.Tensor, list[Any]]:
    """Return the logits and attention weights of the decoder, as `Transformer.decode` does.

    Args:
        model: The model.
        source: int32 [B, S], with eos.
        target: int32 [B, T], with eos. Position i of the results predicts id i.
    """
    memory, memory_mask = model.encode(source, training=False)
    return model.decode(decoder_inputs(target), memory, memory_mask, training=False)


def in_parts(
    function: Callable[[tf.Tensor, tf.Tensor], Any],
    source: tf.Tensor,
    target: tf.Tensor,
    empty: Any,
    vocab_size: int,
) -> Any:
    """Return the results of a function of ids [B, S] and [B, T], computed for some rows at a time.

    This bounds the memory of the logits [B, T, V], but not that of the results.

    Args:
        function: Returns a tensor, or a structure of tensors, with a row for each of its inputs'.
        source: int32 [B, S].
        target: int32 [B, T].
        empty: What the function returns for no rows.
        vocab_size: V.
    """
    longest = tf.maximum(tf.shape(source)[1], tf.shape(target)[1])
    rows = tf.maximum(min(_MAX_TOKENS, _MAX_LOGITS // vocab_size) // longest, 1)

    def add_part(start, results):
        part = slice(start, start + rows)
        found = function(source[part], target[part])
        joined = tf.nest.map_structure(lambda *both: tf.concat(both, axis=0), results, found)
        return start + rows, joined

    shapes = tf.nest.map_structure(lambda x: tf.TensorShape([None, *x.shape[1:]]), empty)
    return tf.while_loop(
        lambda start, results: start < tf.shape(target)[0],
        add_part,
        (0, empty),
        shape_invariants=(tf.TensorShape([]), shapes),
    )[1]


def mean_cross_attention(model: Transformer, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Return the mean over the heads of the cross-attention, float32 [B, layers, T, S].

    Args:
        model: The model.
        source: int32 [B, S], with eos.
        target: int32 [B, T], with eos. The rows of padding are 0.
    """
    _, weights = decode_whole(model, source, target)
    return _without_padding([tf.reduce_mean(cross, axis=1) for _, cross in weights], target)


def inspect_ids(
    model: Transformer,
    source: tf.Tensor,
    target: tf.Tensor,
    log_probs: Callable[[tf.Tensor], tf.Tensor],
    decoding: DecodingConfig,
) -> dict[str, tf.Tensor]:
    """Return what `Translator.inspect` returns for ids [B, S] and [B, T], with ids for pieces.

    Args:
        model: The model.
        source: int32 [B, S], with eos.
        target: int32 [B, T], with eos.
        log_probs: Returns log-probabilities [..., V] for logits.
        decoding: The search. Ids that it never writes, such as pad and bos, are no candidates.
    """
    excluded = tf.reduce_sum(
        tf.one_hot(decoding.excluded_ids, model.config.target_size, on_value=-1e9), axis=0
    )
    count = min(_MAX_CANDIDATES, model.config.target_size)

    def inspect_some(source, target):
        memory, mask, encoder = model.encode(source, training=False, return_attention_scores=True)
        inputs = decoder_inputs(target)
        logits, layers = model.decode(inputs, memory, mask, training=False)
        decoder, cross = zip(*layers, strict=True)
        log_probabilities = log_probs(logits)
        best, candidates = tf.math.top_k(log_probabilities + excluded, count)
        chosen = tf.gather(log_probabilities, target, batch_dims=2)
        is_token = target != PAD_ID
        return {
            "encoder_attention": _without_padding(encoder, source),
            "decoder_attention": _without_padding(decoder, target),
            "cross_attention": _without_padding(cross, target),
            "probabilities": tf.where(is_token, tf.exp(chosen), 0.0),
            "candidates": tf.where(is_token[:, :, tf.newaxis], candidates, PAD_ID),
            "candidate_probabilities": tf.where(is_token[:, :, tf.newaxis], tf.exp(best), 0.0),
        }

    nothing = _nothing(model, source, target, count)
    return in_parts(inspect_some, source, target, nothing, model.config.target_size)


def _nothing(model, source, target, count):
    """Return the results for no rows."""
    config, s, t = model.config, tf.shape(source)[1], tf.shape(target)[1]
    decoder = config.decoder_layers, config.decoder_heads
    return {
        "encoder_attention": tf.zeros([0, config.num_layers, config.num_heads, s, s]),
        "decoder_attention": tf.zeros([0, *decoder, t, t]),
        "cross_attention": tf.zeros([0, *decoder, t, s]),
        "probabilities": tf.zeros([0, t]),
        "candidates": tf.zeros([0, t, count], tf.int32),
        "candidate_probabilities": tf.zeros([0, t, count]),
    }


def _without_padding(layers, queries):
    """Return weights [B, ..., Q, K] of some layers as [B, layers, ..., Q, K], 0 for padding."""
    weights = tf.stack(list(layers), axis=1)
    between = weights.shape.rank - 3
    is_token = queries != PAD_ID
    for _ in range(between):
        is_token = tf.expand_dims(is_token, 1)
    return tf.where(is_token[..., tf.newaxis], weights, 0.0)
