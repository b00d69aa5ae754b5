import functools
import math

import keras
import numpy as np
import pytest

from keras_transformer.layers import LearnedPositionEncoding, SinusoidalPositionEncoding
from tests.helpers.layer_checks import as_array, run_layer_checks


def encoding(length, d_model=6):
    return as_array(SinusoidalPositionEncoding()(np.zeros((1, length, d_model), "float32")))[0]


def learned(max_length, width=6):
    layer = LearnedPositionEncoding(max_length)
    layer.build((None, None, width))
    return layer


def test_sinusoidal_passes_the_layer_checks():
    inputs = {"inputs": np.random.normal(size=(2, 5, 6)).astype("float32")}
    run_layer_checks(SinusoidalPositionEncoding, {}, inputs, num_weights=0, num_parameters=0)


def test_learned_passes_the_layer_checks():
    run_layer_checks(
        LearnedPositionEncoding,
        {"max_length": 9},
        {"inputs": np.random.normal(size=(2, 5, 6)).astype("float32")},
        num_weights=1,
        num_parameters=9 * 6,
    )


def test_position_zero_is_sines_of_zero_and_cosines_of_zero():
    assert encoding(1)[0].tolist() == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("position", [1, 3])
def test_closed_form(position):
    # For D = 4 the wave lengths are 2 pi 10000^(0/4) = 2 pi and 2 pi 10000^(2/4) = 2 pi 100.
    fast, slow = position, position / 100
    expected = [math.sin(fast), math.cos(fast), math.sin(slow), math.cos(slow)]
    np.testing.assert_allclose(encoding(4, d_model=4)[position], expected, atol=1e-6)


def test_equals_the_papers_formula_far_beyond_any_training_length():
    position, d_model = 5_000, 16
    expected = [
        (math.cos if i % 2 else math.sin)(position / 10_000 ** ((i - i % 2) / d_model))
        for i in range(d_model)
    ]
    # The angle, up to 5,000, has a float32 error of up to 5,000 / 2^23, and e^x some of its own.
    np.testing.assert_allclose(encoding(position + 1, d_model)[-1], expected, atol=5e-3)


def test_positions_are_counted_from_an_offset():
    layer = SinusoidalPositionEncoding(offset=2)
    layer.build((None, None, 6))
    np.testing.assert_allclose(as_array(layer.encoding(7)), encoding(9)[2:], atol=1e-6)
    assert SinusoidalPositionEncoding.from_config(layer.get_config()).offset == 2
    with pytest.raises(ValueError, match="offset must be at least 0, received -1"):
        SinusoidalPositionEncoding(offset=-1)


def test_encoding_is_what_is_added():
    layer = SinusoidalPositionEncoding()
    layer.build((None, None, 6))
    assert np.array_equal(as_array(layer.encoding(9)), encoding(9))


def test_is_added_to_the_inputs():
    x = np.random.normal(size=(2, 5, 6)).astype("float32")
    received = as_array(SinusoidalPositionEncoding()(x))
    np.testing.assert_allclose(received, x + encoding(5), atol=1e-6)


def test_bfloat16_rounds_the_float32_sum_once():
    # Positions above 256 are not bfloat16 numbers: with those, neighbours would share an encoding.
    layers = SinusoidalPositionEncoding, functools.partial(LearnedPositionEncoding, 300)
    for layer in (make(dtype="mixed_bfloat16") for make in layers):
        x = keras.ops.cast(np.random.normal(size=(1, 300, 6)), "bfloat16")
        received = layer(x)
        expected = keras.ops.cast(as_array(x) + as_array(layer.encoding(300)), "bfloat16")
        assert np.array_equal(as_array(received), as_array(expected))


def test_an_odd_width_is_refused():
    with pytest.raises(
        ValueError, match=r"even last axis of at least 2, received inputs of shape \(1, 2, 5\)"
    ):
        encoding(2, d_model=5)


def test_learned_adds_a_vector_for_each_position():
    layer, x = learned(9), np.random.normal(size=(2, 5, 6)).astype("float32")
    np.testing.assert_allclose(as_array(layer(x)), x + layer.get_weights()[0][:5], atol=1e-6)


def test_learned_encoding_is_the_first_vectors():
    layer = learned(9)
    assert np.array_equal(as_array(layer.encoding(4)), layer.get_weights()[0][:4])


def test_inputs_with_more_positions_than_learned_are_refused():
    with pytest.raises(ValueError, match=r"has 4 positions, received inputs of shape \(1, 6, 6\)"):
        learned(4)(np.zeros((1, 6, 6), "float32"))
    with pytest.raises(ValueError, match=r"has 4 positions, received .* shape \(None, 6, 6\)"):
        learned(4)(keras.Input((6, 6)))


def test_positions_beyond_the_learned_ones_are_not_numbers():
    layer = learned(4)
    received = as_array(layer.encoding(6))
    assert np.array_equal(received[:4], layer.get_weights()[0])
    assert np.all(np.isnan(received[4:]))
    if keras.backend.backend() == "tensorflow":  # A length that only the graph knows.
        import tensorflow as tf

        call = tf.function(layer, input_signature=[tf.TensorSpec([None, None, 6])])
        missing = np.isnan(as_array(call(np.zeros((1, 6, 6), "float32"))))
        assert missing.all(axis=(0, 2)).tolist() == [False] * 4 + [True] * 2


def test_learned_without_room_is_refused():
    with pytest.raises(ValueError, match="max_length must be at least 1, received 0"):
        LearnedPositionEncoding(0)
