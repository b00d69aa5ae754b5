import keras
import numpy as np
import pytest

from keras_transformer.layers.layer_norm import LayerNorm
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize, run_layer_checks, value_and_gradient


def test_passes_the_layer_checks():
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


@pytest.mark.parametrize("number", [0, 1, 2], ids=["inputs", "gamma", "beta"])
def test_the_gradient_in_training_is_that_of_the_formula(number):
    x, layer = normal(2, 5, 6), LayerNorm()
    towards = keras.ops.convert_to_tensor(normal(2, 5, 6))
    layer.build(x.shape)
    randomize(layer)
    gamma, beta = layer.get_weights()

    def weighted_sum(training):
        def function(changed):
            given = [x, gamma, beta]
            given[number] = changed
            outputs, _ = layer.stateless_call(given[1:], [], given[0], training=training)
            return keras.ops.sum(outputs * towards)

        return value_and_gradient(function, [x, gamma, beta][number])

    value, gradient = weighted_sum(training=True)
    expected, expected_gradient = weighted_sum(training=False)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)
    assert np.abs(gradient).max() > 0.1


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
