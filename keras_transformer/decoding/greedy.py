"""Greedy search."""

from typing import NamedTuple, Unpack

import tensorflow as tf

from keras_transformer.decoding.candidates import best_tokens
from keras_transformer.decoding.search import (
    SearchKeywords,
    SearchOptions,
    SearchResult,
    State,
    Step,
    apply_rules,
    history_length,
    run_loop,
    to_result,
)
from keras_transformer.decoding.styles import check_length_penalty, get_style


class Greedy(NamedTuple):
    """The translations of B sentences during greedy search.

    Attributes:
        ids: int32 [B], the tokens chosen last.
        history: int32 [B, L], the tokens of each translation, then padding.
        lengths: int32 [B], the length of each finished translation, and the limit of the others.
        log_prob: float32 [B], log-probabilities, or () without scores: XLA fails on what several
            loops in a row do not change (tensorflow/tensorflow#122886).
        limits: int32 [B], the maximum lengths, or () where the style has no use for them.
    """

    ids: tf.Tensor
    history: tf.Tensor
    lengths: tf.Tensor
    log_prob: tf.Tensor | tuple[()]
    limits: tf.Tensor | tuple[()]


def greedy_search(
    step: Step,
    state: State,
    *,
    max_lengths: tf.Tensor,
    length_penalty: float = 0.0,
    scores: bool = True,
    **options: Unpack[SearchKeywords],
) -> SearchResult:
    """Take the most probable token at each step, until eos or the limit of each sentence.

    The result of a sentence does not depend on the rest of the batch. Among equally probable
    tokens, the lowest id wins.

    Args:
        step: Returns the logits of the next token; see `Step`.
        state: The state that `step` receives first, a nest of tensors; see `State`.
        max_lengths: int32 [B], at least 1: the maximum number of tokens of each translation,
            including eos.
        length_penalty: The alpha that normalizes scores, at least 0. It does not change the
            translations.
        scores: Whether to compute scores. Without them, scores are 0, and the softmax over the
            vocabulary is saved.
        **options: See `SearchOptions`.

    Returns:
        A `SearchResult` with N = 1.

    Raises:
        ValueError: If `length_penalty` is negative.

    >>> logits = tf.math.log([[0.1, 0.1, 0.1, 0.7], [0.1, 0.4, 0.2, 0.3]])  # B 2, V 4, eos is 3
    >>> step = lambda ids, parents, position, state: (logits, state)
    >>> result = greedy_search(step, (), max_lengths=[3, 2])
    >>> result.ids.numpy().tolist(), result.lengths.numpy().tolist()
    ([[[3, 0]], [[1, 1]]], [[1], [2]])
    """
    given = SearchOptions(**options)
    style = get_style(given.style)
    check_length_penalty(length_penalty)
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
    batch = tf.shape(max_lengths)[0]
    max_length = history_length(max_lengths, given.stages)

    def is_unfinished(position, greedy):
        return position < greedy.lengths

    def extend(position, greedy, state):
        ids, history, lengths, log_prob, limits = greedy
        logits, state = step(ids, tf.range(tf.size(ids)), position, state)
        logits = apply_rules(given.rules, logits, history, position)
        allowed = logits if given.excluded is None else logits + given.excluded
        ids = best_tokens(allowed, given.device)
        is_scored = position < lengths
        if style.forces_eos:
            is_last = position + 1 >= limits
            ids, is_scored = tf.where(is_last, given.eos_id, ids), is_scored & ~is_last
        if scores:
            # Finished sentences run on, without any effect on their scores and lengths.
            if given.excluded is None:
                best = tf.reduce_max(tf.nn.log_softmax(logits), axis=1)
            else:
                best = tf.reduce_max(allowed, axis=1) - tf.reduce_logsumexp(logits, axis=1)
            log_prob += tf.where(is_scored, best, 0.0)
        # The place holds padding until now. `tf.where` is several times slower: it broadcasts.
        is_now = tf.one_hot(position, max_length, dtype=tf.int32)
        history += is_now * (ids - given.pad_id)[:, tf.newaxis]
        position += 1
        lengths = tf.where(ids == given.eos_id, tf.minimum(lengths, position), lengths)
        return position, Greedy(ids, history, lengths, log_prob, limits), state

    zeros = tf.zeros([batch])
    start = Greedy(
        ids=tf.fill([batch], given.bos_id),
        history=tf.fill([batch, max_length], given.pad_id),
        lengths=max_lengths,
        log_prob=zeros if scores else (),
        limits=max_lengths if style.forces_eos else (),
    )
    _, history, lengths, log_prob, _ = run_loop(is_unfinished, extend, start, state, given)
    score = log_prob / style.divisors(lengths, length_penalty) if scores else zeros
    ids, score, lengths = (tensor[:, tf.newaxis] for tensor in (history, score, lengths))
    return to_result(ids, score, lengths, given.pad_id, given.stages)
