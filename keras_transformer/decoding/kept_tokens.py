"""Decoding that returns chosen tokens exactly as often as it is told to."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import EOS_ID
from keras_transformer.decoding.search import BAN, State, Step, StepAround, with_shape_of


class _Left(NamedTuple):
    """What the N unfinished results of B sentences may still contain.

    Attributes:
        counts: int32 [B, N, 2, K], how often each token must still occur, and how often it may.
        room: int32 [B, N], the number of tokens left before the limit.
    """

    counts: tf.Tensor
    room: tf.Tensor


class KeptTokensStep(StepAround):
    """Makes some tokens occur as often as they should: a `decoding.Step` around another one.

    A token is banned once it has occurred as often as it may, and eos until all have occurred as
    often as they must. All others are banned when eos is the likeliest, so that nothing is
    invented after the end of a sentence, and when there is just enough room left for those and eos.
    No search can reach a state where every token is banned, unless other rules ban tokens too, such
    as `no_repeat_ngram`.

    Args:
        step: Returns the logits of the next token, with a static V.
        tokens: The K ids.
        counts: int32 [B, 2, K], how often each of them occurs, at least and at most.
        max_lengths: int32 [B], the maximum number of tokens, eos included. It must be more than the
            sum of the fewest. The same as those of the search.
        beam_size: N, the number of beams or samples of the search.
        eos_id: The id that ends a sequence.

    Call arguments:
        ids, parents, position, state: See `decoding.Step`; the state comes from `initial_state`.

    Returns:
        The logits float32 [B * N, V], with bans, and the state.

    >>> from keras_transformer.decoding import greedy_search
    >>> logits = tf.constant([[0.0, 0, 0, 3, 9, 1, 2]])  # V 7: would take 4 forever
    >>> step = lambda ids, parents, position, state: (logits, state)
    >>> kept = KeptTokensStep(step, [4, 5], counts=[[[1, 2], [1, 2]]], max_lengths=[8])
    >>> greedy_search(kept, kept.initial_state(()), max_lengths=[8]).ids.numpy().tolist()
    [[[4, 5, 5, 3]]]
    """

    def __init__(
        self,
        step: Step,
        tokens: Sequence[int],
        *,
        counts: tf.Tensor,
        max_lengths: tf.Tensor,
        beam_size: int = 1,
        eos_id: int = EOS_ID,
    ):
        self.step = step
        self.counts = tf.convert_to_tensor(counts, tf.int32)
        self.max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
        self.beam_size = beam_size
        self._num_tokens, self._eos_id = len(tokens), eos_id
        # Places in the bans, of ids from 0 on: the K tokens, eos, and one for all others.
        self._places = np.full(max([eos_id, *tokens]) + 2, len(tokens) + 1, np.int32)
        self._places[[*tokens, eos_id]] = range(len(tokens) + 1)

    def initial_state(self, state: State) -> State:
        """Return the state before the first token, given the one of the step inside."""
        fewest, most = tf.unstack(self.counts, axis=1)
        counts = tf.stack([fewest, tf.maximum(fewest, most)], axis=1)
        # The first step, whose token is bos, takes one off.
        left = _Left(counts, self.max_lengths + 1)
        repeated = (tf.repeat(each[:, tf.newaxis], self.beam_size, axis=1) for each in left)
        return state, _Left(*repeated)

    def __call__(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """Return the logits of the next token, with bans, and the state; see `Step`."""
        inner, before = state
        logits, inner = self.step(ids, parents, position, inner)
        counts, room = self._continued(before, parents)
        place = tf.gather(self._places, tf.minimum(ids, len(self._places) - 1))
        is_now = tf.one_hot(place, self._num_tokens, dtype=tf.int32)
        is_now = tf.reshape(is_now, [-1, self.beam_size, 1, self._num_tokens])
        left = _Left(tf.maximum(counts - is_now, 0), room - 1)
        left = _Left(*map(with_shape_of, before, left))
        fewest, most = tf.unstack(left.counts, axis=2)
        missing = tf.reduce_sum(fewest, axis=2, keepdims=True)
        allowed = logits + self._bans(most == 0, missing > 0, logits.shape[1])
        ends = logits[:, self._eos_id] >= tf.reduce_max(allowed, axis=1)
        ends = tf.reshape(ends, tf.shape(missing))
        is_full = (missing > 0) & (ends | (left.room[:, :, tf.newaxis] <= missing + 1))

        def only_missing():
            bans = BAN - self._bans(fewest > 0, tf.zeros_like(is_full), logits.shape[1])
            return tf.where(tf.reshape(is_full, [-1, 1]), logits + bans, allowed)

        # A pass over all logits takes time, and few steps need this one.
        logits = tf.cond(tf.reduce_any(is_full), only_missing, lambda: allowed)
        return logits, (inner, left)

    def _bans(self, tokens, eos, vocab_size):
        """Return bans [B * N, V] of some of the K tokens, bool [B, N, K], and of eos [B, N, 1]."""
        is_banned = tf.reshape(tf.concat([tokens, eos], axis=2), [-1, self._num_tokens + 1])
        bans = tf.pad(tf.where(is_banned, BAN, 0.0), [[0, 0], [0, 1]])
        low = tf.gather(bans, self._places[:-1], axis=1)  # The last place is that of all ids above.
        return tf.pad(low, [[0, 0], [0, vocab_size - low.shape[1]]])
