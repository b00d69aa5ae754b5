import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import (
    SearchOptions,
    beam_search,
    greedy_search,
    repeat_rows,
    sample_search,
    take_rows,
)
from keras_transformer.decoding.rules import no_repeat_ngram
from keras_transformer.decoding.search import SearchKeywords

BATCH, V, LIMITS = 7, 5, [4, 1, 3, 4, 2, 4, 3]
SEARCHES = {
    "greedy": (greedy_search, 1, {"rules": [no_repeat_ngram(1)]}),
    "greedy without scores": (greedy_search, 1, {"scores": False}),
    "beam": (beam_search, 3, {"beam_size": 3, "num_hypotheses": 2, "length_penalty": 1.0}),
    "samples": (sample_search, 2, {"num_samples": 2, "keys": list(range(BATCH))}),
}


def selection(rows_of_each):
    """Return a `Select` for a state with the given number of rows per sentence."""

    def select(state, sentences):
        rows = sentences[:, tf.newaxis] * rows_of_each + tf.range(rows_of_each)
        return take_rows(state, tf.reshape(rows, [-1]))

    return select


def make_step(rows_of_each, given):
    """Return a step over tables of each sentence, which appends its number of rows to `given`."""
    tables = np.random.default_rng(2).normal(0, 2, [BATCH, V, V])
    tables[:, :, 3] -= 1  # A less probable eos, so that sentences have different lengths.
    tables = tf.constant(tables, tf.float32)

    def step(ids, parents, position, state):
        given.append(ids.shape[0])
        return tf.gather_nd(tables, tf.stack([state, ids], axis=1)), take_rows(state, parents)

    return step, repeat_rows(tf.range(BATCH), rows_of_each)


@pytest.mark.parametrize("name", SEARCHES)
def test_dropping_finished_sentences_changes_no_result(name):
    search, rows_of_each, options = SEARCHES[name]

    def run(given, select, limits=LIMITS):
        step, state = make_step(rows_of_each, given)
        return search(step, state, max_lengths=limits, select=select, **options)

    all_rows, fewer_rows = [], []
    expected, select = run(all_rows, None), selection(rows_of_each)
    in_graph = tf.function(lambda limits: run([], select, limits)).get_concrete_function(
        tf.TensorSpec([None], tf.int32)
    )
    for received in (run(fewer_rows, select), in_graph(tf.constant(LIMITS))):
        np.testing.assert_array_equal(received.ids, expected.ids)
        np.testing.assert_array_equal(received.lengths, expected.lengths)
        np.testing.assert_allclose(received.scores, expected.scores, rtol=1e-5)
    assert set(all_rows) == {BATCH * rows_of_each}
    assert len(fewer_rows) == len(all_rows)
    assert fewer_rows[0] > fewer_rows[-1] and fewer_rows == sorted(fewer_rows, reverse=True)


def test_sentences_are_dropped_once_a_quarter_is_finished():
    given = []

    def step(ids, parents, position, state):
        given.append((state.numpy().tolist(), parents.numpy().tolist()))
        return tf.one_hot(ids * 0 + 1, V), state

    sentences, limits = tf.range(8), [3, 1, 8, 5, 7, 6, 2, 4]
    result = greedy_search(step, sentences, max_lengths=limits, select=take_rows)
    assert result.lengths[:, 0].numpy().tolist() == limits
    all_8, last_6 = [0, 1, 2, 3, 4, 5, 6, 7], [0, 2, 3, 4, 5, 7]
    left = [all_8, all_8, last_6, last_6, [2, 3, 4, 5], [2, 4, 5], [2, 4], [2]]
    assert given == [(rows, list(range(len(rows)))) for rows in left]


@pytest.mark.parametrize("select", [None, take_rows], ids=["all", "some"])
@pytest.mark.parametrize("batch", [0, 3])
def test_a_limit_of_0_takes_no_step(batch, select):
    result = greedy_search(
        lambda *given: pytest.fail("no step was expected"),
        tf.range(batch),
        max_lengths=tf.zeros([batch], tf.int32),
        select=select,
    )
    assert result.ids.shape == (batch, 1, 0)
    assert result.lengths.numpy().tolist() == [[0]] * batch


def test_the_keyword_arguments_of_the_searches_are_the_options():
    options = {field.name: field.type for field in dataclasses.fields(SearchOptions)}
    assert SearchKeywords.__annotations__ == options
