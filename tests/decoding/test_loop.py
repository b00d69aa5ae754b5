import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import greedy_search, repeat_rows, sample_search, take_rows

BATCH, V, LIMITS = 7, 4, [4, 1, 3, 4, 2, 4, 3]


def select_with(beams):
    """Keeps sentences in a state that has a row for each of their beams."""

    def select(state, sentences):
        rows = sentences[:, tf.newaxis] * beams + tf.range(beams, dtype=sentences.dtype)
        return take_rows(state, tf.reshape(rows, [-1]))

    return select


def sample(trees, select=None):
    """Two samples a sentence, of tables [B, V, V] of what follows a token."""
    trees = tf.constant(trees[:, :V])

    def step(ids, parents, position, state):
        return tf.gather_nd(trees, tf.stack([state, ids], axis=1)), state

    state, keys = repeat_rows(tf.range(BATCH), 2), range(BATCH)
    options = {"max_lengths": LIMITS, "keys": list(keys), "num_samples": 2}
    return sample_search(step, state, select=select, **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beams", [1, 3, "samples"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
def test_to_let_go_of_sentences_that_have_ended_changes_no_result(
    search, random_trees, compiled, beams, seed
):
    trees = random_trees(seed, BATCH, V, max(LIMITS))
    trees[:, :, -1] -= 2  # eos, lest all end at once

    def run(select):
        if beams == "samples":
            return sample(trees, select)
        beam_size = None if beams == 1 else beams
        return search(trees, beam_size=beam_size, max_lengths=LIMITS, select=select)

    expected = run(None)
    assert len(np.unique(expected.lengths)) > 2
    select = select_with(2 if beams == "samples" else beams)
    letting_go = tf.function(lambda: run(select)) if compiled else lambda: run(select)
    received = letting_go()
    np.testing.assert_array_equal(received.ids, expected.ids)
    np.testing.assert_array_equal(received.lengths, expected.lengths)
    np.testing.assert_allclose(received.scores, expected.scores, rtol=1e-5)


def test_a_quarter_is_let_go_at_a_time():
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


def test_without_a_selection_all_run_on():
    given = []

    def step(ids, parents, position, state):
        given.append(len(ids))
        return tf.one_hot(ids * 0 + 1, V), state

    greedy_search(step, (), max_lengths=[1, 3, 2])
    assert given == [3, 3, 3]


def test_of_a_batch_of_0_no_step_is_taken():
    result = greedy_search(
        lambda *given: pytest.fail("a step of nothing"),
        (),
        max_lengths=tf.zeros([0], tf.int32),
        select=take_rows,
    )
    assert result.ids.shape == (0, 1, 0)
