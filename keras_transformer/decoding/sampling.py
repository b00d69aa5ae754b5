"""Sampling of translations, so that a sentence's do not depend on what else is in the batch."""

from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID
from keras_transformer.decoding import penalties
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
    rules: Sequence[Rule] = (),
    stages: Stages | None = None,
    select: Select | None = None,
    bos_id: int = BOS_ID,
    eos_id: int = EOS_ID,
    pad_id: int = PAD_ID,
) -> SearchResult:
    """Draw each token at random, until each sentence has eos or reaches its limit.

    Token by token, the rules change the logits, the temperature divides them, `top_k` and then
    `top_p` choose which may come, and one of these is drawn with the probability that it has among
    them.

    What a sentence draws depends on the model, the seed and the sentence's key alone: not on the
    other sentences, nor on its place among them. More samples are those that fewer would be, and
    others; two may be the same.

    Args:
        step: gives the next token's logits, [B * N, V] with a static V; see `Step`.
        state: what `step` is given first, a nest of tensors; see `State` and `repeat_rows`.
        max_lengths: int32 [B], at least 1: the most tokens of each translation, eos included.
        keys: int64 [B], a number for each sentence, such as `tf.strings.to_hash_bucket_fast` gives
            of its text; sentences with equal keys draw the same random numbers.
        seed: at least 0; another seed is another sample of everything.
        num_samples: N, at least 1; sample n of sentence b is row b * N + n.
        temperature: between 0.001, where samples hardly differ from greedy search, and 100; 1 keeps
            the model's probabilities.
        top_k: how many of the most probable tokens may come; 0 for all.
        top_p: above 0 and at most 1. The fewest most probable tokens may come that together have
            this probability (the nucleus of Holtzman et al. 2020). Without `top_k` it sorts the
            whole vocabulary at each step.
        length_penalty: the alpha by which scores are normalised, at least 0. It changes only the
            order of the samples.
        rules: change the logits; see `Rule`.
        stages: for a compiled graph; see `Stages`.
        select: lets go of sentences whose samples have all ended; see `Select`.
        bos_id: the id that `step` is given first.
        eos_id: the id that ends a translation.
        pad_id: the id that fills the places after it.

    Returns:
        A `SearchResult` of the N samples, best first. Their scores are what the model thinks of
        them after the rules, without temperature, `top_k` and `top_p`: they compare with those of
        the searches.

    Raises:
        ValueError: an option is out of its range.

    >>> logits = tf.math.log([[0.1, 0.1, 0.3, 0.5]])  # V 4, eos is 3
    >>> step = lambda ids, parents, position, state: (tf.repeat(logits, 5, axis=0), state)
    >>> result = sample_search(step, (), max_lengths=[1], keys=[6], num_samples=5, top_p=0.6)
    >>> result.ids.numpy().tolist()
    [[[3], [3], [3], [2], [2]]]
    """
    _check_options(seed, num_samples, temperature, top_k, top_p)
    penalties.check_length_penalty(length_penalty)
    max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
    batch = tf.shape(max_lengths)[0]
    places = tf.range(history_length(max_lengths, stages))

    def unfinished(position, ids, generators, history, log_prob, lengths):
        return tf.reduce_any(position < lengths, axis=1)

    # All are [B, N], but for history [B, N, L].
    def extend(position, ids, generators, history, log_prob, lengths, state):
        ids = tf.reshape(ids, [-1])
        logits, state = step(ids, tf.range(tf.size(ids)), position, state)
        logits = apply_rules(rules, logits, history, position)
        log_probs = tf.nn.log_softmax(logits)
        generators += _uint64(_GAMMA)
        uniforms = tf.reshape(_uniform(generators), [-1])
        ids = _draw(log_probs / temperature, uniforms, top_k, top_p)
        drawn = tf.gather(log_probs, ids, batch_dims=1)
        ids, drawn = (tf.reshape(tensor, tf.shape(lengths)) for tensor in (ids, drawn))
        # Samples that have ended run on, but neither score nor length takes notice.
        log_prob = tf.where(position < lengths, log_prob + drawn, log_prob)
        history = tf.where(places == position, ids[:, :, tf.newaxis], history)
        position += 1
        lengths = tf.where(ids == eos_id, tf.minimum(lengths, position), lengths)
        return position, ids, generators, history, log_prob, lengths, state

    _, _, history, log_prob, lengths = run_loop(
        unfinished,
        extend,
        (
            tf.fill([batch, num_samples], bos_id),
            _generators(seed, tf.convert_to_tensor(keys, tf.int64), num_samples),
            tf.fill([batch, num_samples, tf.size(places)], pad_id),
            tf.zeros([batch, num_samples]),
            tf.tile(max_lengths[:, tf.newaxis], [1, num_samples]),
        ),
        state,
        stages,
        select,
    )
    scores = log_prob / penalties.length_penalty(lengths, length_penalty)
    scores, order = tf.math.top_k(scores, num_samples)
    ids, lengths = (tf.gather(tensor, order, batch_dims=1) for tensor in (history, lengths))
    return to_result(ids, scores, lengths, pad_id, stages)


def _draw(logits, uniforms, top_k, top_p):
    """Return a token for each row of logits [R, V]: the one in whose share `uniforms` [R] falls."""
    vocab_size = logits.shape[1]
    is_sorted = top_k > 0 or top_p < 1
    if is_sorted:
        logits, tokens = tf.math.top_k(logits, min(top_k or vocab_size, vocab_size))
    probabilities = tf.nn.softmax(logits)
    # With 0 for what has no probability: a sum that is rounded otherwise must not make it come.
    reached = tf.where(probabilities > 0, tf.cumsum(probabilities, axis=1), 0.0)
    total = tf.reduce_max(reached, axis=1, keepdims=True)
    if top_p < 1:
        total = tf.reduce_min(tf.where(reached < top_p, total, reached), axis=1, keepdims=True)
    is_beyond = reached > uniforms[:, tf.newaxis] * total
    chosen = tf.argmax(tf.cast(is_beyond, tf.int32), axis=1, output_type=tf.int32)
    return tf.gather(tokens, chosen, batch_dims=1) if is_sorted else chosen


def _generators(seed, keys, num_samples):
    """Return SplitMix64 generators (Steele et al. 2014), uint64 [B, N], for keys [B].

    Each sample has one of its own, which starts from a hash of seed, key and n, and to which the
    constant gamma is added for each number. It is integer arithmetic alone, so that the numbers are
    the same on every machine.
    """
    starts = _mix(tf.bitwise.bitwise_xor(_uint64(keys), _mix(_uint64(seed))))
    return _mix(starts[:, tf.newaxis] + _uint64(tf.range(num_samples)) * _uint64(_GAMMA))


_GAMMA = 0x9E3779B97F4A7C15


def _uniform(generators):
    """Return the number of each generator, float32 between 0 and 1, both excluded."""
    leading = tf.bitwise.right_shift(_mix(generators), _uint64(64 - 23))
    return (tf.cast(leading, tf.float32) + 0.5) * 2.0**-23  # 24 bits, which float32 holds exactly


def _mix(bits):
    """Return 64 bits each of which depends on all that are given; no two inputs have the same."""
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
        ("top_k", top_k, top_k >= 0, "at least 0, which lets all tokens come"),
        ("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1, which lets all tokens come"),
    )
    problems = [
        f"{name} must be {rule}, received {x}" for name, x, is_right, rule in checks if not is_right
    ]
    if problems:
        raise ValueError("; ".join(problems) + ".")
