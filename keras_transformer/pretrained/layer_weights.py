"""The weights of a model by our names, for the tables of other programs' names."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_transformer.config import TransformerConfig

_ATTENTION = [
    *(
        f"{part}_{kind}"
        for part in ("query", "key", "value", "output")
        for kind in ("kernel", "bias")
    ),
    "gamma",
    "beta",
]
_FEED_FORWARD = ["inner_kernel", "inner_bias", "outer_kernel", "outer_bias", "gamma", "beta"]
_WEIGHTS = {
    "self_attention": _ATTENTION,
    "cross_attention": _ATTENTION,
    "feed_forward": _FEED_FORWARD,
}


class LayerWeight(NamedTuple):
    """A weight of an encoder or decoder layer with biases.

    >>> LayerWeight("decoder", 2, "cross_attention", "gamma").path
    'decoder/layer_2/cross_attention_residual/layer_norm/gamma'
    """

    stack: str
    """"encoder" or "decoder"."""
    layer: int
    """Number of the layer, from 0."""
    part: str
    """Sub-layer: "self_attention", "cross_attention" or "feed_forward"."""
    name: str
    """Name of the weight, such as "query_kernel"; "gamma" and "beta" are the normalization's."""

    @property
    def path(self) -> str:
        """Path of the weight in a `Transformer`."""
        is_norm = self.name in ("gamma", "beta")
        part = f"{self.part}_residual/layer_norm" if is_norm else self.part
        return f"{self.stack}/layer_{self.layer}/{part}/{self.name}"


def layer_weights(config: TransformerConfig) -> Iterator[LayerWeight]:
    """Yield all weights of the layers of a model.

    >>> config = TransformerConfig(vocab_size=9, num_layers=2, num_decoder_layers=1)
    >>> len(list(layer_weights(config)))
    58
    """
    for stack, depth in (("encoder", config.num_layers), ("decoder", config.decoder_layers)):
        for layer in range(depth):
            for part, names in _WEIGHTS.items():
                if (stack, part) != ("encoder", "cross_attention"):
                    for name in names:
                        yield LayerWeight(stack, layer, part, name)


def take_weights(
    theirs: dict[str, np.ndarray], names: Mapping[str, str], origin: Path
) -> dict[str, np.ndarray]:
    """Take weights out of another program's, and return them by our paths.

    Args:
        theirs: The weights by the other program's names; those that are taken are removed.
        names: The other program's name for each of our paths.
        origin: Where they come from, for the error message.

    Raises:
        ValueError: If weights are missing.
    """
    if missing := [name for name in names.values() if name not in theirs]:
        raise ValueError(
            f"{origin} lacks the weights {', '.join(missing[:5])}. They are damaged, or belong to "
            "another model than the configuration; restore both."
        )
    return {path: theirs.pop(name) for path, name in names.items()}


def check_all_taken(theirs: Mapping[str, np.ndarray], origin: Path) -> None:
    """Check that each of another program's weights has a place in our model.

    Raises:
        ValueError: If some have none.
    """
    if theirs:
        raise ValueError(
            f"{origin} cannot be imported: it has the weights {', '.join(list(theirs)[:5])}, which "
            "belong to another kind of model. Choose a model without them."
        )
