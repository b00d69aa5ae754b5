"""What the searches share: the step function they are given, its state, and their result."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

State = Any
"""A nest (tuple, list, dict) of tensors [R, ...] that a step hands on to the next.

A tensor may grow along any axis but the first, as a cache does by concatenation. In the initial
state such an axis has size 0, or a size unknown to the graph.
"""

Step = Callable[[tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]
"""`step(ids, position, state) -> (log_probs, state)`: all that a search knows of a model.

`ids` int32 [R] are the tokens chosen last, all bos at first; `position` int32 [] counts from 0;
`log_probs` float32 [R, V], none above 0, are those of the next token. In greedy search a row is a
sentence; in beam search row b * N + n is beam n of sentence b. A row of what a step returns may
depend only on the same row of what it is given.
"""

IMPOSSIBLE = float("-inf")
"""The log-probability of what cannot be: searches add to it, divide it and compare it, no more."""

UNFILLED_SCORE = -1e9
"""The score reported where there is no translation; finite, because JSON has no infinity."""


class SearchResult(NamedTuple):
    """The N best translations of each sentence, best first.

    Where fewer than N translations have a probability above 0 (the vocabulary or the limit is that
    small), the places left have length 0, score -1e9 and nothing but padding.

    Attributes:
        ids: int32 [B, N, L], without bos, with eos where the search came to it, then padding. L is
            the longest length in the batch.
        scores: float32 [B, N], log-probability / length penalty.
        lengths: int32 [B, N], tokens, eos included.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor


def to_result(ids: tf.Tensor, scores: tf.Tensor, lengths: tf.Tensor, pad_id: int) -> SearchResult:
    """Return the result for ids [B, N, t], whatever these hold beyond `lengths` [B, N]."""
    exists = scores > IMPOSSIBLE
    lengths = tf.where(exists, lengths, 0)
    longest = tf.maximum(tf.reduce_max(lengths), 0)  # over a batch of 0 the maximum is negative
    ids = tf.where(tf.range(longest) < lengths[:, :, tf.newaxis], ids[:, :, :longest], pad_id)
    return SearchResult(ids, tf.where(exists, scores, UNFILLED_SCORE), lengths)


def repeat_rows(state: State, n: int) -> State:
    """Return `state` with every row `n` times in succession, [B, ...] as [B * n, ...].

    >>> repeat_rows({"a": tf.constant([5, 7])}, 2)["a"].numpy().tolist()
    [5, 5, 7, 7]
    """
    return tf.nest.map_structure(lambda tensor: tf.repeat(tensor, n, axis=0), state)


def take_rows(state: State, rows: tf.Tensor) -> State:
    """Return the given rows [R] of every tensor of `state`."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)


def loop_shapes(state: State) -> State:
    """Return the shapes that `state` has in every step: rows and axes of size 0 become unknown."""

    def relax(tensor: tf.Tensor) -> tf.TensorShape:
        return tf.TensorShape([None] + [size or None for size in tensor.shape[1:]])

    return tf.nest.map_structure(relax, state)
