"""Beam search as in the paper's code: live beams and finished translations are kept apart."""

from typing import NamedTuple, Unpack

import tensorflow as tf

from keras_transformer.decoding.candidates import best_continuations
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.search import (
    BAN,
    IMPOSSIBLE,
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
from keras_transformer.decoding.styles import get_style


class Beams(NamedTuple):
    """The translations of B sentences during beam search: N live ones and N finished ones each.

    Attributes:
        ids: int32 [B, N], the tokens chosen last.
        parents: int32 [B, N], the beams that they continue.
        history: int32 [B, 2N, L], the tokens of the live beams, then those of the finished
            translations, which eos fills up.
        live: float32 [B, N], log-probabilities of the live beams, descending.
        finished: float32 [B, N], scores of the finished translations, descending.
        limits: int32 [B, 1], the maximum length, or 0 once the sentence has stopped early.
    """

    ids: tf.Tensor
    parents: tf.Tensor
    history: tf.Tensor
    live: tf.Tensor
    finished: tf.Tensor
    limits: tf.Tensor


def beam_search(
    step: Step,
    state: State,
    *,
    max_lengths: tf.Tensor,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    num_hypotheses: int = 1,
    scores: bool = True,
    single_sentence: bool = False,
    **options: Unpack[SearchKeywords],
) -> SearchResult:
    """Return the best translations that a beam of size N finds (Section 6.1).

    Each step takes the 2N most probable continuations of the N live beams of a sentence. Those
    that end with eos compete by score, log-probability / length penalty, for N places among the
    finished translations; the best N of the others are the next live beams. A sentence stops at
    its limit, or as soon as no live beam can change its result. If fewer than `num_hypotheses`
    translations are finished, the best live beams follow them.

    This is the style of the paper; `decoding.styles` has what others do. The result of a sentence
    does not depend on the rest of the batch.

    Args:
        step: Returns the logits of the next token; see `Step`.
        state: The state that `step` receives first, a nest of tensors with B * N rows; see `State`
            and `repeat_rows`.
        max_lengths: int32 [B], at least 1: the maximum number of tokens of each translation,
            including eos.
        beam_size: N, at least 1. A beam of 1 is greedy search.
        length_penalty: The alpha of the penalty, at least 0; 0 compares plain log-probabilities.
        num_hypotheses: The number of translations to return for each sentence, at most N.
        scores: Whether to compute scores. Only a beam of 1 saves time without them.
        single_sentence: Whether the batch is a single sentence. Chooses operations that are fast
            for a few rows; results are the same but for rounding.
        **options: See `SearchOptions`.

    Returns:
        A `SearchResult` with `num_hypotheses` translations of each sentence.

    Raises:
        ValueError: If `beam_size`, `num_hypotheses` or `length_penalty` is out of range, or if
            `step` returns logits whose V is unknown or less than 2.

    >>> start = tf.math.log([[0.01, 0.5, 0.09, 0.4]])  # V 4, eos is 3; greedy search would take 1
    >>> after_1 = tf.math.log([[0.3, 0.2, 0.2, 0.3]])  # and reach at most 0.5 * 0.3
    >>> def step(ids, parents, position, state):
    ...     return tf.where(ids[:, tf.newaxis] == 1, after_1, start), state
    >>> result = beam_search(step, (), max_lengths=[2], beam_size=2, length_penalty=0.0)
    >>> result.ids.numpy().tolist(), round(float(tf.exp(result.scores[0, 0])), 4)
    ([[[3]]], 0.4)
    """
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
    if beam_size == 1:
        # A single live beam would go on after eos with its second best token, at twice the cost.
        return greedy_search(
            step,
            state,
            max_lengths=max_lengths,
            length_penalty=length_penalty,
            scores=scores,
            **options,
        )
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
    given = SearchOptions(**options)
    search = _BeamSearch(
        step, max_lengths, beam_size, num_hypotheses, length_penalty, single_sentence, given
    )
    beams = run_loop(search.is_unfinished, search.extend, search.start(), state, given)
    return search.result(beams)


class _BeamSearch:
    """A beam search with its constants, which are computed once, outside of the loop."""

    def __init__(
        self, step, max_lengths, beam_size, num_hypotheses, length_penalty, single_sentence, options
    ):
        self.step = step
        self.max_lengths = max_lengths
        self.beam_size = beam_size
        self.num_hypotheses = num_hypotheses
        self.single_sentence = single_sentence
        self.options = options
        self.style = get_style(options.style)
        self.rules_come_last = self.style.rules_on_log_probs and bool(options.rules)
        self.num_needed = beam_size if self.style.must_fill else num_hypotheses
        self.slots = tf.range(beam_size)[tf.newaxis]  # [1, N]
        self.finished_slots = self.slots + beam_size
        self.positions = tf.range(history_length(max_lengths, options.stages))  # [L]
        lengths = tf.range(tf.size(self.positions) + 1)
        self.penalties = self.style.divisors(lengths, length_penalty)

    def start(self):
        """Return the beams before the first token."""
        batch, length = tf.shape(self.max_lengths)[0], tf.size(self.positions)
        return Beams(
            ids=tf.fill([batch, self.beam_size], self.options.bos_id),
            parents=tf.tile(self.slots, [batch, 1]),
            history=tf.fill([batch, 2 * self.beam_size, length], self.options.eos_id),
            # All beams start alike, so only one is alive.
            live=tf.tile(tf.where(self.slots == 0, 0.0, IMPOSSIBLE), [batch, 1]),
            finished=tf.fill([batch, self.beam_size], IMPOSSIBLE),
            limits=self.max_lengths[:, tf.newaxis],
        )

    def is_unfinished(self, position, beams):
        return position < beams.limits[:, 0]

    def extend(self, position, beams, state):
        """Return the position, the beams and the state after one more token."""
        n, eos_id = self.beam_size, self.options.eos_id
        logits, state = self._next_logits(position, beams, state)  # [B * N, V]

        # The 2N most probable continuations of the live beams of each sentence: [B, 2N] each.
        log_probs, parents, tokens = best_continuations(
            logits,
            beams.live,
            2 * n,
            few_rows=self.single_sentence,
            excluded=None if self.rules_come_last else self.options.excluded,
            are_log_probs=self.rules_come_last,
            device=self.options.device,
        )
        log_probs = tf.where(log_probs > BAN / 2, log_probs, IMPOSSIBLE)
        log_probs, parents, tokens = self.style.continuations(
            (log_probs, parents, tokens), position, beams, eos_id
        )
        length = position + 1
        running = position < beams.limits  # [B, 1]
        ends = tokens == eos_id

        # Those that end compete by score for the N places of finished translations.
        scores = log_probs / tf.gather(self.penalties, length)
        scores = tf.where(ends & running, scores, IMPOSSIBLE)
        finished, order = tf.math.top_k(tf.concat([beams.finished, scores], 1), n)  # [B, N]
        unchanged = tf.zeros_like(beams.ids) + self.finished_slots
        finished_parents = tf.gather(tf.concat([unchanged, parents], 1), order, batch_dims=1)

        # The best N of the others are the next live beams.
        live, order = tf.math.top_k(tf.where(ends, IMPOSSIBLE, log_probs), n)  # [B, N]
        live = tf.where(running, live, beams.live)
        parents = tf.where(running, tf.gather(parents, order, batch_dims=1), self.slots)
        ids = tf.where(running, tf.gather(tokens, order, batch_dims=1), eos_id)

        origins = tf.concat([parents, finished_parents], 1)  # [B, 2N]
        history = tf.gather(beams.history, origins, batch_dims=1)  # [B, 2N, L]
        last = tf.pad(ids, [[0, 0], [0, n]], constant_values=eos_id)[:, :, tf.newaxis]
        history = tf.where(self.positions == position, last, history)

        # Log-probabilities only fall and penalties only rise: no live beam will score above
        # `bound`. A sentence stops once no score up to that can change its result.
        penalty = tf.gather(self.penalties, self.style.final_length(length, beams.limits))
        bound = live[:, :1] / penalty
        worst = finished[:, self.num_needed - 1 : self.num_needed]
        goes_on = bound > worst
        if self.style.stops_when_full:
            goes_on &= finished[:, -1:] <= IMPOSSIBLE
        limits = tf.where(goes_on, beams.limits, 0)
        return length, Beams(ids, parents, history, live, finished, limits), state

    def _next_logits(self, position, beams, state):
        """Return the logits [B * N, V] of the token after each live beam, and the state.

        If rules come last, these are log-probabilities.
        """
        sentences = tf.range(tf.shape(beams.ids)[0])[:, tf.newaxis]
        rows = sentences * self.beam_size + beams.parents  # Beams as rows of the whole batch.
        ids, rows = tf.reshape(beams.ids, [-1]), tf.reshape(rows, [-1])
        logits, state = self.step(ids, rows, position, state)
        history = beams.history[:, : self.beam_size]
        if self.rules_come_last:
            logits = tf.nn.log_softmax(logits)
            if self.options.excluded is not None:
                logits += self.options.excluded
        return apply_rules(self.options.rules, logits, history, position), state

    def result(self, beams):
        """Return the best finished translations, then the best live beams."""
        # A sentence that needs its live beams has reached its limit: that is their length.
        live = beams.live / tf.gather(self.penalties, self.max_lengths[:, tf.newaxis])
        chosen = self.style.rank(live, beams.finished, self.num_hypotheses)
        scores = tf.gather(tf.concat([live, beams.finished], 1), chosen, batch_dims=1)
        ids = tf.gather(beams.history, chosen, batch_dims=1)
        lengths = tf.math.count_nonzero(ids != self.options.eos_id, axis=2, dtype=tf.int32)
        lengths += tf.cast(chosen >= self.beam_size, tf.int32)  # A finished one ends with eos.
        return to_result(ids, scores, lengths, self.options.pad_id, self.options.stages)
