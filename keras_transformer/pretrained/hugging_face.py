"""Models in the format of Hugging Face's `MarianMTModel`, such as OPUS-MT's."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.layers.position import ENCODINGS
from keras_transformer.pretrained.foreign_model import (
    ForeignModel,
    ForeignSide,
    LayerWeight,
    check_all_taken,
    take_layers,
    validated,
    vocabulary_sizes,
)
from keras_transformer.pretrained.hugging_face_search import read_search
from keras_transformer.pretrained.vocabulary_file import read_spm, read_vocabulary
from keras_transformer.pretrained.weight_files import read_weights
from keras_transformer.utils.files import read_json

log = logging.getLogger(__name__)

LAYER_NORM_EPSILON = 1e-5
_ACTIVATIONS = {
    **{"relu": "relu", "gelu": "gelu", "quick_gelu": "sigmoid_gelu"},
    **{"swish": "swish", "silu": "swish"},
}
_IGNORED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""What Marian's models do, whatever config.json says: Hugging Face does not read these options."""
_KINDS = {
    "bart": "BART",
    "fsmt": "fairseq's WMT models",
    "m2m_100": "M2M100 or NLLB",
    "mbart": "mBART",
    "mt5": "mT5",
    "nllb-moe": "NLLB",
    "pegasus": "PEGASUS",
    "t5": "T5",
    "umt5": "umT5",
}
"""Other models that translate, by the `model_type` of Hugging Face."""
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 58101,
    "d_model": 1024,
    **{f"{stack}_layers": 12 for stack in ("encoder", "decoder")},
    **{f"{stack}_ffn_dim": 4096 for stack in ("encoder", "decoder")},
    **{f"{stack}_attention_heads": 16 for stack in ("encoder", "decoder")},
    "activation_function": "gelu",
    "scale_embedding": False,
    "pad_token_id": 58100,
    "decoder_start_token_id": 58100,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
"""The defaults of options in config.json."""

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


def read_hugging_face(folder: Path, ignore: Collection[str] = ()) -> ForeignModel:
    """Read a folder that `MarianMTModel.save_pretrained` and its tokenizer wrote.

    Args:
        folder: The folder, with config.json, vocab.json, source.spm, target.spm and weights in
            model.safetensors or pytorch_model.bin.
        ignore: Options of the search that may have values without a counterpart.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or the model is of another kind.
    """
    path = folder / "config.json"
    options = _DEFAULTS | read_json(path)
    _check_options(path, options)
    tokenizer_file = folder / "tokenizer_config.json"
    tokenizer = read_json(tokenizer_file) if tokenizer_file.exists() else {}
    source, target = _sides(folder, options, tokenizer)
    # If generation_config.json exists, Hugging Face takes no search from config.json.
    search_path, search = path, {"forced_eos_token_id": target.eos, **options}
    if (generation := folder / "generation_config.json").exists():
        search_path, search = generation, read_json(generation)
    decoding = read_search(search_path, search, options, target, ignore)
    theirs = read_weights(folder)
    embeddings = take_embeddings(
        theirs,
        folder,
        is_shared=options["share_encoder_decoder_embeddings"],
        is_tied=options["tie_word_embeddings"],
    )
    position = take_position(theirs, folder, options["d_model"])
    config = validated(path, lambda: _config(options, source, target, embeddings, position))
    weights = take_layers(theirs, config, weight_name, folder, are_transposed=True)
    for use, matrix in embeddings.items():
        side = source if use == "source" else target
        weights[f"{use}_embedding/embeddings"] = side.rows(matrix, config.d_model)
    bias = theirs.pop("final_logits_bias", np.zeros(len(target.pieces), "float32"))
    weights["output_bias"] = target.bias(bias)
    check_all_taken(theirs, folder)
    languages = [tokenizer.get(f"{side}_lang") for side in ("source", "target")]
    return ForeignModel(config, decoding, source, target, weights, languages)


def _check_options(path: Path, options: Mapping[str, Any]) -> None:
    if (kind := options.get("model_type", "marian")) != "marian":
        known = f" ({_KINDS[kind]})" if isinstance(kind, str) and kind in _KINDS else ""
        raise ValueError(
            f"{path} describes a model of type {kind!r}{known}, whose layers differ from Marian's. "
            "Only type 'marian' can be imported: choose an OPUS-MT model of your languages "
            "(Helsinki-NLP/opus-mt-SOURCE-TARGET), or run this one with Transformers or "
            "CTranslate2."
        )
    if ignored := [name for name, usual in _IGNORED.items() if options.get(name, usual) != usual]:
        log.info("%s: %s have no effect, as in Transformers 5", path, ", ".join(ignored))
    problems = []
    if options.get("is_encoder_decoder") not in (None, True):
        problems.append(
            f"is_encoder_decoder must be True, received {options['is_encoder_decoder']!r}"
        )
    if options["activation_function"] not in list(_ACTIVATIONS):
        names = " or ".join(map(repr, _ACTIVATIONS))
        activation = options["activation_function"]
        problems.append(f"activation_function must be {names}, received {activation!r}")
    problems += [
        f"{name} must be of type {type(default).__name__}, received {options[name]!r}"
        for name, default in _DEFAULTS.items()
        if type(options[name]) is not type(default)
    ]
    if problems:
        raise ValueError(f"{path} cannot be imported: {'; '.join(problems)}.")


def _sides(
    folder: Path, options: Mapping[str, Any], tokenizer: Mapping[str, Any]
) -> tuple[ForeignSide, ForeignSide]:
    names = ["vocab.json", "vocab.json"]
    if tokenizer.get("separate_vocabs"):
        names[1] = "target_vocab.json"
    sizes = [options["vocab_size"], options.get("decoder_vocab_size") or options["vocab_size"]]
    sides = []
    for name, spm, size in zip(names, ("source.spm", "target.spm"), sizes, strict=True):
        model, _ = read_spm(folder / spm)
        pieces = read_vocabulary(folder / name)
        if len(pieces) != size:
            added = folder / "added_tokens.json"
            raise ValueError(
                f"{folder / name} has {len(pieces):,} pieces, and config.json {size:,}. They must "
                + (
                    "be the same; restore both."
                    if not added.exists()
                    else f"be the same: add the tokens of {added.name} to {name}."
                )
            )
        sides.append(_side(folder / name, model, pieces, tokenizer, options))
    return sides[0], sides[1]


def _side(path, spm, pieces, tokenizer, options):
    names = {"unk": "<unk>", "eos": "</s>"}
    ids = {}
    for key, default in names.items():
        token = tokenizer.get(f"{key}_token") or default
        token = token.get("content") if isinstance(token, dict) else token
        if token not in pieces:
            raise ValueError(f"{path} must have the {key} token {token!r}, but lacks it.")
        ids[key] = pieces.index(token)
    pad = options["pad_token_id"]
    start = options["decoder_start_token_id"]
    for key, i in (("pad_token_id", pad), ("decoder_start_token_id", start)):
        if not 0 <= i < len(pieces):
            raise ValueError(
                f"{key} in config.json must be an id of {path}, received {i}. They belong to "
                "different models; restore both."
            )
    return ForeignSide(spm, pieces, pad=pad, start=start, **ids)


def _config(options, source, target, embeddings, position):
    is_input_shared = embeddings["source"] is embeddings["target"]
    is_output_tied = embeddings["output"] is embeddings["target"]
    share = {
        (True, True): "all",
        (False, True): "target",
        (True, False): "inputs",
        (False, False): "none",
    }[is_input_shared, is_output_tied]
    return TransformerConfig(
        **vocabulary_sizes(source, target),
        num_layers=options["encoder_layers"],
        num_decoder_layers=options["decoder_layers"],
        d_model=options["d_model"],
        d_ff=options["encoder_ffn_dim"],
        decoder_d_ff=options["decoder_ffn_dim"],
        num_heads=options["encoder_attention_heads"],
        decoder_num_heads=options["decoder_attention_heads"],
        dropout=options.get("dropout", 0.1),
        attention_dropout=options.get("attention_dropout", 0.0),
        ffn_dropout=options.get("activation_dropout", 0.0),
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        activation=_ACTIVATIONS[options["activation_function"]],
        use_bias=True,
        use_output_bias=True,
        scale_embeddings=options["scale_embedding"],
        position=position,
        share_embeddings=share,
    )


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


def take_embeddings(
    theirs: dict[str, np.ndarray], folder: Path, *, is_shared: bool, is_tied: bool
) -> dict[str, np.ndarray]:
    """Take the matrices of "source", "target" and "output"; one array for those that are equal.

    Args:
        theirs: The weights by their names; those that are taken are removed.
        folder: Where they come from, for error messages.
        is_shared: Whether encoder and decoder share their embeddings.
        is_tied: Whether embeddings are tied; the decoder's and the output's then are.

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
    if table.ndim != 2 or table.shape[1] != d_model or d_model % 2:
        return False
    expected = np.asarray(ENCODINGS[kind](np.arange(len(table), dtype="float32"), d_model))
    return np.allclose(table, expected, atol=_ROUNDING)
