"""Models in the formats of Hugging Face: Marian, M2M100, NLLB and mBART-50."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.layers.position import ENCODINGS
from keras_transformer.pretrained.families import (
    ACTIVATIONS,
    FAMILIES,
    LAYER_NORM_EPSILON,
    OPTIONS,
    STACKS,
    UNREAD,
    Family,
    norm_names,
    table_name,
    weight_name,
)
from keras_transformer.pretrained.foreign_model import (
    ForeignModel,
    Rows,
    check_all_taken,
    take_layers,
    take_weight,
    validated,
    vocabulary_sizes,
)
from keras_transformer.pretrained.hugging_face_search import read_search
from keras_transformer.pretrained.hugging_face_vocabulary import read_languages, read_sides
from keras_transformer.pretrained.weight_files import read_weights
from keras_transformer.utils.files import read_json

log = logging.getLogger(__name__)

_KINDS = {
    "bart": "BART",
    "fsmt": "fairseq's WMT models",
    "mt5": "mT5",
    "nllb-moe": "NLLB with experts",
    "pegasus": "PEGASUS",
    "t5": "T5",
    "umt5": "umT5",
}
"""Other models that translate, by the `model_type` of Hugging Face."""
_USES = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
    "output": "lm_head.weight",
}
"""The name of the matrix of each use of embeddings; those that are tied may be left out."""
_ROUNDING = 4e-3
"""Largest error of a table of positions in bfloat16."""


def read_hugging_face(folder: Path, ignore: Collection[str] = ()) -> ForeignModel:
    """Read a folder that `save_pretrained` of a model and its tokenizer wrote.

    Args:
        folder: The folder, with config.json, the files of the tokenizer, and weights in
            model.safetensors or pytorch_model.bin.
        ignore: Options of the search that may have values without a counterpart.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or the model is of another kind.
    """
    path = folder / "config.json"
    options = read_json(path)
    family = _family(path, options)
    options = {**family.defaults, **options}
    _check_options(path, options, family)
    tokenizer_file = folder / "tokenizer_config.json"
    tokenizer = read_json(tokenizer_file) if tokenizer_file.exists() else {}
    if family.has_languages:
        source = target = read_languages(folder, options, tokenizer)
    else:
        source, target = read_sides(folder, options, tokenizer)
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
    layers, tables = _take_positions(theirs, folder, family, options["d_model"])
    config = validated(path, lambda: _config(options, source, target, embeddings, layers))
    weights: dict[str, np.ndarray | Rows] = {
        **tables,
        **take_layers(theirs, config, weight_name, folder, are_transposed=True),
    }
    for place, name in norm_names(config).items():
        weights[place] = take_weight(theirs, name, folder, (config.d_model,))
    placed: list[np.ndarray] = []
    for use, matrix in embeddings.items():
        if not any(matrix is other for other in placed):  # Those that are shared have one place.
            side = source if use == "source" else target
            weights[f"{use}_embedding/embeddings"] = side.rows(matrix, config.d_model)
            placed.append(matrix)
    bias = theirs.pop("final_logits_bias", np.zeros(len(target.pieces), "float32"))
    weights["output_bias"] = target.bias(bias)
    check_all_taken(theirs, folder)
    languages = [tokenizer.get(f"{side}_lang") for side in ("source", "target")]
    return ForeignModel(config, decoding, source, target, weights, languages)


def _family(path: Path, options: Mapping[str, Any]) -> Family:
    kind = options.get("model_type", "marian")
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = f" ({_KINDS[kind]})" if isinstance(kind, str) and kind in _KINDS else ""
        raise ValueError(
            f"{path} describes a model of type {kind!r}{known}, whose layers cannot be imported. "
            "Choose a model of NLLB, M2M100, mBART-50 or OPUS-MT "
            "(Helsinki-NLP/opus-mt-SOURCE-TARGET), or run this one with Transformers or "
            "CTranslate2."
        )
    return FAMILIES[kind]


def _check_options(path: Path, options: Mapping[str, Any], family: Family) -> None:
    others = [name for name, usual in UNREAD.items() if options.get(name, usual) != usual]
    if others and not family.has_languages:
        log.info("%s: %s have no effect, as in Transformers 5", path, ", ".join(others))
    problems = []
    if options.get("is_encoder_decoder") not in (None, True):
        problems.append(
            f"is_encoder_decoder must be True, received {options['is_encoder_decoder']!r}"
        )
    if options["activation_function"] not in list(ACTIVATIONS):
        names = " or ".join(map(repr, ACTIVATIONS))
        activation = options["activation_function"]
        problems.append(f"activation_function must be {names}, received {activation!r}")
    problems += [
        f"{name} must be of type {type(default).__name__}, received {options[name]!r}"
        for name, default in family.defaults.items()
        if type(options[name]) is not type(default)
    ]
    if problems:
        raise ValueError(f"{path} cannot be imported: {'; '.join(problems)}.")


def _config(options, source, target, embeddings, layers):
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
        **{ours: options[theirs] for theirs, ours in OPTIONS.items() if theirs in options},
        layer_norm_epsilon=LAYER_NORM_EPSILON,
        activation=ACTIVATIONS[options["activation_function"]],
        use_bias=True,
        use_output_bias=True,
        share_embeddings=share,
        **layers,
    )


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


def _take_positions(
    theirs: dict[str, np.ndarray], folder: Path, family: Family, d_model: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Take the tables of positions: options of the model, and its weights by our paths."""
    layers, found = dict(family.layers), dict[str, np.ndarray]()
    if "position" not in layers:
        return {**layers, "position": _kind_of_positions(theirs, folder, d_model)}, found
    if layers["position"] == "learned":
        table = theirs.get(table_name("encoder"))
        # `take_weight` refuses a table of another rank, or none.
        rows = len(table) if table is not None and table.ndim == 2 else 0
        layers["max_length"] = rows - family.unused_positions
    for stack, side in STACKS.items():
        if layers["position"] == "learned":
            table = take_weight(theirs, table_name(stack), folder, (rows, d_model))
            found[f"{side}_position/embeddings"] = table[family.unused_positions :]
        else:  # Older versions of Transformers saved what they computed.
            theirs.pop(f"model.{stack}.embed_positions.weights", None)
    return layers, found


def _kind_of_positions(theirs: dict[str, np.ndarray], folder: Path, d_model: int) -> str:
    """Take the tables of sines and cosines, if there are any, and return their kind."""
    names = map(table_name, STACKS)
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
    return np.allclose(table.astype("float32"), expected, atol=_ROUNDING)
