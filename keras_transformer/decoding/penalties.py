"""The length penalty, which makes the scores of short and long translations comparable."""

from typing import Literal

import tensorflow as tf


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
