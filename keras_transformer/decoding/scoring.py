"""The score of given translations."""

import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.decoding import penalties
from keras_transformer.decoding.styles import get_style


def score_tokens(
    log_probs: tf.Tensor,
    labels: tf.Tensor,
    length_penalty: float = 0.6,
    *,
    style: str = "paper",
    pad_id: int = PAD_ID,
) -> tf.Tensor:
    """Return the score that a search gives to these tokens, log-probability / length penalty.

    Args:
        log_probs: float32 [B, T, V], of the token at each position given the tokens before it.
        labels: int32 [B, T], the tokens including eos, then padding.
        length_penalty: The alpha of the length penalty, at least 0; see `decoding.length_penalty`.
        style: The style of the search, whose formula of the penalty is used; a key of `STYLES`.
        pad_id: The id of padding, which does not count.

    Returns:
        float32 [B], 0 for a row of padding only.

    Raises:
        ValueError: If `length_penalty` is negative.

    >>> log_probs = tf.math.log([[[0.1, 0.1, 0.4, 0.4], [0.1, 0.1, 0.3, 0.5]]])  # B 1, T 2, V 4
    >>> score = score_tokens(log_probs, [[2, 3]], length_penalty=0.0)
    >>> round(float(tf.exp(score[0])), 4)  # 0.4 * 0.5
    0.2
    """
    labels = tf.convert_to_tensor(labels, tf.int32)
    is_token = labels != pad_id
    token_log_probs = tf.gather(log_probs, labels, batch_dims=2)
    log_prob = tf.reduce_sum(tf.where(is_token, token_log_probs, 0.0), axis=1)
    lengths = tf.math.count_nonzero(is_token, axis=1, dtype=tf.int32)
    return log_prob / penalties.length_penalty(lengths, length_penalty, get_style(style).penalty)
