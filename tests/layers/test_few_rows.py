import keras
import numpy as np
import pytest
from keras import ops
from tests.helpers.layer_checks import as_array

from keras_transformer.layers.few_rows import few_rows_logits, few_rows_product


def normal(*shape):
    return np.random.default_rng(1).normal(size=shape).astype("float32")


# Of one part and of four, of a number that four does not divide, and of a few rows and many.
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("size, width", [(20, 30), (512, 1025), (514, 1025), (513, 600)])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("bfloat16", 2e-2)])
def test_the_product_is_the_matrix_product(rows, size, width, dtype, tolerance):
    a, kernel = (ops.cast(x, dtype) for x in (normal(rows, size), normal(size, width)))
    product = few_rows_product(a, kernel)
    assert product.dtype == a.dtype and tuple(product.shape) == (rows, width)
    a, kernel, product = (as_array(ops.cast(x, "float32")) for x in (a, kernel, product))
    np.testing.assert_allclose(product, a @ kernel, atol=tolerance * size**0.5)


@pytest.mark.parametrize("vocab_size", [7, 4096, 4099])
def test_logits_come_in_the_order_of_the_vocabulary(vocab_size):
    rows, embeddings = normal(2, 64), normal(vocab_size, 64)
    logits = few_rows_logits(ops.array(rows), ops.array(embeddings))
    np.testing.assert_allclose(as_array(logits), rows @ embeddings.T, atol=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="about its kernels")
@pytest.mark.parametrize("rows", [1, 3])
def test_the_gradient_is_that_of_the_matrix_product(rows):
    import tensorflow as tf

    a, kernel = tf.constant(normal(rows, 512)), tf.constant(normal(512, 600))
    upstream = tf.constant(normal(rows, 600))
    with tf.GradientTape() as tape:
        tape.watch([a, kernel])
        loss = tf.reduce_sum(few_rows_product(a, kernel) * upstream)
    to_rows, to_kernel = tape.gradient(loss, [a, kernel])
    np.testing.assert_allclose(to_rows, upstream @ tf.transpose(kernel), atol=1e-3)
    np.testing.assert_allclose(to_kernel, tf.transpose(a) @ upstream, atol=1e-3)
