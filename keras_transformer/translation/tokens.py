"""From text to the ids that a search and a model read."""

import tensorflow as tf

from keras_transformer.config import EOS_ID, PAD_ID
from keras_transformer.decoding import TreeTokens
from keras_transformer.text import Tokenizer, TreeTokenizer


def encode(tokenizer: Tokenizer, text: tf.Tensor, max_length: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ids int32 [B, T] with eos and padding, and lengths int32 [B] including eos.

    Args:
        tokenizer: The tokenizer.
        text: string [B].
        max_length: The most tokens of a text, eos included; the rest is cut off.
    """
    ids = tokenizer.tokenize(text, max_length - 1)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    padded = tf.pad(ids.to_tensor(PAD_ID), [[0, 0], [0, 1]], constant_values=PAD_ID)
    is_end = tf.range(tf.shape(padded)[1]) == lengths[:, tf.newaxis]
    return tf.where(is_end, EOS_ID, padded), lengths + 1


def tree_tokens(tokenizer: Tokenizer) -> TreeTokens | None:
    """Return the tokens of a tokenizer's trees, or None if its texts are no trees."""
    if not isinstance(tokenizer, TreeTokenizer):
        return None
    return TreeTokens(
        opens=tokenizer.open_ids,
        closes=tokenizer.close_ids,
        words=tokenizer.word_ids,
        tags=tokenizer.tag_ids,
    )
