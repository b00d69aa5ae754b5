"""One pass of the model over translations that are known, some rows at a time."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_transformer.config import BOS_ID
from keras_transformer.model import Transformer

_MAX_TOKENS = 4096
"""The maximum number of tokens, including padding, of a part."""


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
) -> Any:
    """Return the results of a function of ids [B, S] and [B, T], computed for some rows at a time.

    This bounds the memory of the logits [B, T, V], but not that of the results.

    Args:
        function: Returns a tensor, or a structure of tensors, with a row for each of its inputs'.
        source: int32 [B, S].
        target: int32 [B, T].
        empty: What the function returns for no rows.
    """
    longest = tf.maximum(tf.shape(source)[1], tf.shape(target)[1])
    rows = tf.maximum(_MAX_TOKENS // longest, 1)

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
