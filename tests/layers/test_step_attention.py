import keras
import numpy as np
import pytest
from keras import ops
from tests.helpers.layer_checks import as_array

from keras_transformer.layers.step_attention import product, softmax

B, H, S = 3, 2, 7
TYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])


def normal(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


@TYPES
@pytest.mark.parametrize("batch", [1, B])
@pytest.mark.parametrize("queries, size", [(1, 64), (1, 300), (5, 32), (6, 32), (2, 81)])
def test_a_product_is_that_of_each_sentence_and_head(batch, queries, size, dtype):
    a, keys, weights = (
        normal(batch, H, *shape) for shape in ((queries, size), (S, size), (queries, S))
    )
    a, keys, weights = (ops.cast(x, dtype) for x in (a, keys, weights))
    scores, values = product(a, keys, transpose_b=True), product(weights, keys)
    assert scores.dtype == a.dtype and values.dtype == a.dtype
    a, keys, weights = (as_array(ops.cast(x, "float32")) for x in (a, keys, weights))
    # The values are rounded as their type says, and may be added up in it.
    tolerance = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[dtype]
    for b, h in np.ndindex(batch, H):
        expected = a[b, h] @ keys[b, h].T
        received = as_array(ops.cast(scores, "float32"))[b, h]
        np.testing.assert_allclose(received, expected, atol=tolerance * size**0.5)
        received = as_array(ops.cast(values, "float32"))[b, h]
        np.testing.assert_allclose(received, weights[b, h] @ keys[b, h], atol=tolerance * S**0.5)


def test_it_is_symbolic_too():
    query, key = keras.Input((H, 1, 5)), keras.Input((H, S, 5))
    assert product(query, key, transpose_b=True).shape == (None, H, 1, S)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="about its kernels")
def test_its_gradient_is_that_of_the_plain_product():
    import tensorflow as tf

    query, keys = tf.constant(normal(B, H, 1, 5)), tf.constant(normal(B, H, S, 5))
    upstream = tf.constant(normal(B, H, 1, S))
    gradients = []
    for multiply in (lambda a, b: product(a, b, transpose_b=True), plain_scores):
        with tf.GradientTape() as tape:
            tape.watch([query, keys])
            loss = tf.reduce_sum(multiply(query, keys) * upstream)
        gradients.append(tape.gradient(loss, [query, keys]))
    for received, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(received, expected, atol=1e-5)


def plain_scores(query, keys):
    return ops.einsum("bhtk,bhsk->bhts", query, keys)


def test_a_softmax_in_parts_is_the_softmax():
    scores = ops.convert_to_tensor(30 * normal(B, H, 2, S))
    np.testing.assert_allclose(as_array(softmax(scores)), as_array(ops.softmax(scores)), rtol=1e-5)
    assert np.all(as_array(softmax(scores + 1e4)) <= 1)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="about TensorFlow's kernels")
@pytest.mark.parametrize(
    "batch, queries, size, dtype, operation, type_within",
    [
        (None, 1, 300, "float32", "BatchMatMulV3", "float32"),
        (None, 1, 300, "bfloat16", "BatchMatMulV3", "bfloat16"),
        (None, 1, 300, "float16", "BatchMatMulV2", "float16"),
        (None, 5, 32, "float32", "BatchMatMulV3", "float32"),
        (None, 6, 32, "float32", "BatchMatMulV2", "float32"),
        (None, 4, 32, "bfloat16", "BatchMatMulV2", "bfloat16"),
        (None, None, 32, "float32", "BatchMatMulV2", "float32"),
        (1, None, 32, "float32", "BatchMatMulV3", "float32"),
        (1, None, 32, "bfloat16", "BatchMatMulV3", "float32"),
        (1, 1, 32, "bfloat16", "BatchMatMulV3", "bfloat16"),
        (1, 4, 32, "float16", "BatchMatMulV2", "float16"),
    ],
)
def test_a_step_of_a_search_keeps_to_kernels_that_do_not_wait(
    batch, queries, size, dtype, operation, type_within
):
    import tensorflow as tf

    @tf.function(
        input_signature=[
            tf.TensorSpec([batch, H, queries, size], dtype),
            tf.TensorSpec([batch, H, None, size], dtype),
        ],
        autograph=False,
    )
    def scores(query, key):
        return product(query, key, transpose_b=True)

    products = [
        (found.type, found.outputs[0].dtype.name)
        for found in scores.get_concrete_function().graph.get_operations()
        if "MatMul" in found.type
    ]
    assert products == [(operation, type_within)]
