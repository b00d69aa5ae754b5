"""Searches over trees: tables of the next token's probabilities after every prefix."""

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import beam_search, greedy_search, repeat_rows, take_rows


def prefix_number(prefix, vocab_size):
    """Return the number of a prefix: 1 if empty; each token multiplies it by V and adds its id."""
    result = 1
    for token in prefix:
        result = result * vocab_size + token
    return result


def make_tree(probabilities):
    """Return log-probabilities [P, V] by prefix number, from {prefix: next-token probabilities}.

    After other prefixes, all tokens are equally probable.
    """
    vocab_size = len(next(iter(probabilities.values())))
    size = 1 + max(prefix_number(prefix, vocab_size) for prefix in probabilities)
    tree = np.full([size, vocab_size], 1 / vocab_size)
    for prefix, row in probabilities.items():
        assert np.isclose(sum(row), 1.0)
        tree[prefix_number(prefix, vocab_size)] = row
    with np.errstate(divide="ignore"):
        return np.log(tree).astype(np.float32)


def random_trees(seed, batch, vocab_size, max_length):
    """Return log-probabilities [B, P, V] after all prefixes of fewer than `max_length` tokens."""
    logits = np.random.default_rng(seed).normal(
        0, 2, [batch, 2 * vocab_size**max_length, vocab_size]
    )
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return logits.astype(np.float32)


def make_step(trees):
    """Return a step whose state holds the history of each beam, one token longer at each step."""
    trees = tf.constant(trees)
    num_prefixes, vocab_size = trees.shape[1:]

    def step(ids, parents, position, state):
        state = take_rows(state, parents)
        history = tf.concat([state["history"], ids[:, tf.newaxis]], axis=1)
        tokens = history[:, 1:]  # without bos
        powers = vocab_size ** tf.range(position)[::-1]
        prefix = vocab_size**position + tf.reduce_sum(tokens * powers, axis=1)
        # Finished beams run on, to prefixes outside of the tree.
        where = tf.stack([state["sentence"], prefix % num_prefixes], axis=1)
        return tf.gather_nd(trees, where), {"sentence": state["sentence"], "history": history}

    return step


def search(trees, *, beam_size=None, max_lengths, **options):
    """Run beam search, or greedy search without a beam size, on trees [B, P, V]."""
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


def translations(result, sentence=0):
    """Return the translations of a sentence as lists of ids, without padding."""
    ids, lengths = result.ids[sentence].numpy(), result.lengths[sentence].numpy()
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]
