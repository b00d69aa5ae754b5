"""Decoding that returns chosen tokens exactly as often as it is told to."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import EOS_ID
from keras_transformer.decoding.search import BAN, State, Step, StepAround, with_shape_of


class _Counts(NamedTuple):
    """What the N unfinished results of B sentences may still contain.

    Attributes:
        fewest: int32 [B, N, K], how often each token must still occur.
        most: int32 [B, N, K], how often each token may still occur.
        room: int32 [B, N], the number of tokens left before the limit.
    """

    fewest: tf.Tensor
    most: tf.Tensor
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
        # Places in the bans: the K tokens, eos, and one for all others.
        self._places = np.full(max([eos_id, *tokens]) + 1, len(tokens) + 1, np.int32)
        self._places[[*tokens, eos_id]] = range(len(tokens) + 1)

    def initial_state(self, state: State) -> State:
        """Return the state before the first token, given the one of the step inside."""
        fewest, most = (
            tf.repeat(self.counts[:, i, tf.newaxis], self.beam_size, axis=1) for i in range(2)
        )
        # The first step, whose token is bos, takes one off.
        room = tf.repeat(self.max_lengths[:, tf.newaxis] + 1, self.beam_size, axis=1)
        return state, _Counts(fewest, tf.maximum(fewest, most), room)

    def __call__(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """Return the logits of the next token, with bans, and the state; see `Step`."""
        inner, counts = state
        logits, inner = self.step(ids, parents, position, inner)
        before, counts = counts, self._continued(counts, parents)
        ids = tf.reshape(ids, [-1, self.beam_size])
        known = len(self._places)
        place = tf.gather(self._places, tf.minimum(ids, known - 1))
        place = tf.where(ids < known, place, self._num_tokens + 1)
        is_now = tf.one_hot(place, self._num_tokens, dtype=tf.int32)
        fewest, most = (tf.maximum(each - is_now, 0) for each in (counts.fewest, counts.most))
        counts = _Counts(*map(with_shape_of, before, (fewest, most, counts.room - 1)))
        left = tf.reduce_sum(counts.fewest, axis=2, keepdims=True)
        # Only the tokens of the lowest ids have bans of their own; the others share the last one.
        low, high = logits[:, :known], logits[:, known:]
        allowed = low + self._bans(counts, left, False)[0]
        best = tf.maximum(tf.reduce_max(allowed, axis=1), tf.reduce_max(high, axis=1))
        ends = tf.reshape(logits[:, self._eos_id] >= best, tf.shape(left))
        is_full = ends | (counts.room[:, :, tf.newaxis] <= left + 1)
        bans, others = self._bans(counts, left, is_full)
        return tf.concat([low + bans, high + others], axis=1), (inner, counts)

    def _bans(self, counts, left, is_full):
        """Return what is added to logits: of the lowest ids [B * N, I], of others [B * N, 1]."""
        is_full = (left > 0) & is_full
        is_banned = tf.concat(
            [
                tf.where(is_full, counts.fewest == 0, counts.most == 0),
                left > 0,
                is_full,
            ],
            axis=2,
        )
        bans = tf.reshape(tf.where(is_banned, BAN, 0.0), [-1, self._num_tokens + 2])
        return tf.gather(bans, self._places, axis=1), bans[:, -1:]
