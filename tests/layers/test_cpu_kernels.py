import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.cpu_kernels import (
    few_rows_logits,
    heads_matmul,
    linear,
    step_softmax,
)
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array

B, H, S = 3, 2, 7
IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
QUERIES = [(1, 64), (1, 300), (5, 32), (6, 32), (2, 81)]
KERNELS = [(20, 30), (512, 1025), (514, 1025), (513, 600)]
if not IS_TENSORFLOW:  # All sizes have the same kernel.
    del QUERIES[1:], KERNELS[1:]
TYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])


@TYPES
@pytest.mark.parametrize("batch", [1, B])
@pytest.mark.parametrize("queries, size", QUERIES)
def test_a_product_is_that_of_each_sentence_and_head(batch, queries, size, dtype):
    a, keys, weights = (
        normal(batch, H, *shape) for shape in ((queries, size), (S, size), (queries, S))
    )
    a, keys, weights = (ops.cast(x, dtype) for x in (a, keys, weights))
    scores, values = heads_matmul(a, keys, transpose_b=True), heads_matmul(weights, keys)
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
    assert heads_matmul(query, key, transpose_b=True).shape == (None, H, 1, S)


@pytest.mark.skipif(not IS_TENSORFLOW, reason="about its kernels")
def test_its_gradient_is_that_of_the_plain_heads_matmul():
    import tensorflow as tf

    query, keys = tf.constant(normal(B, H, 1, 5)), tf.constant(normal(B, H, S, 5))
    upstream = tf.constant(normal(B, H, 1, S))
    gradients = []
    for multiply in (lambda a, b: heads_matmul(a, b, transpose_b=True), plain_scores):
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
    # Some processors flush numbers below the normal range of float32 to 0.
    np.testing.assert_allclose(
        as_array(step_softmax(scores)), as_array(ops.softmax(scores)), rtol=1e-5, atol=1e-37
    )
    assert np.all(as_array(step_softmax(scores + 1e4)) <= 1)


# One tile and four, a size that four does not divide; a few rows and many.
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("size, width", KERNELS)
@pytest.mark.parametrize("dtype, unit", [("float32", 2**-23), ("bfloat16", 2**-7)])
def test_the_product_is_the_matrix_product(rows, size, width, dtype, unit):
    a, kernel = (ops.cast(x, dtype) for x in (normal(rows, size), normal(size, width)))
    product = linear(a, kernel)
    assert product.dtype == a.dtype and tuple(product.shape) == (rows, width)
    a, kernel, product = (as_array(ops.cast(x, "float32")) for x in (a, kernel, product))
    # Two units in the last place; sums of float32 are rounded at every addition.
    tolerance = {"rtol": 2 * unit, "atol": 1e-5 * size**0.5}
    np.testing.assert_allclose(product, a @ kernel, **tolerance)


@pytest.mark.parametrize("vocab_size", [7, 4096, 4099])
def test_logits_come_in_the_order_of_the_vocabulary(vocab_size):
    rows, embeddings = normal(2, 64), normal(vocab_size, 64)
    logits = few_rows_logits(ops.array(rows), ops.array(embeddings))
    np.testing.assert_allclose(as_array(logits), rows @ embeddings.T, atol=1e-4)


@pytest.mark.skipif(not IS_TENSORFLOW, reason="about its kernels")
@pytest.mark.parametrize("rows", [1, 3])
def test_the_gradient_is_that_of_the_matrix_product(rows):
    import tensorflow as tf

    a, kernel = tf.constant(normal(rows, 512)), tf.constant(normal(512, 600))
    upstream = tf.constant(normal(rows, 600))
    with tf.GradientTape() as tape:
        tape.watch([a, kernel])
        loss = tf.reduce_sum(linear(a, kernel) * upstream)
    to_rows, to_kernel = tape.gradient(loss, [a, kernel])
    np.testing.assert_allclose(to_rows, upstream @ tf.transpose(kernel), atol=1e-3)
    np.testing.assert_allclose(to_kernel, tf.transpose(a) @ upstream, atol=1e-3)
