"""Faster equivalents of plain operations, for training.

Each function stands for the operations that its first line names, with the same results. The layers
choose between the two; `tests/layers/test_fast.py` compares them; `test_dropout.py` tests the
rates of dropout.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

LEVELS = 256
"""The number of rates that random bytes can tell apart."""

_PHILOX = 1
"""TensorFlow's number of the algorithm whose results depend on its key and counter alone."""
_MAX_MULTIPLIED = 1 << 16
"""Rows of a matrix up to which a product is used: an estimate from a measurement with 8,000."""


def dropout(inputs: Any, rate: float, seed: Any) -> Any:
    """Return `keras.random.dropout`, from one random byte per input, with TensorFlow.

    Keras takes four bytes and converts them to a float. So the rate is rounded to a multiple of
    1/256, at least 1/256 and at most 255/256, and the scale fits the rounded rate. Each replica of
    a `tf.distribute` strategy draws another mask.

    Args:
        inputs: float, of any shape.
        rate: The share of inputs that become 0, above 0 and below 1.
        seed: A `keras.random.SeedGenerator`.
    """
    import tensorflow as tf

    count = tf.size(inputs, tf.int64)
    # Keras has one seed for all replicas.
    replica = tf.distribute.get_replica_context()
    number = 0 if replica is None else replica.replica_id_in_sync_group
    # `tf.random` would derive key and counter from the seed by five kernels of a GPU.
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[(count + 3) // 4],
        key=tf.bitcast(tf.cast(seed.next(), tf.uint32), tf.uint64)[tf.newaxis],
        counter=tf.stack([tf.constant(0, tf.uint64), tf.cast(number, tf.uint64)]),
        alg=_PHILOX,
        dtype=tf.uint32,
    )
    values = tf.reshape(tf.reshape(tf.bitcast(words, tf.uint8), [-1])[:count], tf.shape(inputs))
    dropped = min(max(round(LEVELS * rate), 1), LEVELS - 1)
    scaled = inputs * ops.cast(LEVELS / (LEVELS - dropped), inputs.dtype)
    return ops.where(values >= dropped, scaled, ops.zeros((), inputs.dtype))


def layer_norm(inputs: Any, gamma: Any, beta: Any, epsilon: float) -> Any:
    """Return the formula of `LayerNorm.call`, with a gradient of a third fewer operations.

    Args:
        inputs: float32 [..., D].
        gamma: float32 [D].
        beta: float32 [D].
        epsilon: Added to the variance.
    """

    @ops.custom_gradient
    def of_rows(rows, gamma, beta):
        centered = rows - ops.mean(rows, axis=-1, keepdims=True)
        scale = ops.rsqrt(ops.mean(ops.square(centered), axis=-1, keepdims=True) + epsilon)
        normalized = centered * scale
        gradient = functools.partial(_layer_norm_gradient, normalized, gamma, scale)
        return normalized * gamma + beta, gradient

    outputs = of_rows(ops.reshape(inputs, (-1, gamma.shape[0])), gamma, beta)
    return ops.reshape(outputs, ops.shape(inputs))


def _layer_norm_gradient(normalized, gamma, scale, upstream):
    """Return the gradients of rows, gamma and beta."""
    product = upstream * normalized
    # The mean of each row of upstream * gamma, and of its product with the normalized row.
    weights = ops.expand_dims(gamma / gamma.shape[0], 1)
    mean, slope = ops.matmul(upstream, weights), ops.matmul(product, weights)
    to_rows = (upstream * gamma - mean - normalized * slope) * scale
    return to_rows, ops.sum(product, axis=0), ops.sum(upstream, axis=0)


def take_rows(matrix: Any, ids: Any, dtype: Any) -> Any:
    """Return `ops.take(matrix, ids, axis=0)`, with a gradient that suits the device.

    On a CPU, the gradient of each row is added to the gradient of the matrix. A GPU does this one
    by one for a frequent token, as padding is, so elsewhere the gradient is a product of matrices,
    as for every other weight. With TensorFlow, call it where there is a GPU.

    Args:
        matrix: float or int [V, D].
        ids: int [...], which rows.
        dtype: The dtype that the rows are used in, which the product is computed in.

    Returns:
        [..., D], in the dtype of `matrix`.
    """
    if not keras.backend.is_float_dtype(matrix.dtype) or matrix.shape[0] > _MAX_MULTIPLIED:
        return ops.take(matrix, ids, axis=0)
    size, matrix = matrix.shape[0], ops.convert_to_tensor(matrix)
    if keras.backend.backend() == "jax":
        return _take_on_jax()(size, dtype, matrix, ids)

    @ops.custom_gradient
    def take(matrix):
        return ops.take(matrix, ids, axis=0), lambda rows: _multiplied(size, dtype, ids, rows)

    return take(matrix)


def _multiplied(size, dtype, ids, rows):
    """Return the sum [V, D] of the rows [..., D] of each id, as a product in a dtype."""
    rows = ops.reshape(rows, (-1, rows.shape[-1]))
    one_hot = ops.one_hot(ops.reshape(ids, (-1,)), size, dtype=dtype)
    return ops.cast(ops.transpose(one_hot) @ ops.cast(rows, dtype), rows.dtype)


@functools.cache
def _take_on_jax() -> Callable[[int, Any, Any, Any], Any]:
    """Return a function of the number of rows, the dtype of the product, the matrix and the ids."""
    import jax

    def take(size, dtype, matrix, ids):
        return ops.take(matrix, ids, axis=0)

    def forward(size, dtype, matrix, ids):
        return take(size, dtype, matrix, ids), ids

    def backward(size, dtype, ids, rows):
        def added(ids, rows):
            return ops.zeros((size, rows.shape[-1]), rows.dtype).at[ids].add(rows)

        multiplied = functools.partial(_multiplied, size, dtype)
        return jax.lax.platform_dependent(ids, rows, cpu=added, default=multiplied), None

    differentiable = jax.custom_vjp(take, nondiff_argnums=(0, 1))
    differentiable.defvjp(forward, backward)
    return differentiable
