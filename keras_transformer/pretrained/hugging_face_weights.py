"""The weights of Hugging Face's `MarianMTModel`: their names, which are tied, and positions."""

from pathlib import Path

import numpy as np

from keras_transformer.layers.position import sinusoid
from keras_transformer.pretrained.layer_weights import LayerWeight

_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_LINEARS = {"inner": "fc1", "outer": "fc2"}
_SUFFIXES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}
_USES = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
    "output": "lm_head.weight",
}
"""The name of the matrix of each use of embeddings; those that are tied may be left out."""
_ROUNDING = 4e-3
"""Largest error of a table of positions in bfloat16."""


def weight_name(weight: LayerWeight) -> str:
    """Return Hugging Face's name of a weight.

    >>> weight_name(LayerWeight("decoder", 2, "cross_attention", "query_kernel"))
    'model.decoder.layers.2.encoder_attn.q_proj.weight'
    """
    layer = f"model.{weight.stack}.layers.{weight.layer}"
    module, _, kind = weight.name.rpartition("_")
    attention = _ATTENTIONS.get(weight.part)
    if not module:  # Of the layer normalization.
        norm = f"{attention}_layer_norm" if attention else "final_layer_norm"
        return f"{layer}.{norm}.{_SUFFIXES[kind]}"
    module = f"{attention}.{_PROJECTIONS[module]}" if attention else _LINEARS[module]
    return f"{layer}.{module}.{_SUFFIXES[kind]}"


def is_transposed(path: str) -> bool:
    """Return whether PyTorch has the transpose of the weight with one of our paths."""
    return path.endswith("_kernel")


def take_embeddings(
    theirs: dict[str, np.ndarray], folder: Path, *, is_shared: bool, is_tied: bool
) -> dict[str, np.ndarray]:
    """Take the matrices of "source", "target" and "output"; one array for those that are equal.

    Args:
        theirs: The weights by their names; those that are taken are removed.
        folder: Where they come from, for error messages.
        is_shared: Whether encoder and decoder share their embeddings.
        is_tied: Whether matrices are tied at all, those of decoder and output then are.

    Raises:
        ValueError: If matrices are missing, or are tied and differ.
    """
    names = {**_USES, "shared": "model.shared.weight"}
    found = {use: theirs.pop(name) for use, name in names.items() if name in theirs}
    if is_tied:
        tied = list(names) if is_shared else ["target", "output"]
        given = [use for use in tied if use in found]
        for use in given[1:]:
            if not np.array_equal(found[use], found[given[0]]):
                raise ValueError(
                    f"{names[given[0]]} and {names[use]} in {folder} must be the same, as "
                    "config.json ties them, but differ. Restore the weights. Models that were "
                    "converted from Marian's files before transformers 4.40 may have a random "
                    "lm_head.weight: convert them again, or remove it from the file."
                )
        found |= {use: found[given[0]] for use in tied if given}
    elif "shared" in found:
        found.setdefault("source", found["shared"])
        if is_shared:
            found.setdefault("target", found["shared"])
    if missing := [name for use, name in _USES.items() if use not in found]:
        raise ValueError(f"{folder} lacks the weights {', '.join(missing)}. Restore them.")
    if is_shared and np.array_equal(found["source"], found["target"]):
        found["target"] = found["source"]
    return {use: found[use] for use in _USES}


def take_position(theirs: dict[str, np.ndarray], folder: Path, d_model: int) -> str:
    """Take the tables of positions, if there are any, and return their kind.

    Args:
        theirs: The weights by their names; those that are taken are removed.
        folder: Where they come from, for error messages.
        d_model: D.

    Returns:
        A value of `TransformerConfig.position`.

    Raises:
        ValueError: If the tables are others.
    """
    names = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]
    tables = [theirs.pop(name) for name in names if name in theirs]
    kinds = ["sines_cosines"] if d_model < 4 else ["sines_cosines", "tensor2tensor"]
    for kind in kinds:
        if all(_has_positions(table, d_model, kind) for table in tables):
            return kind
    raise ValueError(
        f"The positions of encoder and decoder in {folder} must be the same sines and cosines, "
        "received others, which cannot be imported. Choose another model."
    )


def _has_positions(table: np.ndarray, d_model: int, kind: str) -> bool:
    expected = np.asarray(sinusoid(np.arange(len(table), dtype="float32"), d_model, kind))
    return table.shape == expected.shape and np.allclose(table, expected, atol=_ROUNDING)
