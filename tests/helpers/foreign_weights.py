"""Copy our weights to models written in PyTorch."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import keras
import numpy as np

AS_IT_IS = slice(None)


class Pair(NamedTuple):
    """A variable of ours, the parameter of theirs that contains it, and the way back.

    `to_ours` only slices, transposes and reorders, so it applies to gradients too.
    """

    ours: keras.Variable
    theirs: Any
    to_ours: Callable[[np.ndarray], np.ndarray]


# `order` is the index, in their vectors of width D, of each element of ours. PyTorch's kernels are
# [outputs, inputs], ours are [inputs, outputs].


def embedding_pair(ours, theirs, order=AS_IT_IS) -> Pair:
    return Pair(ours.embeddings, theirs.weight, lambda array: array[:, order])


def norm_pairs(ours, theirs, order=AS_IT_IS) -> Iterator[Pair]:
    yield Pair(ours.gamma, theirs.weight, lambda array: array[order])
    yield Pair(ours.beta, theirs.bias, lambda array: array[order])


def feed_forward_pairs(ours, inner, outer, order=AS_IT_IS) -> Iterator[Pair]:
    yield Pair(ours.inner_kernel, inner.weight, lambda array: array.T[order])
    yield Pair(ours.inner_bias, inner.bias, lambda array: array)
    yield Pair(ours.outer_kernel, outer.weight, lambda array: array.T[:, order])
    yield Pair(ours.outer_bias, outer.bias, lambda array: array[order])


def copy_weights(ours, theirs, pairs: Iterable[Pair]) -> list[Pair]:
    """Copy the weights of our model to theirs, and return the pairs.

    Every variable of ours has one pair, and every trainable parameter of theirs is in a pair,
    except for the biases of attention, which the paper does not have: those become 0.
    """
    pairs = list(pairs)
    assert len(pairs) == len(ours.weights)
    assert {id(pair.ours) for pair in pairs} == {id(variable) for variable in ours.weights}
    unpaired = {name: p for name, p in theirs.named_parameters() if p.requires_grad}
    for variable, parameter, to_ours in pairs:
        array = parameter.detach().numpy()  # shares its memory
        places = to_ours(np.arange(array.size).reshape(array.shape))
        array.reshape(-1)[places] = keras.ops.convert_to_numpy(variable)
        unpaired = {name: p for name, p in unpaired.items() if p is not parameter}
    for name, parameter in unpaired.items():
        assert "attn" in name and name.endswith("bias"), f"{name} has no pair"
        parameter.detach().zero_()
    return pairs
