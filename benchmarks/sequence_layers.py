"""The layer types of Table 1: layers that preserve the length, and formulas of their costs."""

import math
from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.attention import attention

KERNEL, NEIGHBORS, HEADS = 3, 31, 8
"""k of the convolution, r of restricted self-attention, heads of multi-head attention."""
_BLOCK = 32  # queries that share their keys in restricted self-attention

SELF_ATTENTION, RECURRENT = "self-attention", "recurrent"


class Complexity(NamedTuple):
    """A row of Table 1, for one layer and one sequence."""

    operations: float
    """Operations of the layer, as an order of magnitude."""
    sequential: float
    """Operations that cannot run in parallel."""
    path: float
    """Steps between the two most distant positions through a stack of such layers."""


TABLE_1: dict[str, Callable[[int, int], Complexity]] = {
    SELF_ATTENTION: lambda n, d: Complexity(n**2 * d, 1, 1),
    "restricted": lambda n, d: Complexity(NEIGHBORS * n * d, 1, n / NEIGHBORS),
    RECURRENT: lambda n, d: Complexity(n * d**2, n, n),
    "convolutional": lambda n, d: Complexity(KERNEL * n * d**2, 1, math.log(n, KERNEL)),
    "multi-head": lambda n, d: Complexity(n**2 * d + n * d**2, 1, 1),
}
"""Row of each layer for n positions of width d. The last is not in the paper's table: it is
self-attention with its projections, as in the Transformer."""


def multiply_adds(name: str, n: int, d: int) -> int:
    """Return the number of multiply-adds in the matrix products of a layer.

    >>> multiply_adds("self-attention", n=10, d=4), multiply_adds("recurrent", n=10, d=4)
    (800, 320)
    """
    return {
        SELF_ATTENTION: 2 * n * n * d,  # scores, and the sum of values
        "restricted": 2 * _BLOCK * math.ceil(n / _BLOCK) * (_BLOCK + NEIGHBORS - 1) * d,
        RECURRENT: 2 * n * d * d,  # from the input, and from the previous state
        "convolutional": KERNEL * n * d * d,
        "multi-head": 4 * n * d * d + 2 * n * n * d,
    }[name]


def make_layer(name: str, d: int) -> Callable:
    """Return a layer of `TABLE_1`, a function from float [B, n, d] to the same shape."""
    if name == SELF_ATTENTION:
        return self_attention
    if name == "restricted":
        return restricted_self_attention
    if name == RECURRENT:
        return keras.layers.SimpleRNN(d, use_bias=False, return_sequences=True)
    if name == "convolutional":
        return keras.layers.Conv1D(d, KERNEL, padding="same", use_bias=False)
    layer = MultiHeadAttention(HEADS, d // HEADS, use_bias=False)
    return lambda x: layer(x, x)


def self_attention(x):
    """Return softmax(x x^T / sqrt(d)) x, attention of one head without projections."""
    scores = ops.matmul(x, ops.transpose(x, (0, 2, 1))) * x.shape[2] ** -0.5
    return attention(scores[:, None], x[:, None])[0][:, 0]


def restricted_self_attention(x, neighbors: int = NEIGHBORS, block: int = _BLOCK):
    """Return `self_attention` of each position to the `neighbors` around it, itself included.

    The queries of a block share the keys that any of them may attend to, so the work grows with n
    instead of its square.

    Args:
        x: float [B, n, d] with static n and d.
        neighbors: r, odd.
        block: Number of queries in a block.
    """
    _, n, d = x.shape
    blocks, side, keys = -(-n // block), neighbors // 2, block + neighbors - 1
    # Block i has the queries i * block + [0, block), and the keys from `side` before them to
    # `side` after them.
    starts = ops.arange(blocks)[:, None] * block
    places = starts + ops.arange(keys)[None] - side  # [blocks, keys]
    queries = ops.arange(block)[:, None]
    is_near = (queries <= ops.arange(keys)) & (ops.arange(keys) < queries + neighbors)
    is_there = (places >= 0) & (places < n)
    padded = ops.pad(x, ((0, 0), (side, blocks * block - n + side), (0, 0)))
    near = ops.reshape(ops.take(padded, places + side, axis=1), (-1, keys, d))
    own = ops.reshape(padded[:, side : side + blocks * block], (-1, block, d))
    mask = is_near[None] & is_there[:, None]  # [blocks, block, keys]
    mask = ops.tile(mask, (ops.shape(x)[0], 1, 1))
    scores = ops.matmul(own, ops.transpose(near, (0, 2, 1))) * d**-0.5
    outputs = attention(scores[:, None], near[:, None], mask)[0]
    return ops.reshape(outputs, (-1, blocks * block, d))[:, :n]
