import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.layers import EncoderLayer, causal_mask, padding_mask
from keras_transformer.layers.masks import mask_bias
from keras_transformer.losses import LabelSmoothedCrossEntropy
from tests.helpers.layer_checks import as_array


def test_padding_is_id_zero():
    ids = np.array([[7, 8, 0], [0, 3, 1]])
    expected = [[[True, True, False]], [[False, True, True]]]
    assert as_array(padding_mask(ids)).tolist() == expected


def test_a_position_attends_to_itself_and_what_precedes_it():
    assert as_array(causal_mask(3)).astype(int).tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]


def test_queries_are_the_last_of_the_keys_positions():
    assert as_array(causal_mask(2, 4)).astype(int).tolist() == [[[1, 1, 1, 0], [1, 1, 1, 1]]]


@pytest.fixture(params=["float16", "bfloat16", "float64"])
def floatx(request):
    before = keras.config.floatx()
    keras.config.set_floatx(request.param)
    yield request.param
    keras.config.set_floatx(before)


@pytest.mark.parametrize("position", ["sinusoidal", "learned"])
def test_a_model_runs_whatever_keras_prefers(position, floatx):
    model = Transformer.from_size("tiny", vocab_size=50, num_layers=1, position=position)
    model.compile(loss=LabelSmoothedCrossEntropy(), optimizer="sgd")
    ids = np.full((2, 3), 5)
    assert np.isfinite(float(model.train_on_batch({"source": ids, "target": ids}, ids)))
    logits = model.predict({"source": ids, "target": ids}, verbose=0)
    assert np.isfinite(logits.astype("float32")).all()


@pytest.mark.skipif(keras.backend.backend() == "jax", reason="JAX makes float64 float32")
def test_layers_compute_in_float64():
    outputs = EncoderLayer(8, 16, 2, dtype="float64")(np.ones((1, 3, 8)))
    assert keras.backend.standardize_dtype(outputs.dtype) == "float64"


def test_a_bias_is_float32_whatever_keras_prefers(floatx):
    bias = mask_bias(np.array([False]))
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
