"""What the searches share: step function, rules, stages and the result."""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

State = Any
"""A nest (tuple, list, dict) of tensors that a step hands on to the next.

A tensor may grow from step to step, as a cache does by concatenation, along axes that have size 0
in the initial state, or a size unknown to the graph.
"""

Step = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]
"""`step(ids, parents, position, state) -> (logits, state)`: all that a search knows of a model.

`ids` int32 [R] are the tokens chosen last, all bos at first; `position` int32 [] counts from 0;
`logits` float32 [R, V] are those of the next token, not normalised: a constant added to a row
changes nothing. In greedy search a row is a sentence; in beam search row b * N + n is beam n of
sentence b.

`parents` int32 [R] are the rows, of what the step before was given, that `ids` continue: always a
row of the same sentence, and in greedy search the row itself. The search leaves the state as it is,
so what a step keeps of a row's past it takes from there: `take_rows(state, parents)`, or the
same with less moved. What no step changes has no need to be in the state: `step` may close over it.

If the search is given a `Select`, that holds for the sentences that are left, and in between rows
are counted anew.

A row of what a step returns may depend only on its own sentence and past.
"""

Rule = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""`rule(logits, history, position) -> logits`: changes what may come next, before the softmax.

`history` int32 [R, L] holds the tokens of each row, without bos; those from `position` on are not
chosen yet and hold anything. Rules apply one after the other.
"""

Select = Callable[[State, tf.Tensor], State]
"""`select(state, sentences) -> state` keeps the rows of some sentences, int32 [A], of a state.

With it a search lets go of sentences that have ended, while others go on. They are given in rising
order, numbered as in the step before, and there may be none. All that `step` knows of a sentence
must be in the state, which no step need change, and rules must be the same for all rows.
"""


class Stages(NamedTuple):
    """How a search runs in a graph that is compiled for fixed shapes.

    It runs from one size to the next, each a loop of its own over a state of that size, so that a
    short translation does not pay for the longest that is allowed. The last size is the L of the
    result, and must be no less than any sentence's limit.

    Attributes:
        sizes: rising numbers of tokens.
        enlarge: `enlarge(state, size) -> state` makes room for so many tokens.
    """

    sizes: tuple[int, ...]
    enlarge: Callable[[State, int], State]


IMPOSSIBLE = float("-inf")
"""The log-probability of what cannot be: searches add to it, divide it and compare it, no more."""

BAN = -1e6
"""What rules add to the logit of a token that must not come; finite, so that sums stay numbers."""

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


def history_length(max_lengths: tf.Tensor, stages: Stages | None) -> tf.Tensor | int:
    """Return the L of the histories of a search."""
    if stages is not None:
        return stages.sizes[-1]
    return tf.maximum(tf.reduce_max(max_lengths), 1)  # over a batch of 0 the maximum is negative


def apply_rules(rules, logits: tf.Tensor, history: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    """Return the logits after all rules; `history` [..., L] has a row for each of `logits`."""
    if rules:
        history = tf.reshape(history, [-1, tf.shape(history)[-1]])
    for rule in rules:
        logits = rule(logits, history, position)
    return logits


def to_result(
    ids: tf.Tensor, scores: tf.Tensor, lengths: tf.Tensor, pad_id: int, stages: Stages | None
) -> SearchResult:
    """Return the result for ids [B, N, L], whatever these hold beyond `lengths` [B, N]."""
    exists = scores > IMPOSSIBLE
    lengths = tf.where(exists, lengths, 0)
    if stages is None:
        ids = ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)]
    ids = tf.where(tf.range(tf.shape(ids)[2]) < lengths[:, :, tf.newaxis], ids, pad_id)
    return SearchResult(ids, tf.where(exists, scores, UNFILLED_SCORE), lengths)


def repeat_rows(state: State, n: int) -> State:
    """Return `state` with every row `n` times in succession, [B, ...] as [B * n, ...].

    >>> repeat_rows({"a": tf.constant([5, 7])}, 2)["a"].numpy().tolist()
    [5, 5, 7, 7]
    """
    return tf.nest.map_structure(lambda tensor: tf.repeat(tensor, n, axis=0), state)


def take_rows(state: State, rows: tf.Tensor) -> State:
    """Return the given rows, int32 [R], of every tensor of `state`.

    >>> take_rows({"a": tf.constant([5, 7])}, [1, 1])["a"].numpy().tolist()
    [7, 7]
    """
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)
