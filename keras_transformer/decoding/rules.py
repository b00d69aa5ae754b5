"""Rules of decoding: what a translation must have, must not have, or had better not have.

A ban adds `BAN` to a logit, which makes the token's probability exactly 0. It is finite, and added
rather than put in place of the logit, because rules that do not know of each other may ban
everything: then the softmax takes away what is common to all logits, nothing is NaN, and the order
that the model gave the tokens is left.
"""

import math
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import EOS_ID, DecodingConfig
from keras_transformer.decoding.search import BAN, Rule


def make_rules(config: DecodingConfig, prefix: Sequence[int] = ()) -> list[Rule]:
    """Return the rules that a configuration asks for, in the order in which they make sense.

    Penalties change what the model thinks, so they come before bans, and a given prefix comes last,
    because it is to be followed whatever the other rules say.

    Args:
        config: the configuration.
        prefix: the ids of its prefix.

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
    """Return a rule that makes the tokens that a translation already has less probable.

    Their logits are divided by `penalty` where they are positive and multiplied by it where they
    are negative (Keskar et al. 2019). So it matters, unlike for other rules, that the step gives
    the logits of the model as they are, without a constant added to them.

    Args:
        penalty: at least 1, which changes nothing; usual is 1.1 to 1.3.

    Raises:
        ValueError: `penalty` is out of its range.

    >>> history = tf.constant([[1, 2, 0]])  # position 2: the last is not chosen yet
    >>> repetition_penalty(2.0)(tf.constant([[4.0, 4.0, -4.0]]), history, 2).numpy().tolist()
    [[4.0, 2.0, -8.0]]
    """
    if not 1 <= penalty < math.inf:
        raise ValueError(
            f"penalty must be at least 1 and finite, received {penalty}. Try 1.2, or leave it out."
        )

    def rule(logits, history, position):
        is_chosen = tf.range(tf.shape(history)[1]) < position
        is_repeated = _has_token(history, is_chosen, logits.shape[1]) > 0
        penalised = tf.minimum(logits / penalty, logits * penalty)  # whichever sign they have
        return tf.where(is_repeated, penalised, logits)

    return rule


def no_repeat_ngram(size: int) -> Rule:
    """Return a rule that bans tokens that would complete an n-gram that a translation already has.

    It never bans eos, which no translation has before its end.

    Args:
        size: n, the tokens of an n-gram, at least 1; 1 bans every token that has come.

    Raises:
        ValueError: `size` is less than 1.

    >>> history = tf.constant([[1, 2, 1, 0]])  # position 3: 2 has already followed 1
    >>> (no_repeat_ngram(2)(tf.zeros([1, 3]), history, 3) < 0).numpy().tolist()
    [[False, False, True]]
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, received {size}. Try 3, or leave the rule out.")

    def rule(logits, history, position):
        # The n-grams that end at each place from size - 1 on, by their last token.
        last_tokens = history[:, size - 1 :]
        is_banned = tf.range(tf.shape(history)[1])[size - 1 :] < position
        for back in range(1, size):
            newest = tf.gather(history, [tf.maximum(position - back, 0)], axis=1)
            is_banned &= history[:, size - 1 - back : -back] == newest
        return logits + BAN * _has_token(last_tokens, is_banned, logits.shape[1])

    return rule


def min_length(length: int, eos_id: int = EOS_ID) -> Rule:
    """Return a rule that bans eos before a translation has so many tokens.

    A search ends a translation at its limit all the same.

    Args:
        length: tokens without eos, at least 0.
        eos_id: the id of eos.

    Raises:
        ValueError: `length` is negative.

    >>> logits, history = tf.zeros([1, 3]), tf.zeros([1, 4], tf.int32)
    >>> rule = min_length(2, eos_id=0)
    >>> [bool(rule(logits, history, position)[0, 0] < 0) for position in range(4)]
    [True, True, False, False]
    """
    if length < 0:
        raise ValueError(f"length must be at least 0, received {length}. 0 allows any length.")

    def rule(logits, history, position):
        # To take one of two rows is much faster than to select each of V numbers.
        rows = tf.one_hot([eos_id, -1], logits.shape[1], on_value=BAN, off_value=0.0)
        return logits + tf.gather(rows, tf.cast(position >= length, tf.int32))

    return rule


def forced_prefix(ids: tf.Tensor, lengths: tf.Tensor) -> Rule:
    """Return a rule that gives the first tokens of each row; after them it goes on freely.

    What is given has the log-probability 0, so that scores are of what the search chose itself.

    Args:
        ids: int32 [R, P], or [1, P] for all rows. A sentence whose N beams or samples are rows has
            its prefix in each of them; see `repeat_rows`. A search with a `Select` lets go of rows,
            so that there it must be [1, P].
        lengths: int32 [R], or [1] for all rows: how many of the P are a row's prefix, 0 for none.

    Raises:
        ValueError: the shapes are others.

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
    ids = tf.pad(ids, [[0, 0], [0, 1]])  # something to take where the prefix is over
    lengths = lengths[:, tf.newaxis]

    def rule(logits, history, position):
        token = tf.gather(ids, tf.minimum(position, longest), axis=1)
        forced = tf.one_hot(token, logits.shape[1], on_value=0.0, off_value=BAN)
        return tf.where(position < lengths, forced, logits)

    return rule


def _has_token(ids, is_counted, vocab_size):
    """Return [R, V] 1 for each token among those of ids [R, L] where `is_counted`, and else 0."""
    return tf.raw_ops.DenseBincount(
        input=tf.where(is_counted, ids, vocab_size),  # which leaves out an id beyond the last
        size=vocab_size,
        weights=tf.zeros([0]),
        binary_output=True,
    )
