import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.scoring import length_penalty


def test_the_penalty_of_one_token_is_1():
    assert length_penalty(1, alpha=0.6).numpy() == 1.0


def test_alpha_is_the_exponent_of_the_length():
    np.testing.assert_allclose(length_penalty([[1, 7, 19]], alpha=0.5), [[1, 2**0.5, 2]])
    np.testing.assert_allclose(length_penalty([1, 7, 19], alpha=1.0), [1, 2, 4])


def test_alpha_of_0_is_no_penalty():
    np.testing.assert_array_equal(length_penalty([1, 50], alpha=0.0), [1, 1])


def test_a_penalty_depends_only_on_its_length():
    lengths = tf.range(1, 80)
    together = length_penalty(lengths, alpha=0.6)
    alone = [length_penalty(length, alpha=0.6) for length in lengths]
    np.testing.assert_array_equal(together, alone)
    in_graph = tf.function(lambda lengths: length_penalty(lengths, alpha=0.6))(lengths)
    np.testing.assert_array_equal(together, in_graph)


def test_a_negative_alpha_is_rejected():
    with pytest.raises(ValueError, match="length_penalty must be at least 0, received -0.5"):
        length_penalty(1, alpha=-0.5)
