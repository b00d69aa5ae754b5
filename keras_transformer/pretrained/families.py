"""The architectures of Hugging Face's models that translate, and their names of what we have."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.pretrained.foreign_model import LayerWeight

LAYER_NORM_EPSILON = 1e-5
_SIZES = {
    "d_model": 1024,
    **{f"{stack}_layers": 12 for stack in ("encoder", "decoder")},
    **{f"{stack}_ffn_dim": 4096 for stack in ("encoder", "decoder")},
    **{f"{stack}_attention_heads": 16 for stack in ("encoder", "decoder")},
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}


@dataclasses.dataclass(frozen=True)
class Family:
    """A kind of encoder and decoder: what its config.json leaves out, and what it never states."""

    model: str
    """Its class in Transformers."""
    defaults: Mapping[str, Any]
    """The defaults of options in config.json."""
    layers: Mapping[str, Any]
    """Options of `TransformerConfig` that all models of the family share."""
    has_languages: bool = True
    """Whether a model has many languages, each with a token."""
    has_output_bias: bool = True
    """Whether a bias is added to the logits."""
    unused_positions: int = 0
    """Rows of a table of positions before the first one that is used."""


FAMILIES = {
    "marian": Family(
        model="MarianMTModel",
        defaults={
            **_SIZES,
            "vocab_size": 58101,
            "activation_function": "gelu",
            "scale_embedding": False,
            "pad_token_id": 58100,
            "decoder_start_token_id": 58100,
        },
        layers={"norm": "post", "position_offset": 0, "embedding_norm": False},
        has_languages=False,
    ),
    "m2m_100": Family(  # M2M100 and NLLB.
        model="M2M100ForConditionalGeneration",
        defaults={
            **_SIZES,
            "vocab_size": 128112,
            "activation_function": "relu",
            "scale_embedding": True,
            "pad_token_id": 1,
            "decoder_start_token_id": 2,
        },
        layers={
            **{"norm": "pre", "position_offset": 2, "embedding_norm": False},
            "position": "tensor2tensor",
        },
        has_output_bias=False,
    ),
    "mbart": Family(  # mBART-50.
        model="MBartForConditionalGeneration",
        defaults={
            **_SIZES,
            "vocab_size": 50265,
            "activation_function": "gelu",
            "scale_embedding": False,
            "pad_token_id": 1,
            "decoder_start_token_id": 2,
        },
        layers={
            **{"norm": "pre", "position_offset": 0, "embedding_norm": True},
            "position": "learned",
        },
        unused_positions=2,
    ),
}
"""By the `model_type` of Hugging Face."""

OPTIONS = {
    "d_model": "d_model",
    "encoder_layers": "num_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "decoder_d_ff",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "decoder_num_heads",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "ffn_dropout",
    "scale_embedding": "scale_embeddings",
}
"""The fields of `TransformerConfig` by the names of options in config.json."""
ACTIVATIONS = {
    **{"relu": "relu", "gelu": "gelu", "quick_gelu": "sigmoid_gelu"},
    **{"swish": "swish", "silu": "swish"},
}
"""Our activations by Hugging Face's names, of which the first is written."""
UNREAD = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""What Marian's models do, whatever config.json says: Hugging Face does not read these options."""
STACKS = {"encoder": "source", "decoder": "target"}
"""The side of each stack."""
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_LINEARS = {"inner": "fc1", "outer": "fc2"}
_SUFFIXES = {"kernel": "weight", "bias": "bias", "gamma": "weight", "beta": "bias"}


def weight_name(weight: LayerWeight) -> str:
    """Return Hugging Face's name of a weight of a layer.

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


def norm_names(config: TransformerConfig) -> dict[str, str]:
    """Return Hugging Face's names of the normalization before and after the layers, by our paths.

    >>> norm_names(TransformerConfig(vocab_size=9, norm="pre"))["decoder/final_norm/beta"]
    'model.decoder.layer_norm.bias'
    """
    norms = {}
    for stack, side in STACKS.items():
        if config.norm == "pre":
            norms[f"{stack}/final_norm"] = f"model.{stack}.layer_norm"
        if config.embedding_norm:
            norms[f"{side}_norm"] = f"model.{stack}.layernorm_embedding"
    return {
        f"{ours}/{name}": f"{theirs}.{_SUFFIXES[name]}"
        for ours, theirs in norms.items()
        for name in ("gamma", "beta")
    }


def table_name(stack: str) -> str:
    """Return Hugging Face's name of the table of positions of "encoder" or "decoder"."""
    return f"model.{stack}.embed_positions.weight"
