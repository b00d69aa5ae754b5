"""The fast equivalents of plain operations, compared with these operations."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import losses
from keras_transformer.layers import TokenEmbedding
from keras_transformer.layers.fast import take_rows
from keras_transformer.layers.residual import LayerNorm
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize, value_and_gradient

only_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="needs KERAS_BACKEND=jax")
IDS = np.array([[1, 1, 0], [4, 2, 1]], "int32")
USES = [1, 3, 1, 0, 1]  # Of each row.


@pytest.mark.parametrize("number", [0, 1, 2], ids=["inputs", "gamma", "beta"])
def test_layer_norm_and_its_gradient_are_those_of_the_formula(number):
    x, layer = normal(2, 5, 6), LayerNorm()
    towards = ops.convert_to_tensor(normal(2, 5, 6))
    layer.build(x.shape)
    randomize(layer)
    gamma, beta = layer.get_weights()

    def weighted_sum(training):
        def function(changed):
            given = [x, gamma, beta]
            given[number] = changed
            outputs, _ = layer.stateless_call(given[1:], [], given[0], training=training)
            return ops.sum(outputs * towards)

        return value_and_gradient(function, [x, gamma, beta][number])

    value, gradient = weighted_sum(training=True)
    expected, expected_gradient = weighted_sum(training=False)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)
    assert np.abs(gradient).max() > 0.1


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="others take the formula")
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_cross_entropy_and_its_gradient_are_those_of_the_formula(epsilon):
    labels, logits = ops.array([[3, 0, 6], [1, 1, 2]]), 3 * normal(2, 3, 7)
    towards = ops.array(normal(2, 3))

    def weighted_sum(cross_entropy):
        return value_and_gradient(
            lambda x: ops.sum(cross_entropy(labels, x, epsilon) * towards), logits
        )

    value, gradient = weighted_sum(losses.smoothed_cross_entropy)
    expected, expected_gradient = weighted_sum(losses.plain_cross_entropy)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="needs TensorFlow")
def test_the_product_for_gpus_is_the_gradient_of_taking_rows():
    towards, matrix = ops.array(normal(2, 3, 4)), normal(5, 4)
    (value, gradient), (expected, expected_gradient) = (
        value_and_gradient(lambda x, take=take: ops.sum(take(x) * towards), matrix)
        for take in (
            lambda x: take_rows(x, ops.array(IDS), "float32"),
            lambda x: ops.take(x, IDS, axis=0),
        )
    )
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-6)


@only_jax
def test_takes_the_rows_of_floats_and_integers():
    matrix = np.arange(10).reshape(5, 2)
    for dtype in ("float32", "int8"):
        rows = take_rows(ops.array(matrix, dtype), ops.array(IDS), "float32")
        assert keras.backend.standardize_dtype(rows.dtype) == dtype
        np.testing.assert_array_equal(as_array(rows), matrix[IDS])


@only_jax
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("device", ["cpu", "default"])
def test_the_gradient_counts_the_uses_of_a_row_on_each_device(monkeypatch, device, dtype):
    import jax

    chosen = []

    def choose(*arguments, **branches):
        chosen.append(branches[device])
        return branches[device](*arguments)

    monkeypatch.setattr(jax.lax, "platform_dependent", choose)

    def total(matrix):
        return ops.sum(take_rows(matrix, IDS, dtype) * ops.array([1.0, 3.0]))

    gradient = jax.jit(jax.grad(total))(ops.zeros((5, 2)))
    assert len(chosen) == 1 and gradient.dtype == "float32"
    np.testing.assert_array_equal(gradient, np.outer(USES, [1, 3]))
    computed = str(jax.make_jaxpr(chosen[0])(ops.reshape(IDS, (-1,)), ops.ones((6, 2))))
    # A CPU adds row by row, any other device multiplies.
    assert ("scatter" in computed, "dot_general" in computed) == (device == "cpu", device != "cpu")


@only_jax
def test_ids_may_be_arguments_of_every_transformation_of_jax():
    import jax

    def total(matrix, ids):
        return ops.sum(take_rows(matrix, ids, "float32"))

    def scanned(matrix, ids):
        return jax.lax.scan(lambda sum, row: (sum + total(matrix, row), None), 0.0, ids)[0]

    def chosen(matrix, ids):
        return jax.lax.cond(ids[0, 0] == 1, total, lambda *_: 0.0, matrix, ids)

    for function in (jax.jit(total), jax.checkpoint(total), scanned, chosen):
        gradient = jax.grad(function)(ops.zeros((5, 2)), ops.array(IDS))
        np.testing.assert_array_equal(gradient, np.outer(USES, [1, 1]))


@only_jax
def test_embeddings_may_be_rematerialized():
    with keras.RematScope(mode="full"):
        layer = TokenEmbedding(5, 2)
        layer.build()

    def total(weights):
        return ops.sum(layer.stateless_call(weights, [], ops.array(IDS))[0])

    import jax

    (gradient,) = jax.grad(total)([variable.value for variable in layer.trainable_variables])
    np.testing.assert_allclose(gradient, np.outer(USES, [2**0.5] * 2), rtol=1e-6)
