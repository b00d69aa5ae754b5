"""Attention of the few queries that a step of a search has, in the operations that suit them."""

import keras
from keras import ops

_SMALL = 160
"""Numbers of a head's queries together, in float32: 5 beams of 32."""


def product(a, b, transpose_b=False):
    """Return the matrix product over the last two axes, for each sentence and head.

    With oneDNN, its default on processors with AVX-512, TensorFlow puts other kernels in place of
    its own, and those divide each product among the threads, which wait for each other. For the
    single query of a step of a search, for a few that are short, or for a sentence alone, its own
    are faster: with two threads several times. `BatchMatMulV3` is the same operation under the one
    name that is left alone. Of several queries it is slow in bfloat16, so a sentence alone has that
    product in float32, rounded.

    Args:
        a: float [B, H, T, X].
        b: float [B, H, X, Y] or, with `transpose_b`, [B, H, Y, X].
        transpose_b: whether to transpose `b`.

    Returns:
        float [B, H, T, Y], of `a`'s type.

    >>> tuple(product(ops.ones((2, 3, 1, 4)), ops.ones((2, 3, 5, 4)), transpose_b=True).shape)
    (2, 3, 1, 5)
    """
    dtype = _type_for_tensorflow(a, b)
    if dtype is None:
        return ops.einsum("bhtx,bhyx->bhty" if transpose_b else "bhtx,bhxy->bhty", a, b)
    outputs = tensorflow_product(ops.cast(a, dtype), ops.cast(b, dtype), transpose_b)
    return ops.cast(outputs, a.dtype)


def tensorflow_product(a, b, transpose_b=False):
    """Return a matrix product by TensorFlow's own kernel; TensorFlow must be the backend."""
    import tensorflow as tf

    return tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=a.dtype, adj_y=transpose_b)


def _type_for_tensorflow(a, b):
    """Return the type in which TensorFlow's own kernel is to multiply, or None."""
    if keras.backend.backend() != "tensorflow" or keras.backend.is_keras_tensor(a):
        return None
    queries, size, dtype = a.shape[2], b.shape[3], keras.backend.standardize_dtype(a.dtype)
    if dtype not in ("float32", "bfloat16"):
        return None  # In float16 there is no such kernel for CPUs.
    if queries == 1:
        return dtype
    if a.shape[0] == 1:
        return "float32"
    is_small = None not in (queries, size) and queries * size <= _SMALL
    return dtype if dtype == "float32" and is_small else None


def softmax(scores):
    """Return the softmax over the last axis, for the same reason in parts.

    >>> [round(float(x), 4) for x in softmax(ops.log(ops.array([1.0, 3.0])))]
    [0.25, 0.75]
    """
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    return powers / ops.sum(powers, axis=-1, keepdims=True)
