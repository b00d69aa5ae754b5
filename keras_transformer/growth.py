"""A larger model that begins where a smaller one ended (Net2Net; Chen et al., 2016)."""

import dataclasses

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.layers.sizes import head_sizes
from keras_transformer.model import Transformer

_UNCHANGED = [
    field.name
    for field in dataclasses.fields(TransformerConfig)
    if field.name not in ("d_model", "d_ff", "num_heads", "key_dim", "value_dim")
    and "dropout" not in field.name
]
_SPREAD = 0.05
"""How much of a weight's share differs between copies, so that they learn different things."""


def growth_problems(small: TransformerConfig, large: TransformerConfig) -> list[str]:
    """Return what keeps a model from growing to other sizes; rates of dropout may differ.

    >>> sizes = {"vocab_size": 100, "d_model": 64, "d_ff": 96, "num_heads": 4}
    >>> small = TransformerConfig(**sizes)
    >>> growth_problems(small, TransformerConfig(**sizes | {"d_model": 128, "num_heads": 8}))
    []
    >>> growth_problems(small, TransformerConfig(**sizes | {"d_ff": 90}))
    ['d_ff is 90 in place of 96 or more']
    """
    problems = [
        f"{name} is {getattr(large, name)} in place of {getattr(small, name)}"
        for name in _UNCHANGED
        if getattr(large, name) != getattr(small, name)
    ]
    if large.d_model % small.d_model:
        problems.append(f"d_model is {large.d_model} in place of a multiple of {small.d_model}")
    problems += [
        f"{name} is {getattr(large, name)} in place of {getattr(small, name)} or more"
        for name in ("d_ff", "num_heads")
        if getattr(large, name) < getattr(small, name)
    ]
    heads = zip(("key_dim", "value_dim"), _head_sizes(large), _head_sizes(small), strict=True)
    problems += [f"{name} is {new} in place of {old}" for name, new, old in heads if new != old]
    return problems


def grow(model: Transformer, config: TransformerConfig) -> Transformer:
    """Return a model of larger sizes that translates as a trained one does, and can learn more.

    What is new in heads and feed-forward networks has random weights, and no effect before it
    has been trained. Where `d_model` is larger, each number that the layers hand on has copies, and
    what reads them divides its weights among them. With learned positions, or the same `d_model`,
    the logits are the smaller model's; sinusoidal ones differ a little between copies.

    Args:
        model: the trained one.
        config: the new sizes: `d_model` a multiple, `d_ff` and `num_heads` at least as large, and
            heads of the same `key_dim` and `value_dim`. Dropout is as it says.

    Raises:
        ValueError: the model cannot grow to these sizes.

    >>> import dataclasses
    >>> small = Transformer.from_preset("tiny", vocab_size=100, num_layers=1)
    >>> sizes = {"d_model": 256, "num_heads": 8, "d_ff": 1024}
    >>> grow(small, dataclasses.replace(small.config, **sizes)).config.d_ff
    1024
    """
    if problems := growth_problems(model.config, config):
        raise ValueError(f"A model cannot grow to these sizes: {'; '.join(problems)}.")
    larger = Transformer(config, dtype=model.dtype_policy)
    copies = config.d_model // model.config.d_model
    # A position's sines and cosines alternate, and the first copy of each has its old frequency.
    together = 2 if config.position == "sinusoidal" else 1
    places = np.arange(model.config.d_model).reshape(-1, together)
    sources = np.repeat(places, copies, axis=0).reshape(-1)
    copy_of = np.tile(np.repeat(np.arange(copies), together), len(places))
    rng = np.random.default_rng(0)

    def shares(width):
        """Return how much of each weight [D, width] goes to each copy: over these the mean is 1."""
        spread = _SPREAD * rng.standard_normal((copies, model.config.d_model, width))
        return (1 + spread - np.mean(spread, axis=0))[copy_of, sources] / copies

    def grown(path, old, new):
        layer, name = path.split("/")[0], path.split("/")[-1]
        if name == "embeddings":
            # The embeddings are multiplied by the square root of D, the positions are not.
            return old[:, sources] / (1 if "position" in layer else copies**0.5)
        if name in ("gamma", "beta"):
            # The logits are sums over all copies of the last norm, times such embeddings.
            return old[sources] / (copies**0.5 if path.startswith(last_norm) else 1)
        if name == "outer_bias":
            return old[sources]
        if name == "inner_bias":
            return np.append(old, new[len(old) :])
        if name in ("output_kernel", "outer_kernel"):
            return np.pad(old[:, sources], [(0, len(new) - len(old)), (0, 0)])
        return np.append(old[sources] * shares(old.shape[1]), new[:, old.shape[1] :], axis=1)

    last_norm = (
        "decoder/final_norm"
        if config.norm == "pre"
        else f"decoder/layer_{config.num_layers - 1}/feed_forward_residual"
    )
    values = zip(larger.weights, model.get_weights(), larger.get_weights(), strict=True)
    larger.set_weights(
        [grown(weight.path.partition("/")[2], old, new) for weight, old, new in values]
    )
    return larger


def _head_sizes(config):
    return head_sizes(config.d_model, config.num_heads, config.key_dim, config.value_dim)
