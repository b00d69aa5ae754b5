"""The score of a translation: its log-probability, divided by a length penalty (Section 6.1)."""

from typing import Literal

import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.styles import get_style


def length_penalty(
    length: tf.Tensor, alpha: float, formula: Literal["wu", "power"] = "wu"
) -> tf.Tensor:
    """Return the divisor of a translation's log-probability (Section 6.1).

    It is ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14): 1 for a single token and larger
    for more tokens, so that long translations can win.

    Args:
        length: The number of tokens of each translation, including eos; integers of any shape.
        alpha: The strength of the penalty, at least 0. The paper uses 0.6; 0 is no penalty.
        formula: `"wu"`, or `"power"` for length ** alpha.

    Returns:
        float32, of the shape of `length`.

    Raises:
        ValueError: If `alpha` is negative.

    >>> length_penalty([1, 7], alpha=1.0).numpy().tolist()
    [1.0, 2.0]
    >>> length_penalty([1, 7], alpha=1.0, formula="power").numpy().tolist()
    [1.0, 7.0]
    """
    check_length_penalty(alpha)
    # In float32 the last bit depends on the number of lengths and on graph optimization. Rounded
    # from float64, a length has the same penalty in every batch.
    length = tf.cast(length, tf.float64)
    if formula == "wu":
        length = (5.0 + length) / 6.0
    return tf.cast(length**alpha, tf.float32)


def check_length_penalty(alpha: float) -> None:
    """Check that the penalty does not fall with the length, which early stopping relies on.

    Raises:
        ValueError: If `alpha` is negative.
    """
    if alpha < 0:
        raise ValueError(
            f"length_penalty must be at least 0, received {alpha}. "
            "Use length_penalty=0 to compare plain log-probabilities."
        )


def normalize(log_prob: tf.Tensor, lengths: tf.Tensor, alpha: float, style: str) -> tf.Tensor:
    """Return the scores, float32, of translations with these log-probabilities and lengths."""
    return log_prob / length_penalty(lengths, alpha, get_style(style).penalty)


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
        length_penalty: The alpha of the length penalty, at least 0.
        style: The style of the search, whose formula of the penalty is used: "paper", "marian" or
            "transformers".
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
    return normalize(log_prob, lengths, length_penalty, style)
