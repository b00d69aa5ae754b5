"""Rules: constraints on the tokens of a translation.

A ban adds `BAN` to a logit, so that the probability of the token is exactly 0. `BAN` is finite, and
it does not replace the logit, because several rules together may ban every token. The softmax then
removes what all logits share: nothing is NaN, and the model's order of the tokens remains, up to
the rounding of logits next to `BAN`.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import EOS_ID, DecodingConfig
from keras_transformer.decoding.search import BAN, Rule


def make_rules(config: DecodingConfig, prefix: Sequence[int] = ()) -> list[Rule]:
    """Return the rules of a configuration, in the order in which they apply.

    Penalties come before bans, because they scale the logits of the model. The prefix comes last,
    because it overrides all other rules.

    Args:
        config: The configuration.
        prefix: The ids of its prefix.

    Returns:
        A list of rules, for the `rules` of a search.

    >>> [rule.__qualname__.split(".")[0] for rule in make_rules(DecodingConfig(min_length=3), [7])]
    ['min_length', 'forced_prefix']
    """
    rules = []
    if config.repetition_penalty != 1:
        rules.append(repetition_penalty(config.repetition_penalty))
    if config.no_repeat_ngram_size:
        rules.append(no_repeat_ngram(config.no_repeat_ngram_size))
    if config.min_length:
        rules.append(min_length(config.min_length))
    if len(prefix):
        rules.append(forced_prefix([prefix], [len(prefix)]))
    return rules


def repetition_penalty(penalty: float) -> Rule:
    """Return a rule that makes tokens that a translation already contains less probable.

    It divides their logits by `penalty` if positive and multiplies them by it if negative (Keskar
    et al. 2019). Unlike other rules, it depends on a constant added to the logits, so the step must
    return the logits of the model unchanged. In a beam search of the style "transformers", the
    rules apply to log-probabilities instead.

    Args:
        penalty: At least 1, which has no effect; 1.1 to 1.3 is usual.

    Returns:
        A `Rule`.

    Raises:
        ValueError: If `penalty` is out of range.

    >>> history = tf.constant([[1, 2, 0]])  # position 2: the last token is arbitrary
    >>> repetition_penalty(2.0)(tf.constant([[4.0, 4.0, -4.0]]), history, 2).numpy().tolist()
    [[4.0, 2.0, -8.0]]
    """
    if not 1 <= penalty < math.inf:
        raise ValueError(
            f"penalty must be at least 1 and finite, received {penalty}. Try 1.2, or leave the "
            "rule out."
        )

    def rule(logits, history, position):
        is_chosen = tf.range(tf.shape(history)[1]) < position
        is_repeated = _has_token(history, is_chosen, logits.shape[1]) > 0
        penalized = tf.minimum(logits / penalty, logits * penalty)  # for either sign
        return tf.where(is_repeated, penalized, logits)

    return rule


def no_repeat_ngram(size: int) -> Rule:
    """Return a rule that bans repeating an n-gram of the translation.

    It never bans eos, which occurs only at the end.

    Args:
        size: n, at least 1; 1 bans every token that the translation already contains.

    Returns:
        A `Rule`.

    Raises:
        ValueError: If `size` is less than 1.

    >>> history = tf.constant([[1, 2, 1, 0]])  # position 3: 2 already followed 1
    >>> (no_repeat_ngram(2)(tf.zeros([1, 3]), history, 3) < 0).numpy().tolist()
    [[False, False, True]]
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, received {size}. Try 3, or leave the rule out.")

    def rule(logits, history, position):
        # The last tokens of all n-grams: those from place size - 1 on.
        last_tokens = history[:, size - 1 :]
        is_banned = tf.range(tf.shape(history)[1])[size - 1 :] < position
        for back in range(1, size):
            newest = tf.gather(history, [tf.maximum(position - back, 0)], axis=1)
            is_banned &= history[:, size - 1 - back : -back] == newest
        return logits + BAN * _has_token(last_tokens, is_banned, logits.shape[1])

    return rule


def min_length(length: int, eos_id: int = EOS_ID) -> Rule:
    """Return a rule that bans eos until a translation has `length` tokens.

    The limit of a search still applies.

    Args:
        length: The number of tokens without eos, at least 0.
        eos_id: The id of eos.

    Returns:
        A `Rule`.

    Raises:
        ValueError: If `length` is negative.

    >>> logits, history = tf.zeros([1, 3]), tf.zeros([1, 4], tf.int32)
    >>> rule = min_length(2, eos_id=0)
    >>> [bool(rule(logits, history, position)[0, 0] < 0) for position in range(4)]
    [True, True, False, False]
    """
    if length < 0:
        raise ValueError(f"length must be at least 0, received {length}. 0 allows any length.")

    def rule(logits, history, position):
        # Gathering one of two rows is much faster than a `tf.where` over V numbers.
        rows = tf.one_hot([eos_id, -1], logits.shape[1], on_value=BAN, off_value=0.0)
        return logits + tf.gather(rows, tf.cast(position >= length, tf.int32))

    return rule


def forced_prefix(ids: tf.Tensor, lengths: tf.Tensor) -> Rule:
    """Return a rule that forces the first tokens of each row.

    Forced tokens have log-probability 0, so scores count only what the search chose itself.

    Args:
        ids: int32 [R, P], or [1, P] for all rows. With N beams or samples, repeat the prefix of
            each sentence N times; see `repeat_rows`. A search with a `Select` needs [1, P], because
            it drops rows.
        lengths: int32 [R], or [1] for all rows: the number of tokens of each prefix, at most P.

    Returns:
        A `Rule`.

    Raises:
        ValueError: If the shapes are different.

    >>> rule, history = forced_prefix([[2]], [1]), tf.zeros([1, 4], tf.int32)
    >>> (rule(tf.zeros([1, 3]), history, 0) < 0).numpy().tolist()
    [[True, True, False]]
    >>> rule(tf.ones([1, 3]), history, 1).numpy().tolist()
    [[1.0, 1.0, 1.0]]
    """
    ids, lengths = tf.convert_to_tensor(ids, tf.int32), tf.convert_to_tensor(lengths, tf.int32)
    if ids.shape.rank != 2 or lengths.shape.rank != 1:
        raise ValueError(
            "ids must have shape [R, P] and lengths [R], with R 1 for the same prefix in all rows, "
            f"received {ids.shape} and {lengths.shape}. Put a single prefix into a list."
        )
    longest = tf.shape(ids)[1]
    ids = tf.pad(ids, [[0, 0], [0, 1]])  # a token for positions after the prefix
    lengths = lengths[:, tf.newaxis]

    def rule(logits, history, position):
        token = tf.gather(ids, tf.minimum(position, longest), axis=1)
        forced = tf.one_hot(token, logits.shape[1], on_value=0.0, off_value=BAN)
        return tf.where(position < lengths, forced, logits)

    return rule


def _has_token(ids, is_counted, vocab_size):
    """Return 1 [R, V] for each token among the ids [R, L] where `is_counted`, and 0 elsewhere."""
    return tf.raw_ops.DenseBincount(
        input=tf.where(is_counted, ids, vocab_size),  # V is out of range and not counted.
        size=vocab_size,
        weights=tf.zeros([0]),
        binary_output=True,
    )
