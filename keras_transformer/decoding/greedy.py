"""Greedy search."""

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID
from keras_transformer.decoding import penalties
from keras_transformer.decoding.candidates import best_tokens
from keras_transformer.decoding.loop import run_loop
from keras_transformer.decoding.search import (
    Rule,
    SearchResult,
    Select,
    Stages,
    State,
    Step,
    apply_rules,
    history_length,
    to_result,
)


def greedy_search(
    step: Step,
    state: State,
    *,
    max_lengths: tf.Tensor,
    length_penalty: float = 0.0,
    rules: Sequence[Rule] = (),
    scores: bool = True,
    stages: Stages | None = None,
    select: Select | None = None,
    bos_id: int = BOS_ID,
    eos_id: int = EOS_ID,
    pad_id: int = PAD_ID,
) -> SearchResult:
    """Take the most probable token at each step, until each sentence has eos or reaches its limit.

    A sentence's result does not depend on the others. Of equally probable tokens the lowest id is
    taken.

    Args:
        step: gives the next token's logits; see `Step`.
        state: what `step` is given first, a nest of tensors; see `State`.
        max_lengths: int32 [B], at least 1: the most tokens of each translation, eos included.
        length_penalty: the alpha by which scores are normalised, at least 0. It does not change the
            translations.
        rules: change the logits; see `Rule`.
        scores: whether scores are wanted. Without them, which are then 0, the softmax over the
            vocabulary is saved.
        stages: for a compiled graph; see `Stages`.
        select: lets go of sentences that have ended; see `Select`.
        bos_id: the id that `step` is given first.
        eos_id: the id that ends a translation.
        pad_id: the id that fills the places after it.

    Returns:
        A `SearchResult` with N = 1.

    Raises:
        ValueError: `length_penalty` is negative.

    >>> logits = tf.math.log([[0.1, 0.1, 0.1, 0.7], [0.1, 0.4, 0.2, 0.3]])  # B 2, V 4, eos is 3
    >>> step = lambda ids, parents, position, state: (logits, state)
    >>> result = greedy_search(step, (), max_lengths=[3, 2])
    >>> result.ids.numpy().tolist(), result.lengths.numpy().tolist()
    ([[[3, 0]], [[1, 1]]], [[1], [2]])
    """
    penalties.check_length_penalty(length_penalty)
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
    batch = tf.shape(max_lengths)[0]
    places = tf.range(history_length(max_lengths, stages))

    # XLA fails over what three loops in a row do not change (tensorflow/tensorflow#122886), as they
    # would log_prob without scores.
    def unfinished(position, ids, history, lengths, *log_prob):
        return position < lengths

    def extend(position, ids, history, lengths, *rest):
        *log_prob, state = rest
        logits, state = step(ids, tf.range(tf.size(ids)), position, state)
        logits = apply_rules(rules, logits, history, position)
        ids = best_tokens(logits)
        if scores:
            # Sentences that have ended run on, but neither score nor length takes notice.
            best = tf.reduce_max(tf.nn.log_softmax(logits), axis=1)
            log_prob = [log_prob[0] + tf.where(position < lengths, best, 0.0)]
        # The place holds padding so far. A selection takes several times as long, as it broadcasts.
        is_now = tf.one_hot(position, tf.size(places), dtype=tf.int32)
        history += is_now * (ids - pad_id)[:, tf.newaxis]
        position += 1
        lengths = tf.where(ids == eos_id, tf.minimum(lengths, position), lengths)
        return position, ids, history, lengths, *log_prob, state

    zeros = tf.zeros([batch])
    _, history, lengths, *log_prob = run_loop(
        unfinished,
        extend,
        (
            tf.fill([batch], bos_id),
            tf.fill([batch, tf.size(places)], pad_id),
            max_lengths,
            *([zeros] if scores else []),
        ),
        state,
        stages,
        select,
    )
    score = log_prob[0] / penalties.length_penalty(lengths, length_penalty) if scores else zeros
    ids, score, lengths = (tensor[:, tf.newaxis] for tensor in (history, score, lengths))
    return to_result(ids, score, lengths, pad_id, stages)
