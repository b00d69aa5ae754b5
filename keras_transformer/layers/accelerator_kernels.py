"""What GPUs and TPUs compute in another way than CPUs, with JAX."""

from typing import Any

import keras
from keras import ops


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
    if keras.backend.backend() != "jax" or keras.backend.is_int_dtype(matrix.dtype):
        return ops.take(matrix, ids, axis=0)
    import jax

    size, kept = matrix.shape[0], matrix.dtype

    def added(ids, rows):
        zeros = ops.zeros((size, rows.shape[-1]), rows.dtype)
        return zeros.at[ids].add(rows)

    def multiplied(ids, rows):
        rows = ops.cast(rows, dtype)
        return ops.cast(ops.matmul(ops.transpose(ops.one_hot(ids, size, dtype=dtype)), rows), kept)

    @ops.custom_gradient
    def take(matrix):
        def gradient(*args, upstream=None):
            rows = args[0] if upstream is None else upstream
            rows = ops.reshape(rows, (-1, rows.shape[-1]))
            flat = ops.reshape(ids, (-1,))
            return jax.lax.platform_dependent(flat, rows, cpu=added, default=multiplied)

        return ops.take(matrix, ids, axis=0), gradient

    return take(matrix)
