"""Scores of translations (Section 6.1), and how the searches of other programs differ."""

from typing import Any, ClassVar, Literal

import numpy as np
import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.decoding.search import IMPOSSIBLE

Continuations = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
"""Log-probabilities, descending, of the 2N best continuations of the live beams, the beams that
they continue, and their tokens: [B, 2N] each."""


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


class Style:
    """The rules that searches set differently and that decide which translation wins.

    These are the paper's. Other styles override them.

    >>> STYLES["paper"].penalty, STYLES["marian"].penalty
    ('wu', 'power')
    """

    penalty: ClassVar[Literal["wu", "power"]] = "wu"
    """The length penalty; see `length_penalty`."""
    stops_when_full: bool = False
    """Whether a sentence stops as soon as N translations of it are finished."""
    forces_eos: ClassVar[bool] = False
    """Whether unfinished translations end with eos at the maximum length, at no cost."""
    must_fill: ClassVar[bool] = False
    """Whether a sentence goes on until no live beam can be among the N finished translations, also
    if fewer are to be returned."""

    rules_on_log_probs: ClassVar[bool] = False
    """Whether rules change log-probabilities, and what a ban takes from one token does not go to
    the others. Otherwise rules change logits, before the softmax."""

    def divisors(self, lengths: tf.Tensor, alpha: float) -> tf.Tensor:
        """Return the divisors, float32, of the log-probabilities; see `length_penalty`."""
        return length_penalty(lengths, alpha, self.penalty)

    def continuations(
        self, found: Continuations, position: tf.Tensor, beams: Any, eos_id: int
    ) -> Continuations:
        """Return the continuations that count; by default all that were found.

        Args:
            found: The continuations.
            position: int32 [], the position of their tokens.
            beams: The `Beams` that they continue.
            eos_id: The token that ends a translation.
        """
        return found

    def final_length(self, length: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
        """Return the length whose penalty bounds the scores of live beams, [] or [B, 1].

        At the limit, penalties are highest: the bound is exact, and stopping changes no result.
        """
        return limits

    def rank(self, live: tf.Tensor, finished: tf.Tensor, count: int) -> tf.Tensor:
        """Return the slots [B, count] of the best translations, best first.

        By default these are the finished ones, and then live beams.

        Args:
            live: float32 [B, N], scores of the live beams, which have the slots from 0.
            finished: float32 [B, N], scores of the finished translations, with the slots from N.
            count: The number of translations, at most N.
        """
        is_finished = finished[:, :count] > IMPOSSIBLE
        num_finished = tf.math.count_nonzero(is_finished, 1, keepdims=True, dtype=tf.int32)
        slots = np.arange(count, dtype=np.int32)
        return tf.where(is_finished, slots + live.shape[1], slots - num_finished)


class Marian(Style):
    """Marian's: each finished translation takes a place of the beam; unfinished ones compete."""

    penalty = "power"

    def continuations(self, found, position, beams, eos_id):
        log_probs, parents, tokens = found
        is_finished = tf.cast(beams.finished > IMPOSSIBLE, tf.int32)
        num_open = beams.live.shape[1] - tf.reduce_sum(is_finished, 1, keepdims=True)
        is_open = np.arange(tokens.shape[1]) < num_open
        return tf.where(is_open, log_probs, IMPOSSIBLE), parents, tokens

    def rank(self, live, finished, count):
        _, order = tf.math.top_k(tf.concat([finished, live], 1), count)
        return (order + live.shape[1]) % (2 * live.shape[1])


class Transformers(Style):
    """Hugging Face's: only the N best continuations may end, and all beams end at the limit.

    Args:
        stops_when_full: Whether a sentence stops at N finished translations, its `early_stopping`.
    """

    penalty = "power"
    forces_eos = True
    must_fill = True
    rules_on_log_probs = True

    def __init__(self, stops_when_full: bool = False):
        self.stops_when_full = stops_when_full

    def continuations(self, found, position, beams, eos_id):
        log_probs, parents, tokens = found
        ranks, beam_size = np.arange(tokens.shape[1]), beams.live.shape[1]
        is_late = (tokens == eos_id) & (ranks >= beam_size)
        is_last = position + 1 >= beams.limits
        forced = tf.pad(beams.live, [[0, 0], [0, beam_size]], constant_values=IMPOSSIBLE)
        log_probs = tf.where(is_last, forced, tf.where(is_late, IMPOSSIBLE, log_probs))
        parents = tf.where(is_last, np.int32(ranks % beam_size), parents)
        return log_probs, parents, tf.where(is_last, eos_id, tokens)

    def final_length(self, length, limits):
        return length


STYLES = {
    "paper": Style(),
    "marian": Marian(),
    "transformers": Transformers(),
    "transformers_early": Transformers(stops_when_full=True),
}
"""The styles by the names of `DecodingConfig.style`."""


def get_style(name: str) -> Style:
    """Return the style with this name.

    Raises:
        ValueError: If there is none.
    """
    if name not in STYLES:
        raise ValueError(f"style must be one of {', '.join(STYLES)}, received {name!r}.")
    return STYLES[name]


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
    return log_prob / get_style(style).divisors(lengths, length_penalty)
