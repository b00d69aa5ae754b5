"""Searches over trees: tables of the next token's probabilities after every prefix."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import beam_search, greedy_search, repeat_rows, take_rows


def number(prefix, vocab_size):
    """A prefix as a number: 1 if empty; another token multiplies it by V and adds the id."""
    result = 1
    for token in prefix:
        result = result * vocab_size + token
    return result


def make_tree(probabilities):
    """Log-probabilities [P, V] by prefix number, from {prefix: probabilities of the next token}.

    After prefixes that are left out all tokens are equally probable.
    """
    vocab_size = len(next(iter(probabilities.values())))
    size = 1 + max(number(prefix, vocab_size) for prefix in probabilities)
    tree = np.full([size, vocab_size], 1 / vocab_size)
    for prefix, row in probabilities.items():
        assert np.isclose(sum(row), 1.0)
        tree[number(prefix, vocab_size)] = row
    with np.errstate(divide="ignore"):
        return np.log(tree).astype(np.float32)


def make_random_trees(seed, batch, vocab_size, max_length):
    """Log-probabilities [B, P, V] after every prefix of fewer than `max_length` tokens."""
    logits = np.random.default_rng(seed).normal(
        0, 2, [batch, 2 * vocab_size**max_length, vocab_size]
    )
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return logits.astype(np.float32)


def make_step(trees):
    """A step that knows a beam's history from its state alone, which grows by a token a step."""
    trees = tf.constant(trees)
    num_prefixes, vocab_size = trees.shape[1:]

    def step(ids, parents, position, state):
        state = take_rows(state, parents)
        history = tf.concat([state["history"], ids[:, tf.newaxis]], axis=1)
        tokens = history[:, 1:]  # without bos
        powers = vocab_size ** tf.range(position)[::-1]
        prefix = vocab_size**position + tf.reduce_sum(tokens * powers, axis=1)
        # Beams that have ended may run on to prefixes that no tree has.
        where = tf.stack([state["sentence"], prefix % num_prefixes], axis=1)
        return tf.gather_nd(trees, where), {"sentence": state["sentence"], "history": history}

    return step


def run(trees, *, beam_size=None, max_lengths, **options):
    """Greedy search, or beam search if there is a beam size, of the trees [B, P, V] of a batch."""
    state = {"sentence": tf.range(len(trees)), "history": tf.zeros([len(trees), 0], tf.int32)}
    if beam_size is None:
        return greedy_search(make_step(trees), state, max_lengths=max_lengths, **options)
    return beam_search(
        make_step(trees),
        repeat_rows(state, beam_size),
        max_lengths=max_lengths,
        beam_size=beam_size,
        **options,
    )


@pytest.fixture
def tree():
    return make_tree


@pytest.fixture
def random_trees():
    return make_random_trees


@pytest.fixture
def search():
    return run


@pytest.fixture
def prefix_number():
    return number


@pytest.fixture
def translations():
    """A sentence's translations as lists of ids, without padding."""

    def unpad(result, sentence=0):
        ids, lengths = result.ids[sentence].numpy(), result.lengths[sentence].numpy()
        return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]

    return unpad
