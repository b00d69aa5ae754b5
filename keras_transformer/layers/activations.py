"""Functions inside the feed-forward network, other than the paper's max(0, x) (Section 3.3)."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops


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
