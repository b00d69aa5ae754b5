"""Kernels for training on GPUs and TPUs, with JAX."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

_MAX_MULTIPLIED = 1 << 16
"""Rows of a matrix up to which a product is used: an estimate from a measurement with 8,000."""


def take_rows(matrix: Any, ids: Any, dtype: Any) -> Any:
    """Return rows of a matrix, with a gradient that suits the device.

    On a CPU, the gradient of each row is added to that of the matrix. A GPU does this one by one
    for a frequent token, as padding is. With JAX, elsewhere than on CPUs, the gradient is a product
    of matrices, as for every other weight.

    Args:
        matrix: float or int [V, D].
        ids: int [...], which rows.
        dtype: The dtype that the rows are used in, which the product is computed in.

    Returns:
        [..., D], in the dtype of `matrix`.

    >>> rows = take_rows(ops.array([[1.0, 2.0], [3.0, 4.0]]), ops.array([1, 0, 1]), "float32")
    >>> ops.convert_to_numpy(rows).tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    is_float = keras.backend.is_float_dtype(matrix.dtype)
    if keras.backend.backend() != "jax" or not is_float or matrix.shape[0] > _MAX_MULTIPLIED:
        return ops.take(matrix, ids, axis=0)
    return _take_on_jax()(matrix.shape[0], dtype, ops.convert_to_tensor(matrix), ids)


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

        def multiplied(ids, rows):
            one_hot = ops.one_hot(ids, size, dtype=dtype)
            return ops.cast(ops.transpose(one_hot) @ ops.cast(rows, dtype), rows.dtype)

        flat = ops.reshape(ids, (-1,)), ops.reshape(rows, (-1, rows.shape[-1]))
        return jax.lax.platform_dependent(*flat, cpu=added, default=multiplied), None

    differentiable = jax.custom_vjp(take, nondiff_argnums=(0, 1))
    differentiable.defvjp(forward, backward)
    return differentiable
