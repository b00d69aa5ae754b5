"""Beam search as in the paper's code: live beams and finished translations are kept apart."""

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID
from keras_transformer.decoding import penalties
from keras_transformer.decoding.candidates import best_continuations
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.loop import run_loop
from keras_transformer.decoding.search import (
    BAN,
    IMPOSSIBLE,
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


def beam_search(
    step: Step,
    state: State,
    *,
    max_lengths: tf.Tensor,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    num_hypotheses: int = 1,
    rules: Sequence[Rule] = (),
    scores: bool = True,
    stages: Stages | None = None,
    select: Select | None = None,
    bos_id: int = BOS_ID,
    eos_id: int = EOS_ID,
    pad_id: int = PAD_ID,
) -> SearchResult:
    """Return the best translations that a beam of N meets (Section 6.1).

    Each step takes the 2N most probable continuations of a sentence's N live beams. Those that end
    with eos compete by score, log-probability / length penalty, for N places among the finished;
    the best N of the others are the next live beams. A sentence stops at its limit, or once no live
    beam can change its result any more. If too few are finished then, live beams follow them.

    A sentence's result does not depend on the others.

    Args:
        step: gives the next token's logits; see `Step`.
        state: what `step` is given first, a nest of tensors; see `State` and `repeat_rows`.
        max_lengths: int32 [B], at least 1: the most tokens of each translation, eos included.
        beam_size: N, at least 1; a beam of 1 is greedy search.
        length_penalty: the alpha of the penalty, at least 0; 0 compares plain log-probabilities.
        num_hypotheses: how many translations to return of each sentence, at most N.
        rules: change the logits; see `Rule`.
        scores: whether scores are wanted; only a beam of 1 can do without them.
        stages: for a compiled graph; see `Stages`.
        select: lets go of sentences that have ended; see `Select`.
        bos_id: the id that `step` is given first.
        eos_id: the id that ends a translation.
        pad_id: the id that fills the places after it.

    Returns:
        A `SearchResult` with `num_hypotheses` in place of N.

    Raises:
        ValueError: `beam_size`, `num_hypotheses` or `length_penalty` is out of its range, or `step`
            returns logits whose V is unknown or less than 2.

    >>> start = tf.math.log([[0.01, 0.5, 0.09, 0.4]])  # V 4, eos is 3; greedy search would take 1
    >>> after_1 = tf.math.log([[0.3, 0.2, 0.2, 0.3]])  # and come to no more than 0.5 * 0.3
    >>> def step(ids, parents, position, state):
    ...     return tf.where(ids[:, tf.newaxis] == 1, after_1, start), state
    >>> result = beam_search(step, (), max_lengths=[2], beam_size=2, length_penalty=0.0)
    >>> result.ids.numpy().tolist(), round(float(tf.exp(result.scores[0, 0])), 4)
    ([[[3]]], 0.4)
    """
    _check_sizes(beam_size, num_hypotheses)
    penalties.check_length_penalty(length_penalty)
    if beam_size == 1:
        # A single live beam would go on after eos with its second best token, at twice the cost.
        return greedy_search(
            step,
            state,
            max_lengths=max_lengths,
            length_penalty=length_penalty,
            rules=rules,
            scores=scores,
            stages=stages,
            select=select,
            bos_id=bos_id,
            eos_id=eos_id,
            pad_id=pad_id,
        )
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
    batch = tf.shape(max_lengths)[0]
    slots = tf.range(beam_size)[tf.newaxis]  # [1, N]
    finished_slots = slots + beam_size
    places = tf.range(history_length(max_lengths, stages))
    all_penalties = penalties.length_penalty(tf.range(tf.size(places) + 1), length_penalty)

    def unfinished(position, ids, beams, history, live, finished, limits):
        return position < limits[:, 0]

    # ids [B, N] are the tokens chosen last, and beams [B, N] those that they continue;
    # history [B, 2N, L] holds the tokens of the live beams and then those of the finished,
    # prolonged by eos; live [B, N] log-probabilities and finished [B, N] scores, both descending;
    # limits [B, 1] are 0 for sentences that have stopped early, whose beams stay as they are.
    def extend(position, ids, beams, history, live, finished, limits, state):
        running = position < limits
        unchanged = tf.zeros_like(ids) + finished_slots
        parents = tf.range(tf.shape(ids)[0])[:, tf.newaxis] * beam_size + beams
        ids, parents = tf.reshape(ids, [-1]), tf.reshape(parents, [-1])
        logits, state = step(ids, parents, position, state)
        logits = apply_rules(rules, logits, history[:, :beam_size], position)
        log_probs, beams, tokens = best_continuations(logits, live, 2 * beam_size)
        log_probs = tf.where(log_probs > BAN / 2, log_probs, IMPOSSIBLE)
        is_eos = tokens == eos_id
        position += 1

        ended = log_probs / tf.gather(all_penalties, position)
        ended = tf.where(is_eos & running, ended, IMPOSSIBLE)
        finished, order = tf.math.top_k(tf.concat([finished, ended], 1), beam_size)
        finished_beams = tf.gather(tf.concat([unchanged, beams], 1), order, batch_dims=1)

        log_probs, order = tf.math.top_k(tf.where(is_eos, IMPOSSIBLE, log_probs), beam_size)
        live = tf.where(running, log_probs, live)
        beams = tf.where(running, tf.gather(beams, order, batch_dims=1), slots)
        ids = tf.where(running, tf.gather(tokens, order, batch_dims=1), eos_id)

        history = tf.gather(history, tf.concat([beams, finished_beams], 1), batch_dims=1)
        last = tf.pad(ids, [[0, 0], [0, beam_size]], constant_values=eos_id)[:, :, tf.newaxis]
        history = tf.where(places == position - 1, last, history)
        # Log-probabilities only fall and penalties only rise, so no live beam can score above this.
        bound = live[:, :1] / tf.gather(all_penalties, limits)
        worst = finished[:, num_hypotheses - 1 : num_hypotheses]
        limits = tf.where(bound > worst, limits, 0)
        return position, ids, beams, history, live, finished, limits, state

    _, _, history, live, finished, _ = run_loop(
        unfinished,
        extend,
        (
            tf.fill([batch, beam_size], bos_id),
            tf.tile(slots, [batch, 1]),
            tf.fill([batch, 2 * beam_size, tf.size(places)], eos_id),
            # All start alike, so only one is alive.
            tf.tile(tf.where(slots == 0, 0.0, IMPOSSIBLE), [batch, 1]),
            tf.fill([batch, beam_size], IMPOSSIBLE),
            max_lengths[:, tf.newaxis],
        ),
        state,
        stages,
        select,
    )
    # A sentence that needs its live beams has come to its limit: that is their length.
    finished, slots = finished[:, :num_hypotheses], slots[:, :num_hypotheses]
    max_penalties = tf.gather(all_penalties, max_lengths[:, tf.newaxis])
    is_finished = finished > IMPOSSIBLE
    num_finished = tf.math.count_nonzero(is_finished, axis=1, keepdims=True, dtype=tf.int32)
    chosen = tf.where(is_finished, beam_size + slots, slots - num_finished)
    best = tf.gather(tf.concat([live / max_penalties, finished], 1), chosen, batch_dims=1)
    ids = tf.gather(history, chosen, batch_dims=1)
    lengths = tf.math.count_nonzero(ids != eos_id, axis=2, dtype=tf.int32)
    lengths += tf.cast(is_finished, tf.int32)
    return to_result(ids, best, lengths, pad_id, stages)


def _check_sizes(beam_size: int, num_hypotheses: int) -> None:
    if beam_size < 1:
        raise ValueError(
            f"beam_size must be at least 1, received {beam_size}. "
            "Use beam_size=1 for greedy search."
        )
    if not 1 <= num_hypotheses <= beam_size:
        raise ValueError(
            f"num_hypotheses must be between 1 and beam_size={beam_size}, received "
            f"{num_hypotheses}. Use a wider beam or ask for fewer translations."
        )
