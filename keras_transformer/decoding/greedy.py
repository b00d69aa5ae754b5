"""Greedy search."""

import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID
from keras_transformer.decoding import penalties
from keras_transformer.decoding.search import SearchResult, State, Step, loop_shapes, to_result


def greedy_search(
    step: Step,
    state: State,
    *,
    max_lengths: tf.Tensor,
    length_penalty: float = 0.0,
    bos_id: int = BOS_ID,
    eos_id: int = EOS_ID,
    pad_id: int = PAD_ID,
) -> SearchResult:
    """Take the most probable token at each step, until each sentence has eos or reaches its limit.

    A sentence's result does not depend on the others. Of equally probable tokens the lowest id is
    taken.

    Args:
        step: gives the next token's log-probabilities; see `Step`.
        state: what `step` is given first, a nest of tensors [B, ...]; see `State`.
        max_lengths: int32 [B], at least 1: the most tokens of each translation, eos included.
        length_penalty: the alpha by which scores are normalised, at least 0. It does not change the
            translations.
        bos_id: the id that `step` is given first.
        eos_id: the id that ends a translation.
        pad_id: the id that fills the places after it.

    Returns:
        A `SearchResult` with N = 1.

    Raises:
        ValueError: `length_penalty` is negative.

    >>> log_probs = tf.math.log([[0.1, 0.1, 0.1, 0.7], [0.1, 0.4, 0.2, 0.3]])  # B 2, V 4, eos is 3
    >>> result = greedy_search(lambda ids, i, state: (log_probs, state), (), max_lengths=[3, 2])
    >>> result.ids.numpy().tolist(), result.lengths.numpy().tolist()
    ([[[3, 0]], [[1, 1]]], [[1], [2]])
    """
    penalties.check_length_penalty(length_penalty)
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)[:, tf.newaxis]
    batch = tf.shape(max_lengths)[0]

    def unfinished(position, ids, history, log_prob, lengths, state):
        return position < tf.reduce_max(lengths)

    def extend(position, ids, history, log_prob, lengths, state):
        log_probs, state = step(ids, position, state)
        best, ids = tf.math.top_k(log_probs, 1)  # [B, 1]; one op, and no slower than argmax
        # Sentences that have ended run on, but neither score nor length takes notice.
        log_prob = tf.where(position < lengths, log_prob + best, log_prob)
        position += 1
        lengths = tf.where(ids == eos_id, tf.minimum(lengths, position), lengths)
        history = tf.concat([history, ids], axis=1)
        return position, tf.reshape(ids, [-1]), history, log_prob, lengths, state

    _, _, history, log_prob, lengths, _ = tf.while_loop(
        unfinished,
        extend,
        loop_vars=(
            tf.constant(0),
            tf.fill([batch], bos_id),
            tf.zeros([batch, 0], tf.int32),
            tf.zeros([batch, 1]),
            max_lengths,
            state,
        ),
        shape_invariants=(
            tf.TensorShape([]),
            tf.TensorShape([None]),
            tf.TensorShape([None, None]),
            tf.TensorShape([None, 1]),
            tf.TensorShape([None, 1]),
            loop_shapes(state),
        ),
    )
    scores = log_prob / penalties.length_penalty(lengths, length_penalty)
    return to_result(history[:, tf.newaxis], scores, lengths, pad_id)
