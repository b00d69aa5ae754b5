import keras
import numpy as np
import pytest

from keras_transformer.layers.residual import LayerNorm, Residual
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize, run_layer_checks


def normalized(x, scale, shift):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 1e-6) * scale + shift


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_passes_the_layer_checks(norm):
    run_layer_checks(
        Residual,
        {"dropout": 0.3, "norm": norm},
        {
            name: np.random.normal(size=(2, 5, 6)).astype("float32")
            for name in ("inputs", "outputs")
        },
        num_weights=2,
        num_parameters=6 + 6,
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_normalizes_after_the_sum_or_before_the_sub_layer(norm):
    residual = Residual(norm=norm)
    residual.build((None, None, 6))
    randomize(residual)
    scale, shift = residual.get_weights()
    x = np.random.normal(size=(2, 5, 6)).astype("float32")
    received = as_array(residual(x, as_array(residual.prepare(x)) ** 2))
    if norm == "post":
        expected = normalized(x + x**2, scale, shift)
    else:
        expected = x + normalized(x, scale, shift) ** 2
    np.testing.assert_allclose(received, expected, atol=1e-5)


def test_dropout_spares_the_residual_connection():
    residual = Residual(dropout=0.5, norm="pre")
    x, outputs = np.full((1, 64, 2), 7.0), np.ones((1, 64, 2))
    assert set(as_array(residual(x, outputs, training=True)).ravel()) == {7.0, 9.0}


def test_another_norm_is_refused():
    with pytest.raises(ValueError, match="norm must be 'post' or 'pre', received 'middle'"):
        Residual(norm="middle")


def test_the_normalization_passes_the_layer_checks():
    run_layer_checks(
        LayerNorm, {}, {"inputs": normal(2, 5, 6)}, num_weights=2, num_parameters=2 * 6
    )


def test_closed_form():
    # Mean 3 and variance 8 / 3: (x - 3) / 1.63299.
    received = as_array(LayerNorm()(np.array([[1.0, 3.0, 5.0]], "float32")))
    np.testing.assert_allclose(received, [[-1.2247448, 0.0, 1.2247448]], atol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_equals_the_layer_of_keras(scale):
    x, ours = scale * (7 + normal(2, 5, 6)), LayerNorm()
    ours.build(x.shape)
    randomize(ours)
    theirs = keras.layers.LayerNormalization(epsilon=1e-6)
    theirs.build(x.shape)
    theirs.set_weights(ours.get_weights())
    np.testing.assert_allclose(as_array(ours(x)), as_array(theirs(x)), atol=1e-3)


def test_computes_in_float32_and_returns_the_compute_type():
    # In bfloat16, which knows 8 bits, 256 and 257 would be the same number.
    x = np.array([[256.0, 258.0]], "float32")
    received = LayerNorm(dtype="mixed_bfloat16")(keras.ops.cast(x, "bfloat16"))
    assert "bfloat16" in str(received.dtype)
    np.testing.assert_allclose(as_array(received), [[-1.0, 1.0]], atol=1e-2)


def test_its_weights_are_not_rounded_to_the_compute_type():
    layer = LayerNorm(dtype="mixed_bfloat16")
    layer.build((None, 2))
    # In bfloat16 1.003 is 1, and the first output would be 0.
    layer.set_weights([np.full(2, 1.003), np.ones(2)])
    received = as_array(layer(keras.ops.cast(np.array([[256.0, 258.0]]), "bfloat16")))
    np.testing.assert_allclose(received, [[-0.003, 2.003]], rtol=2**-8)


@pytest.mark.parametrize("training", [False, True])
def test_integers_are_normalized_too(training):
    received = as_array(LayerNorm()(np.array([[1, 3, 5]]), training=training))
    np.testing.assert_allclose(received, [[-1.2247448, 0.0, 1.2247448]], atol=1e-5)
