"""Models that Marian trained, such as the releases of OPUS-MT."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from keras_transformer.config import DecodingConfig, TransformerConfig
from keras_transformer.pretrained.foreign_model import (
    ForeignModel,
    ForeignSide,
    LayerWeight,
    check_all_taken,
    layer_weights,
    take_weights,
    vocabulary_sizes,
)
from keras_transformer.pretrained.vocabulary_file import read_spm, read_vocabulary
from keras_transformer.pretrained.weight_files import read_marian_npz

_EOS, _UNK = "</s>", "<unk>"
_LAYER_NORM_EPSILON = 1e-6
_MAX_LENGTH_FACTOR = 3.0
"""Marian's limit: the length of the source times this, which decoder.yml may change."""

_EXPECTED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-preprocess": ("",),
    "transformer-postprocess": ("dan", "an"),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-attention-mask": ("default",),
    "transformer-tied-layers": ([],),
    "input-types": ([], ["sequence"]),
    "factors-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    **dict.fromkeys(
        """
        right-left transformer-alibi transformer-disable-position-embeddings transformer-no-affine
        transformer-no-bias transformer-no-projection transformer-pool transformer-rnn-projection
        transformer-train-position-embeddings ulr
        """.split(),
        (False,),
    ),
}
"""The accepted values of a model's options, if they are present."""
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "sigmoid_gelu"}
_PARTS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
_NAMES = {
    **{f"{part}_kernel": f"W{part[0]}" for part in ("query", "key", "value", "output")},
    **{f"{part}_bias": f"b{part[0]}" for part in ("query", "key", "value", "output")},
    **{"inner_kernel": "W1", "inner_bias": "b1", "outer_kernel": "W2", "outer_bias": "b2"},
}
_NORM_NAMES = {"gamma": "ln_scale", "beta": "ln_bias"}


def read_marian(folder: Path) -> ForeignModel:
    """Read a folder with decoder.yml, a model in .npz, source.spm, target.spm and vocabularies.

    Args:
        folder: The folder, laid out as a release of OPUS-MT.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or the model is of another kind.
    """
    path = folder / "decoder.yml"
    decoder = _read_yaml(path)
    models = _files(path, decoder, "models")
    vocabularies = _files(path, decoder, "vocabs")
    if len(models) != 1 or len(vocabularies) != 2:
        raise ValueError(
            f"{path} must name one model and two vocabularies, received {len(models)} and "
            f"{len(vocabularies)}. Of an ensemble, keep one model."
        )
    weights, options = read_marian_npz(models[0])
    _check_options(models[0], options, decoder, path)
    source, target = (
        _read_side(vocabulary, folder, name, size)
        for vocabulary, name, size in zip(
            vocabularies, ("source", "target"), options["dim-vocabs"], strict=True
        )
    )
    config = _config(options, source, target)
    weights = {name: array.astype("float32") for name, array in weights.items()}
    renamed = _rename(config, weights, source, target, models[0])
    return ForeignModel(config, _decoding(decoder), source, target, renamed)


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML, or is damaged: {error}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold options by name, received {type(values).__name__}.")
    return values


def _files(path: Path, decoder: Mapping[str, Any], key: str) -> list[Path]:
    names = decoder.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} must have a list of files {key!r}, received {names!r}.")
    # Paths are relative to the file, and a release that was moved has its files in the same folder.
    files = [path.parent / name for name in names]
    files = [file if file.is_file() else path.parent / file.name for file in files]
    if missing := [str(file) for file in files if not file.is_file()]:
        raise FileNotFoundError(
            f"{path} names {', '.join(missing)}, which does not exist. Copy the whole release."
        )
    return files


def _check_options(model: Path, options: Mapping[str, Any], decoder: Any, path: Path) -> None:
    problems = [
        f"{name} must be {' or '.join(map(repr, expected))}, received {options[name]!r}"
        for name, expected in _EXPECTED.items()
        if name in options and options[name] not in expected
    ]
    if (activation := options.get("transformer-ffn-activation", "swish")) not in _ACTIVATIONS:
        names = " or ".join(map(repr, _ACTIVATIONS))
        problems.append(f"transformer-ffn-activation must be {names}, received {activation!r}")
    problems += [
        f"{name} in {path.name} must be 0, received {decoder[name]!r}"
        for name in ("word-penalty",)
        if decoder.get(name)
    ]
    if problems:
        raise ValueError(f"{model} cannot be imported: {'; '.join(problems)}.")


def _read_side(vocabulary: Path, folder: Path, name: str, size: int) -> ForeignSide:
    spm = folder / f"{name}.spm"
    if vocabulary.suffix == ".spm":  # Marian's own support of SentencePiece.
        model, pieces = read_spm(vocabulary)
    elif (folder / f"{name}.bpe").exists():
        raise ValueError(
            f"{folder} has {name}.bpe: its text is tokenized by Moses and then split by BPE, which "
            "cannot be imported. Choose a release with SentencePiece (source.spm)."
        )
    else:
        model, pieces = read_spm(spm)[0], read_vocabulary(vocabulary)
    if len(pieces) < size:
        raise ValueError(
            f"{vocabulary} must have the {size:,} {name} tokens of the model, received "
            f"{len(pieces):,}. Give the vocabulary that the model was trained with."
        )
    pieces = pieces[:size]  # Marian ignores what is beyond.
    if missing := [piece for piece in (_EOS, _UNK) if piece not in pieces]:
        raise ValueError(f"{vocabulary} must have {_EOS} and {_UNK}, but lacks {missing}.")
    return ForeignSide(model, pieces, unk=pieces.index(_UNK), eos=pieces.index(_EOS))


def _config(options, source, target):
    d_ff = options["transformer-dim-ffn"]
    sizes = vocabulary_sizes(source, target)
    tied_all, tied_source, tied_target = (
        options.get(f"tied-embeddings{suffix}", False) for suffix in ("-all", "-src", "")
    )
    share = "all" if tied_all or (tied_source and tied_target) else None
    share = share or ("inputs" if tied_source else "target" if tied_target else "none")
    return TransformerConfig(
        **sizes,
        num_layers=options["enc-depth"],
        num_decoder_layers=options["dec-depth"],
        d_model=options["dim-emb"],
        d_ff=d_ff,
        decoder_d_ff=options.get("transformer-decoder-dim-ffn") or d_ff,
        num_heads=options["transformer-heads"],
        layer_norm_epsilon=_LAYER_NORM_EPSILON,
        activation=_ACTIVATIONS[options.get("transformer-ffn-activation", "swish")],
        use_bias=True,
        use_output_bias=True,
        position="tensor2tensor",
        share_embeddings=share,
    )


def _decoding(decoder: Mapping[str, Any]) -> DecodingConfig:
    return DecodingConfig(
        beam_size=decoder.get("beam-size", 12),
        length_penalty=float(decoder.get("normalize") or 0),
        style="marian",
        renormalize=False,
        length_factor=float(decoder.get("max-length-factor", _MAX_LENGTH_FACTOR)),
        extra_length=0,
        allow_unknown=bool(decoder.get("allow-unk", False)),
    )


def _rename(config, theirs, source, target, path):
    """Return the weights by our paths. Each of theirs must have a place."""
    names = {weight.path: _name(weight) for weight in layer_weights(config)}
    sides = {"source_embedding/embeddings": source}
    if config.share_embeddings in ("all", "inputs"):
        names["source_embedding/embeddings"] = "Wemb"
    else:
        names["source_embedding/embeddings"] = "encoder_Wemb"
        names["target_embedding/embeddings"] = "decoder_Wemb"
        sides["target_embedding/embeddings"] = target
    has_rows = "decoder_ff_logit_out_Wt" in theirs
    if config.share_embeddings in ("inputs", "none"):
        name = "decoder_ff_logit_out_Wt" if has_rows else "decoder_ff_logit_out_W"
        names["output_embedding/embeddings"] = name
        sides["output_embedding/embeddings"] = target
    ours = take_weights(theirs, names, path)
    if "output_embedding/embeddings" in ours and not has_rows:
        ours["output_embedding/embeddings"] = ours["output_embedding/embeddings"].T
    for place, side in sides.items():
        ours[place] = side.rows(ours[place])
    bias = theirs.pop("decoder_ff_logit_out_b", np.zeros(len(target.pieces), "float32"))
    ours["output_bias"] = target.bias(bias)
    check_all_taken(theirs, path)
    return ours


def _name(weight: LayerWeight) -> str:
    """Return Marian's name of a weight."""
    part = _PARTS[weight.part]
    if (name := _NAMES.get(weight.name)) is None:
        name = f"{'ffn' if part == 'ffn' else 'Wo'}_{_NORM_NAMES[weight.name]}"
    return f"{weight.stack}_l{weight.layer + 1}_{part}_{name}"
