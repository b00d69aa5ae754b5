"""Sampling of translations that do not depend on the rest of the batch."""

from typing import NamedTuple, Unpack

import tensorflow as tf

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


class Samples(NamedTuple):
    """The N samples of B sentences while they are drawn.

    Attributes:
        ids: int32 [B, N], the tokens drawn last.
        generators: uint64 [B, N], the states of the random number generators.
        history: int32 [B, N, L], the tokens of each sample.
        log_prob: float32 [B, N], log-probabilities.
        lengths: int32 [B, N], the length of each finished sample, and the limit of the others.
    """

    ids: tf.Tensor
    generators: tf.Tensor
    history: tf.Tensor
    log_prob: tf.Tensor
    lengths: tf.Tensor


def sample_search(
    step: Step,
    state: State,
    *,
    max_lengths: tf.Tensor,
    keys: tf.Tensor,
    seed: int = 0,
    num_samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    length_penalty: float = 0.0,
    **options: Unpack[SearchKeywords],
) -> SearchResult:
    """Draw each token at random, until eos or the limit of each sentence.

    For each token, the rules change the logits, the temperature divides them, `top_k` and then
    `top_p` choose the candidates, and one of these is drawn by its probability among them.

    The samples of a sentence depend only on the model, the seed and the key of the sentence, not on
    the rest of the batch. A larger `num_samples` adds samples and keeps the others. Samples may be
    equal.

    Args:
        step: Returns the logits [B * N, V] of the next token, with a static V; see `Step`.
        state: The state that `step` receives first, a nest of tensors with B * N rows; see `State`
            and `repeat_rows`. Sample n of sentence b is row b * N + n.
        max_lengths: int32 [B], at least 1: the maximum number of tokens of each translation,
            including eos.
        keys: int64 [B], a number for each sentence, such as the `tf.strings.to_hash_bucket_fast` of
            its text. Sentences with equal keys draw the same random numbers.
        seed: At least 0. Another seed draws other samples of all sentences.
        num_samples: N, at least 1.
        temperature: Between 0.001, which is close to greedy search, and 100; 1 keeps the
            probabilities of the model.
        top_k: The number of most probable tokens to draw from; 0 for all.
        top_p: Above 0 and at most 1. Draws from the smallest set of most probable tokens with at
            least this probability (the nucleus of Holtzman et al. 2020). Without `top_k`, it sorts
            the whole vocabulary at each step.
        length_penalty: The alpha that normalizes scores, at least 0. It only affects the order of
            the samples.
        **options: See `SearchOptions`.

    Returns:
        A `SearchResult` with the N samples, best first. Scores use the probabilities of the model
        after the rules, without temperature, `top_k` and `top_p`, so they are comparable with those
        of the other searches.

    Raises:
        ValueError: If an option is out of range.

    >>> logits = tf.math.log([[0.1, 0.1, 0.3, 0.5]])  # V 4, eos is 3
    >>> step = lambda ids, parents, position, state: (tf.repeat(logits, 5, axis=0), state)
    >>> result = sample_search(step, (), max_lengths=[1], keys=[6], num_samples=5, top_p=0.6)
    >>> result.ids.numpy().tolist()
    [[[3], [3], [3], [2], [2]]]
    """
    _check_options(seed, num_samples, temperature, top_k, top_p)
    check_length_penalty(length_penalty)
    given = SearchOptions(**options)
    style = get_style(given.style)
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
    batch = tf.shape(max_lengths)[0]
    positions = tf.range(history_length(max_lengths, given.stages))

    def is_unfinished(position, samples):
        return tf.reduce_any(position < samples.lengths, axis=1)

    def extend(position, samples, state):
        ids, generators, history, log_prob, lengths = samples
        ids = tf.reshape(ids, [-1])
        logits, state = step(ids, tf.range(tf.size(ids)), position, state)
        logits = apply_rules(given.rules, logits, history, position)
        log_probs = tf.nn.log_softmax(logits)
        allowed = log_probs if given.excluded is None else log_probs + given.excluded
        generators += _uint64(_GAMMA)
        uniforms = tf.reshape(_uniform(generators), [-1])
        ids = _draw(allowed / temperature, uniforms, top_k, top_p)
        drawn = tf.gather(log_probs, ids, batch_dims=1)
        ids, drawn = (tf.reshape(tensor, tf.shape(lengths)) for tensor in (ids, drawn))
        # Finished samples run on, without any effect on their scores and lengths.
        log_prob = tf.where(position < lengths, log_prob + drawn, log_prob)
        history = tf.where(positions == position, ids[:, :, tf.newaxis], history)
        position += 1
        lengths = tf.where(ids == given.eos_id, tf.minimum(lengths, position), lengths)
        return position, Samples(ids, generators, history, log_prob, lengths), state

    start = Samples(
        ids=tf.fill([batch, num_samples], given.bos_id),
        generators=_generators(seed, tf.convert_to_tensor(keys, tf.int64), num_samples),
        history=tf.fill([batch, num_samples, tf.size(positions)], given.pad_id),
        log_prob=tf.zeros([batch, num_samples]),
        lengths=tf.tile(max_lengths[:, tf.newaxis], [1, num_samples]),
    )
    samples = run_loop(is_unfinished, extend, start, state, given)
    scores = samples.log_prob / style.divisors(samples.lengths, length_penalty)
    scores, order = tf.math.top_k(scores, num_samples)
    ids = tf.gather(samples.history, order, batch_dims=1)
    lengths = tf.gather(samples.lengths, order, batch_dims=1)
    return to_result(ids, scores, lengths, given.pad_id, given.stages)


def _draw(logits, uniforms, top_k, top_p):
    """Return a token for each row of logits [R, V], drawn by a number `uniforms` [R] in (0, 1)."""
    vocab_size = logits.shape[1]
    is_sorted = top_k > 0 or top_p < 1
    if is_sorted:
        logits, tokens = tf.math.top_k(logits, min(top_k or vocab_size, vocab_size))
    probabilities = tf.nn.softmax(logits)
    # 0 for impossible tokens, so that rounding of the sum cannot make them possible.
    reached = tf.where(probabilities > 0, tf.cumsum(probabilities, axis=1), 0.0)
    total = tf.reduce_max(reached, axis=1, keepdims=True)
    if top_p < 1:
        total = tf.reduce_min(tf.where(reached < top_p, total, reached), axis=1, keepdims=True)
    is_beyond = reached > uniforms[:, tf.newaxis] * total
    chosen = tf.argmax(tf.cast(is_beyond, tf.int32), axis=1, output_type=tf.int32)
    return tf.gather(tokens, chosen, batch_dims=1) if is_sorted else chosen


def _generators(seed, keys, num_samples):
    """Return SplitMix64 generators (Steele et al. 2014), uint64 [B, N], for keys [B].

    The generator of a sample starts from a hash of seed, key and n; each number adds the constant
    gamma. All of it is integer arithmetic, so the numbers are the same on every machine.
    """
    starts = _mix(tf.bitwise.bitwise_xor(_uint64(keys), _mix(_uint64(seed))))
    return _mix(starts[:, tf.newaxis] + _uint64(tf.range(num_samples)) * _uint64(_GAMMA))


_GAMMA = 0x9E3779B97F4A7C15


def _uniform(generators):
    """Return a number of each generator, float32, above 0 and below 1."""
    leading = tf.bitwise.right_shift(_mix(generators), _uint64(64 - 23))
    return (tf.cast(leading, tf.float32) + 0.5) * 2.0**-23  # 24 bits, which float32 holds exactly


def _mix(bits):
    """Return 64 bits, each of which depends on all input bits, by a bijection."""
    bits = _fold(bits, 30) * _uint64(0xBF58476D1CE4E5B9)
    bits = _fold(bits, 27) * _uint64(0x94D049BB133111EB)
    return _fold(bits, 31)


def _fold(bits, shift):
    return tf.bitwise.bitwise_xor(bits, tf.bitwise.right_shift(bits, _uint64(shift)))


def _uint64(value):
    return tf.cast(value, tf.uint64) if tf.is_tensor(value) else tf.constant(value, tf.uint64)


def _check_options(seed, num_samples, temperature, top_k, top_p):
    checks = (
        ("seed", seed, 0 <= seed < 2**64, "at least 0 and below 2 ** 64"),
        ("num_samples", num_samples, num_samples >= 1, "at least 1"),
        ("temperature", temperature, 0.001 <= temperature <= 100, "between 0.001 and 100"),
        ("top_k", top_k, top_k >= 0, "at least 0, where 0 is all tokens"),
        ("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1, where 1 is all tokens"),
    )
    problems = [
        f"{name} must be {rule}, received {x}" for name, x, is_right, rule in checks if not is_right
    ]
    if problems:
        raise ValueError("; ".join(problems) + ".")
