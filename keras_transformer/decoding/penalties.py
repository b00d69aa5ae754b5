"""The length penalty, by which hypotheses of different lengths are compared."""

import tensorflow as tf


def length_penalty(length: tf.Tensor, alpha: float) -> tf.Tensor:
    """Return what to divide a hypothesis's log-probability by (Section 6.1).

    It is ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14): 1 for a single token, and more
    for more, so that a long hypothesis is not put last for its length alone.

    Args:
        length: tokens of each hypothesis, eos included; integers of any shape.
        alpha: strength of the penalty, at least 0. The paper uses 0.6; 0 is no penalty.

    Returns:
        float32, the shape of `length`.

    Raises:
        ValueError: `alpha` is negative.

    >>> length_penalty([1, 7], alpha=1.0).numpy().tolist()
    [1.0, 2.0]
    """
    check_length_penalty(alpha)
    # In float32 the last bit depends on how many lengths are computed at once, and on the graph's
    # optimizer; rounded from float64, a length has the same penalty in every batch.
    penalty = ((5.0 + tf.cast(length, tf.float64)) / 6.0) ** alpha
    return tf.cast(penalty, tf.float32)


def check_length_penalty(alpha: float) -> None:
    """Raise a ValueError if `alpha` is negative: beam search stops early on a rising penalty."""
    if alpha < 0:
        raise ValueError(
            f"length_penalty must be at least 0, received {alpha}. "
            "Use length_penalty=0 to compare plain log-probabilities."
        )
