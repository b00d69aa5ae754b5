import keras
import numpy as np
import pytest

from keras_transformer.layers import EncoderLayer, causal_mask, padding_mask
from keras_transformer.layers.masks import mask_bias
from tests.helpers.layer_checks import as_array


def test_padding_is_id_zero():
    ids = np.array([[7, 8, 0], [0, 3, 1]])
    expected = [[[True, True, False]], [[False, True, True]]]
    assert as_array(padding_mask(ids)).tolist() == expected


def test_a_position_attends_to_itself_and_what_precedes_it():
    assert as_array(causal_mask(3)).astype(int).tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_queries_are_the_last_of_the_keys_positions():
    assert as_array(causal_mask(2, 4)).astype(int).tolist() == [[[1, 1, 1, 0], [1, 1, 1, 1]]]


def test_a_bias_is_float32_whatever_keras_prefers():
    before = keras.config.floatx()
    keras.config.set_floatx("float16")
    try:
        bias = mask_bias(np.array([False]))
    finally:
        keras.config.set_floatx(before)
    assert keras.backend.standardize_dtype(bias.dtype) == "float32"
    assert as_array(bias).tolist() == [-1e9]


def test_a_bias_leaves_nothing_of_what_the_mask_hides_and_all_of_the_rest():
    scores = np.array([[3.0, -700.0, 900.0]], "float32")
    biased = scores + as_array(mask_bias(np.array([[True, True, False]])))
    assert biased[0, :2].tolist() == scores[0, :2].tolist()
    assert np.exp(biased[0, 2] - biased.max()) == 0


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_an_implicit_mask_survives_the_cast_of_the_inputs(policy):
    inputs = np.ones((2, 4, 6), "float32")
    inputs[:, 3:] = 0
    masked = keras.layers.Masking(dtype="float32")(inputs)
    layer = EncoderLayer(6, 8, 2, dtype=policy)
    for _ in range(2):
        _, weights = layer(masked, return_attention_scores=True)
        np.testing.assert_allclose(as_array(weights)[:, :, 0], [[[1 / 3] * 3 + [0]] * 2] * 2)
