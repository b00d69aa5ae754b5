"""Kernels for incremental decoding on CPUs, and the choice between them.

The layers call the functions of this module like the Keras operations that they stand for. Every
choice is made here, from the static shapes of a TensorFlow graph:

- a step of the search has one query, or a few short ones, per sentence and head;
- a single sentence has a static batch size of 1, and its step a few static rows;
- anything else, such as training, other backends and symbolic inputs, uses `keras.ops`.

The reason is oneDNN, TensorFlow's default on CPUs with AVX-512. It divides every product among all
threads, however small, and waking them takes longer than a step's products do. Sizes are constants
because a graph may be served on another machine than the one that writes it.
"""

import functools
from typing import Any

import keras
from keras import ops

_SMALL = 160
"""Elements of one head's queries, up to which TensorFlow's own kernel wins: 5 beams of 32."""
_FEW_ROWS = 8
"""Largest number of static rows that count as few: the beams of one sentence."""
_TILE = 2**17
"""Elements of a weight tile: 512 KiB of float32, half of the 1 MiB of L2 cache up to which oneDNN
multiplies in one thread."""
_MAX_SUMMED_TILES = 4
"""Largest number of tiles whose products are added up."""


def linear(inputs: Any, kernel: Any, bias: Any = None) -> Any:
    """Return inputs @ kernel + bias over the last axis.

    The leading axes are flattened, so that a batch of sentences is one matrix product, forward and
    backward, rather than one per sentence.

    Args:
        inputs: float [..., D].
        kernel: float [D, U].
        bias: float [U], or None.

    Returns:
        [..., U], in the inputs' dtype.

    >>> linear(ops.ones((2, 3, 4)), ops.ones((4, 5))).shape[2]
    5
    """
    shape, kernel = ops.shape(inputs), ops.cast(kernel, inputs.dtype)
    is_flat = len(shape) == 2
    rows = inputs if is_flat else ops.reshape(inputs, (-1, shape[-1]))
    outputs = _rows_matmul(rows, kernel)
    if not is_flat:
        outputs = ops.reshape(outputs, (*shape[:-1], kernel.shape[1]))
    return outputs if bias is None else ops.add(outputs, ops.cast(bias, inputs.dtype))


def few_rows_logits(rows: Any, embeddings: Any) -> Any:
    """Return rows @ embeddings^T for a few rows, one tile of the vocabulary at a time.

    TensorFlow computes as many tiles at a time as it has threads, and the embeddings need not be
    transposed first, which would take longer than the product.

    Args:
        rows: float [R, D].
        embeddings: float [V, D], of the same dtype.

    Returns:
        float [R, V].

    >>> tuple(few_rows_logits(ops.ones((1, 64)), ops.ones((5000, 64))).shape)
    (1, 5000)
    """
    size = max(_TILE // embeddings.shape[1], 1)
    tiles = [embeddings[start : start + size] for start in range(0, embeddings.shape[0], size)]
    return ops.concatenate([ops.matmul(rows, ops.transpose(tile)) for tile in tiles], axis=1)


def heads_matmul(a: Any, b: Any, transpose_b: bool = False) -> Any:
    """Return the matrix product over the last two axes, for each sentence and head.

    Args:
        a: float [B, H, T, X].
        b: float [B, H, X, Y] or, with `transpose_b`, [B, H, Y, X].
        transpose_b: Whether to transpose `b`.

    Returns:
        float [B, H, T, Y], in the dtype of `a`.

    >>> tuple(heads_matmul(ops.ones((2, 3, 1, 4)), ops.ones((2, 3, 5, 4)), True).shape)
    (2, 3, 1, 5)
    """
    dtype = _native_matmul_dtype(a, b)
    if dtype is None:
        return ops.einsum("bhtx,bhyx->bhty" if transpose_b else "bhtx,bhxy->bhty", a, b)
    outputs = _native_matmul(ops.cast(a, dtype), ops.cast(b, dtype), transpose_b)
    return ops.cast(outputs, a.dtype)


def softmax(scores: Any) -> Any:
    """Return the softmax of scores [B, H, T, S] over the keys.

    >>> ops.convert_to_numpy(softmax(ops.zeros((1, 1, 1, 2)))).tolist()
    [[[[0.5, 0.5]]]]
    """
    if scores.shape[-1] == 1:  # Keras warns about a softmax over a single key.
        return ops.ones_like(scores)
    return step_softmax(scores) if scores.shape[0] == 1 else ops.softmax(scores)


def step_softmax(scores: Any) -> Any:
    """Return the softmax over the last axis, in operations that oneDNN has no kernel for.

    >>> [round(float(x), 4) for x in step_softmax(ops.log(ops.array([1.0, 3.0])))]
    [0.25, 0.75]
    """
    powers = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
    return powers / ops.sum(powers, axis=-1, keepdims=True)


def split_heads(inputs: Any, num_heads: int, length: Any = None) -> Any:
    """Return the heads of a projection.

    Args:
        inputs: float [B, T, H * K] or, with `length`, [B * T, H * K].
        num_heads: H.
        length: T, the number of queries per sentence in a step of a search.

    Returns:
        float [B, H, T, K].

    >>> tuple(split_heads(ops.ones((2, 5, 12)), num_heads=3).shape)
    (2, 3, 5, 4)
    """
    size = inputs.shape[-1] // num_heads
    if isinstance(length, int) and length == 1:  # Nothing needs to move.
        return ops.reshape(inputs, (-1, num_heads, 1, size))
    if length is not None:
        inputs = ops.reshape(inputs, (-1, length, inputs.shape[-1]))
    if length is not None or inputs.shape[0] == 1:
        # Copying a few short heads takes less time than transposing them.
        return ops.stack(ops.split(inputs, num_heads, axis=-1), axis=1)
    heads = ops.reshape(inputs, (_batch(inputs), ops.shape(inputs)[1], num_heads, size))
    return ops.transpose(heads, (0, 2, 1, 3))


def join_heads(heads: Any) -> Any:
    """Return the heads [B, H, T, K] side by side, [B, T, H * K].

    >>> tuple(join_heads(ops.ones((2, 3, 5, 4))).shape)
    (2, 5, 12)
    """
    num_heads = heads.shape[1]
    if heads.shape[0] == 1:
        return _copy_heads(heads)
    length, size = ops.shape(heads)[2], num_heads * heads.shape[-1]
    return ops.reshape(ops.transpose(heads, (0, 2, 1, 3)), (_batch(heads), length, size))


def _batch(inputs):
    # Of no elements, -1 could be any number.
    return -1 if inputs.shape[0] is None else inputs.shape[0]


def join_step_heads(heads: Any) -> Any:
    """Return the heads [B, H, T, K] of a step as rows [B * T, H * K].

    >>> tuple(join_step_heads(ops.ones((2, 3, 5, 4))).shape)
    (10, 12)
    """
    size = heads.shape[1] * heads.shape[3]
    return ops.reshape(heads if heads.shape[2] == 1 else _copy_heads(heads), (-1, size))


def step_rows(inputs: Any, length: int) -> Any:
    """Return the rows of a step in the shape that `flatten_rows` leaves as it is, if that pays.

    Args:
        inputs: float [B * T, D].
        length: T, the number of queries per sentence.

    Returns:
        [B * T, D], or [1, B * T, D] for beams and for a single sentence.

    >>> tuple(step_rows(ops.ones((6, 4)), length=3).shape)
    (1, 6, 4)
    """
    return inputs if length == 1 and not _are_few(inputs) else ops.expand_dims(inputs, 0)


def flatten_rows(inputs: Any) -> Any:
    """Return inputs [..., D] as rows [R, D], except for [1, R, D].

    TensorFlow fuses a flat product, its bias and its relu into one operation. Preparing that
    operation takes longer than multiplying a few rows, and in bfloat16 it rearranges the kernel
    each time, so a single sentence and the beams of a step keep three axes.

    >>> [tuple(flatten_rows(ops.ones((batch, 3, 4))).shape) for batch in (2, 1)]
    [(6, 4), (1, 3, 4)]
    """
    if len(inputs.shape) == 2 or inputs.shape[0] == 1:
        return inputs
    return ops.reshape(inputs, (-1, inputs.shape[-1]))


def _rows_matmul(rows, kernel):
    """Return rows [R, D] @ kernel [D, U]."""
    if not _are_few(rows):
        return ops.matmul(rows, kernel)
    if rows.shape[0] > 1:
        return _native_matmul(rows, kernel)
    size, width = kernel.shape
    tiles = min(size * width // _TILE, _MAX_SUMMED_TILES)
    if tiles < 2 or size % tiles:
        return ops.matmul(rows, kernel)
    # The rows of a kernel are contiguous, so its tiles need no copy.
    pairs = zip(ops.split(rows, tiles, axis=1), ops.split(kernel, tiles), strict=True)
    return functools.reduce(ops.add, (ops.matmul(*pair) for pair in pairs))


def _are_few(rows):
    """Return whether R of rows [R, D] is static and small, in float32 on TensorFlow."""
    if not _is_tensorflow(rows):
        return False
    is_float32 = keras.backend.standardize_dtype(rows.dtype) == "float32"
    return is_float32 and rows.shape[0] is not None and 0 < rows.shape[0] <= _FEW_ROWS


def _native_matmul_dtype(a, b):
    """Return the dtype in which TensorFlow's own kernel should multiply heads, or None."""
    if not _is_tensorflow(a):
        return None
    queries, size, dtype = a.shape[2], b.shape[3], keras.backend.standardize_dtype(a.dtype)
    if dtype not in ("float32", "bfloat16"):
        return None  # There is no such CPU kernel in float16.
    if queries == 1:
        return dtype
    if a.shape[0] == 1:
        return "float32"  # Several queries in bfloat16 are slow.
    is_small = None not in (queries, size) and queries * size <= _SMALL
    return dtype if dtype == "float32" and is_small else None


def _native_matmul(a, b, transpose_b=False):
    """Multiply with TensorFlow's own kernel, which oneDNN doesn't replace under this name."""
    import tensorflow as tf

    return tf.raw_ops.BatchMatMulV3(x=a, y=b, Tout=a.dtype, adj_y=transpose_b)


def _copy_heads(heads):
    return ops.concatenate(ops.unstack(heads, heads.shape[1], axis=1), axis=-1)


def _is_tensorflow(tensor):
    return keras.backend.backend() == "tensorflow" and not keras.backend.is_keras_tensor(tensor)
