"""Alternatives to the paper's compatibility function, which says how well a key fits a query.

Each maps the heads of queries [B, H, T, K] and keys [B, H, S, K], and its own weights
[H, inputs, outputs], to scores [B, H, T, S], all in the dtype of the heads.

They are for comparison, as an argument of `MultiHeadAttention`. A `Transformer` has the paper's.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.layers.cpu_kernels import heads_matmul


def dot(query: Any, key: Any) -> Any:
    """Return q k, whose variance grows with K."""
    return heads_matmul(query, key, transpose_b=True)


def general(query: Any, key: Any, w: Any) -> Any:
    """Return q W k (Luong et al., 2015)."""
    return dot(ops.matmul(query, w), key)


def additive(query: Any, key: Any, w: Any, u: Any, v: Any) -> Any:
    """Return v tanh(W q + U k), a network with one hidden layer (Bahdanau et al., 2014).

    It needs memory for T * S * K numbers per head, a dot product for T * S.
    """
    queries, keys = ops.matmul(query, w), ops.matmul(key, u)
    hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
    return ops.squeeze(ops.matmul(hidden, ops.expand_dims(v, 1)), -1)


def concat(query: Any, key: Any, w: Any, v: Any) -> Any:
    """Return v tanh(W [q; k]) (Luong et al., 2015)."""
    w, u = ops.split(w, 2, axis=1)  # W [q; k] = W q + U k, without the pairs.
    return additive(query, key, w, u, v)


class Compatibility(NamedTuple):
    """A compatibility function and the shapes of its weights."""

    score: Callable
    """Maps queries, keys and weights to scores."""
    weight_shapes: Callable[[int], Mapping[str, tuple[int, int]]] = lambda size: {}
    """Maps K to the inputs and outputs of a head's weights, by name."""


ALTERNATIVES = {
    "dot": Compatibility(dot),
    "general": Compatibility(general, lambda size: {"w": (size, size)}),
    "additive": Compatibility(
        additive, lambda size: {"w": (size, size), "u": (size, size), "v": (size, 1)}
    ),
    "concat": Compatibility(concat, lambda size: {"w": (2 * size, size), "v": (size, 1)}),
}
"""By the names that `MultiHeadAttention` accepts."""
