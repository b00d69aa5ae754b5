import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.candidates import best_continuations


# 2: one block a token; 7: a prime; 24: blocks of 12; 130: more blocks than are searched.
@pytest.mark.parametrize("vocab_size", [2, 7, 24, 130])
def test_they_are_the_first_of_all_continuations_sorted(vocab_size):
    random = np.random.default_rng(vocab_size)
    batch, beam_size = 5, 3
    log_probs = random.normal(size=[batch * beam_size, vocab_size]).astype(np.float32)
    live = random.normal(size=[batch, beam_size]).astype(np.float32)
    values, beams, tokens = best_continuations(tf.constant(log_probs), tf.constant(live), 6)

    totals = (live.reshape(-1, 1) + log_probs).reshape(batch, -1)
    order = np.argsort(-totals, axis=1)[:, :6]
    np.testing.assert_array_equal(values, np.take_along_axis(totals, order, 1))
    np.testing.assert_array_equal(beams, order // vocab_size)
    np.testing.assert_array_equal(tokens, order % vocab_size)


def test_a_block_may_hold_several_of_them():
    log_probs = np.full([2, 128], -9.0, np.float32)  # N 2, blocks of 64
    log_probs[0, [70, 71, 72]] = -1, -2, -3
    log_probs[1, 5] = -0.5
    values, beams, tokens = best_continuations(tf.constant(log_probs), tf.zeros([1, 2]), 4)
    assert values.numpy().tolist() == [[-0.5, -1, -2, -3]]
    assert beams.numpy().tolist() == [[1, 0, 0, 0]]
    assert tokens.numpy().tolist() == [[5, 70, 71, 72]]


def test_a_beam_that_is_not_alive_comes_last():
    live = tf.constant([[-50.0, -np.inf]])
    values, beams, _ = best_continuations(tf.fill([2, 4], -1.0), live, 4)
    assert values.numpy().tolist() == [[-51.0] * 4]
    assert beams.numpy().tolist() == [[0] * 4]


def test_an_unknown_vocabulary_size_is_refused():
    @tf.function(input_signature=[tf.TensorSpec([None, None])])
    def search(log_probs):
        return best_continuations(log_probs, tf.zeros([1, 2]), 4)

    with pytest.raises(ValueError, match=r"static size and at least 2, received shape \(None, No"):
        search(tf.zeros([2, 6]))


def test_a_vocabulary_of_one_is_refused():
    with pytest.raises(ValueError, match=r"static size and at least 2, received shape \(2, 1\)"):
        best_continuations(tf.zeros([2, 1]), tf.zeros([1, 2]), 4)
