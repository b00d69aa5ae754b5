"""Products of the few rows that a step of a search for a single sentence has."""

import functools

import keras
from keras import ops

from keras_transformer.layers.step_attention import tensorflow_product

_FEW = 8
"""The most rows that are few: a beam."""
_PART = 2**17
"""Numbers of a part of a kernel: half of what a thread multiplies alone."""
_MOST_PARTS = 4
"""Of a kernel whose parts' products are added up."""


def few_rows_product(rows, kernel):
    """Return rows @ kernel, which takes less time where the rows are known to be few.

    oneDNN has a thread multiply alone what fits a core's cache, and wakes others for what does not,
    which takes longer than to multiply a row. So a single row is multiplied in parts, of which
    TensorFlow computes as many at a time as it has threads, and several rows are multiplied by
    TensorFlow's own kernel, as in `step_attention`.

    Args:
        rows: float [R, D]; see `are_few`.
        kernel: float [D, U], of the same type.

    Returns:
        float [R, U].

    >>> tuple(few_rows_product(ops.ones((1, 512)), ops.ones((512, 600))).shape)
    (1, 600)
    """
    if not are_few(rows):
        return ops.matmul(rows, kernel)
    if rows.shape[0] > 1:
        return tensorflow_product(rows, kernel)
    size, width = kernel.shape
    parts = min(size * width // _PART, _MOST_PARTS)
    if parts < 2 or size % parts:
        return ops.matmul(rows, kernel)
    # Rows of a kernel lie in succession, so that some of them need not be copied.
    pairs = zip(ops.split(rows, parts, axis=1), ops.split(kernel, parts), strict=True)
    return functools.reduce(ops.add, (ops.matmul(*pair) for pair in pairs))


def few_rows_logits(rows, embeddings):
    """Return the logits of few rows, in parts for the reason given in `few_rows_product`.

    Where there are many rows, to transpose the embeddings once for all steps takes less time.

    Args:
        rows: float [R, D].
        embeddings: float [V, D], of the same type.

    Returns:
        float [R, V].

    >>> tuple(few_rows_logits(ops.ones((1, 64)), ops.ones((5000, 64))).shape)
    (1, 5000)
    """
    size = max(_PART // embeddings.shape[1], 1)
    parts = [embeddings[start : start + size] for start in range(0, embeddings.shape[0], size)]
    return ops.concatenate([ops.matmul(rows, ops.transpose(part)) for part in parts], axis=1)


def are_few(rows):
    """Return whether R of rows [R, D] is static and at most 8, the type float32, and the backend
    TensorFlow.
    """
    if keras.backend.backend() != "tensorflow" or keras.backend.is_keras_tensor(rows):
        return False
    is_float32 = keras.backend.standardize_dtype(rows.dtype) == "float32"
    return is_float32 and rows.shape[0] is not None and 0 < rows.shape[0] <= _FEW
