"""Compatibility functions: how well a key fits a query (Section 3.2).

Each is a function of the heads of queries [B, H, T, K] and of keys [B, H, S, K], and of weights
[H, inputs, outputs] of its own, and returns scores [B, H, T, S], all in the type of the heads.

They are there to be compared, in `MultiHeadAttention`. A whole model has the paper's alone, as do
its configuration and the formats that it is exported to.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from keras import ops

from keras_transformer.layers.step_attention import product


def dot(query, key):
    """Return q k, whose variance grows with K."""
    return product(query, key, transpose_b=True)


def scaled_dot(query, key):
    """Return q k / sqrt(K), the paper's (Section 3.2.1, eq. 1)."""
    return dot(ops.multiply(query, ops.cast(query.shape[-1] ** -0.5, query.dtype)), key)


def general(query, key, w):
    """Return q W k (Luong et al., 2015)."""
    return dot(ops.matmul(query, w), key)


def additive(query, key, w, u, v):
    """Return v tanh(W q + U k), a network with one hidden layer (Bahdanau et al., 2014).

    Where a dot product needs memory for T * S numbers in each head, this needs it for T * S * K.
    U k is computed for all keys at each call, also for those in the cache of a search.
    """
    queries, keys = ops.matmul(query, w), ops.matmul(key, u)
    hidden = ops.tanh(ops.expand_dims(queries, 3) + ops.expand_dims(keys, 2))
    return ops.squeeze(ops.matmul(hidden, ops.expand_dims(v, 1)), -1)


def concat(query, key, w, v):
    """Return v tanh(W [q; k]) (Luong et al., 2015), in as much memory as `additive`."""
    w, u = ops.split(w, 2, axis=1)  # W [q; k] is W q + U k, and the pairs are never written out.
    return additive(query, key, w, u, v)


class Compatibility(NamedTuple):
    """A compatibility function and what it learns."""

    score: Callable
    """From queries, keys and weights to scores."""
    weight_shapes: Callable[[int], Mapping[str, tuple[int, int]]] = lambda size: {}
    """From K to the inputs and outputs of a head's weights, by their names."""


COMPATIBILITIES = {
    "scaled_dot": Compatibility(scaled_dot),
    "dot": Compatibility(dot),
    "general": Compatibility(general, lambda size: {"w": (size, size)}),
    "additive": Compatibility(
        additive, lambda size: {"w": (size, size), "u": (size, size), "v": (size, 1)}
    ),
    "concat": Compatibility(concat, lambda size: {"w": (2 * size, size), "v": (size, 1)}),
}
"""By the names that `MultiHeadAttention` takes."""
