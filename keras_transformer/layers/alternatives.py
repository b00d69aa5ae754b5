"""What other models do where the paper's functions stand, by the names of our options.

The paper's layers choose from the tables of this module. None of them needs it for the paper.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

# How well a key fits a query, an option of `MultiHeadAttention` for comparison (Section 3.2.1).
# Each function maps the heads of queries [B, H, T, K] and keys [B, H, S, K], and its own weights
# [H, inputs, outputs], to scores [B, H, T, S], all in the dtype of the heads.


def dot(query: Any, key: Any) -> Any:
    """Return q k, whose variance grows with K."""
    return ops.einsum("bhtk,bhsk->bhts", query, key)


def general(query: Any, key: Any, w: Any) -> Any:
    """Return q W k (Luong et al., 2015)."""
    return dot(ops.cast(ops.matmul(query, w), key.dtype), key)


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


COMPATIBILITIES = {
    "dot": Compatibility(dot),
    "general": Compatibility(general, lambda size: {"w": (size, size)}),
    "additive": Compatibility(
        additive, lambda size: {"w": (size, size), "u": (size, size), "v": (size, 1)}
    ),
    "concat": Compatibility(concat, lambda size: {"w": (2 * size, size), "v": (size, 1)}),
}
"""By the names that `MultiHeadAttention` accepts."""


# Functions inside the feed-forward network (Section 3.3).


@keras.saving.register_keras_serializable(package="keras_transformer")
def gelu(x: Any) -> Any:
    """Return x Phi(x) with the normal distribution function Phi, not approximated.

    >>> [round(float(y), 4) for y in gelu(ops.array([0.0, 1.0]))]
    [0.0, 0.8413]
    """
    return ops.gelu(x, approximate=False)


@keras.saving.register_keras_serializable(package="keras_transformer")
def sigmoid_gelu(x: Any) -> Any:
    """Return x sigmoid(1.702 x), an approximation of gelu that Marian uses.

    >>> [round(float(y), 4) for y in sigmoid_gelu(ops.array([0.0, 1.0]))]
    [0.0, 0.8458]
    """
    return ops.multiply(x, ops.sigmoid(ops.multiply(x, ops.cast(1.702, x.dtype))))


_ACTIVATIONS = {"swish": "silu", "gelu": gelu, "sigmoid_gelu": sigmoid_gelu}


def get_activation(name: str) -> str | Callable[[Any], Any]:
    """Return what `keras.activations.get` takes for a name of `TransformerConfig.activation`.

    >>> get_activation("relu")
    'relu'
    """
    return _ACTIVATIONS.get(name, name)


# Other orders of the sines and cosines of positions, float32 [T] to [T, D] (Section 3.5).


def sines_cosines(positions: Any, d_model: int) -> Any:
    """Return all sines, then all cosines, as Marian and Hugging Face do."""
    return _sines_then_cosines(positions, d_model, last=d_model)


def tensor2tensor(positions: Any, d_model: int) -> Any:
    """Return all sines, then all cosines, with the wavelengths of the authors' library.

    The exponents end at 1 instead of 1 - 2 / D.
    """
    return _sines_then_cosines(positions, d_model, last=d_model - 2)


def _sines_then_cosines(positions, d_model, last):
    even = ops.arange(0, d_model, 2, dtype="float32")
    angles = ops.expand_dims(positions, 1) * ops.exp(even * (-math.log(10_000.0) / last))
    return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


POSITION_ORDERS = {"sines_cosines": sines_cosines, "tensor2tensor": tensor2tensor}
"""By the names that `SinusoidalPositionEncoding` accepts."""
