"""Models that Marian trained, such as the releases of OPUS-MT."""

import mmap
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import DecodingConfig, TransformerConfig
from keras_transformer.pretrained.foreign_model import (
    ForeignModel,
    ForeignSide,
    LayerWeight,
    check_all_taken,
    check_search,
    take_layers,
    take_weight,
    validated,
    vocabulary_sizes,
)
from keras_transformer.pretrained.vocabulary_file import read_spm, read_vocabulary
from keras_transformer.pretrained.weight_files import read_marian_npz
from keras_transformer.utils.files import parse_yaml

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
_ACTIVATIONS = ("relu", "swish", "gelu")
_LAST_APPROXIMATION = 1, 12, 0
"""The last version of Marian whose GELU is x * sigmoid(1.702 x)."""
_SIZES = ("dec-depth", "dim-emb", "enc-depth", "transformer-dim-ffn", "transformer-heads")
_NEUTRAL: dict[str, Any] = {
    **{"word-penalty": 0, "output-sampling": [], "shortlist": []},
    **{"allow-special": False, "force-decode": False, "input-reorder": []},
}
"""Options of the search that cannot be imported, and their neutral values."""
_PARTS = {"self_attention": "self", "cross_attention": "context", "feed_forward": "ffn"}
_NAMES = {
    **{f"{part}_kernel": f"W{part[0]}" for part in ("query", "key", "value", "output")},
    **{f"{part}_bias": f"b{part[0]}" for part in ("query", "key", "value", "output")},
    **{"inner_kernel": "W1", "inner_bias": "b1", "outer_kernel": "W2", "outer_bias": "b2"},
}
_NORM_NAMES = {"gamma": "ln_scale", "beta": "ln_bias"}


def read_marian(path: Path, ignore: Collection[str] = ()) -> ForeignModel:
    """Read a model in .npz, with source.spm, target.spm and vocabularies.

    Args:
        path: The file in the folder of the model that describes the search, such as decoder.yml.
        ignore: Options of the search that may have values without a counterpart.

    Raises:
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, or the model is of another kind.
    """
    folder, decoder = path.parent, parse_yaml(path.read_bytes(), str(path))
    models = _files(path, decoder, "models")
    vocabularies = _files(path, decoder, "vocabs")
    if len(models) != 1 or len(vocabularies) != 2:
        raise ValueError(
            f"{path} must name one model and two vocabularies, received {len(models)} and "
            f"{len(vocabularies)}. Of an ensemble, keep one model."
        )
    if models[0].suffix == ".bin":
        raise ValueError(_about_binary(models[0]))
    weights, options = read_marian_npz(models[0])
    _check_options(models[0], options)
    check_search(path, dict(_search_problems(decoder)), _NEUTRAL, ignore)
    source, target = (
        _read_side(vocabulary, folder, name, size)
        for vocabulary, name, size in zip(
            vocabularies, ("source", "target"), options["dim-vocabs"], strict=True
        )
    )
    config = validated(models[0], lambda: _config(options, source, target))
    weights = {name: array.astype("float32") for name, array in weights.items()}
    renamed = _rename(config, weights, source, target, models[0])
    decoding = validated(path, lambda: _decoding(decoder))
    return ForeignModel(config, decoding, source, target, renamed)


def _about_binary(model: Path) -> str:
    """Return why a binary model, such as Bergamot's, cannot be imported."""
    with open(model, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if file.read(1) else b""
    if data.find(b"transformer-decoder-autoreg: rnn") >= 0:
        return (
            f"{model} has a recurrent decoder (SSRU), which cannot be imported. Choose a model "
            "whose decoder has self-attention, such as the teacher that it was distilled from."
        )
    return (
        f"{model} is a binary model of Marian, which may be quantized or packed. Use the model.npz "
        "that it was made from."
    )


def _files(path: Path, decoder: Mapping[str, Any], key: str) -> list[Path]:
    names = decoder.get(key)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path} must have a list of files {key!r}, received {names!r}.")
    # Paths are relative to the file, and a release that was moved has its files in the same folder.
    files = [path.parent / name for name in names]
    # `os.path.isfile` is False where `Path.is_file` raises, as for a name that is too long.
    files = [file if os.path.isfile(file) else path.parent / file.name for file in files]
    if missing := [str(file)[:200] for file in files if not os.path.isfile(file)]:
        raise FileNotFoundError(
            f"{path} names {', '.join(missing)}, which does not exist. Copy the whole release."
        )
    return files


def _check_options(model: Path, options: Mapping[str, Any]) -> None:
    problems = [
        f"{name} must be {' or '.join(map(repr, expected))}, received {options[name]!r}"
        for name, expected in _EXPECTED.items()
        if name in options and options[name] not in expected
    ]
    problems += [
        f"{name} must be an integer, received {options.get(name)!r}"
        for name in _SIZES
        if type(options.get(name)) is not int
    ]
    sizes = options.get("dim-vocabs")
    if not isinstance(sizes, list) or [type(size) for size in sizes] != [int, int]:
        problems.append(f"dim-vocabs must be two integers, received {sizes!r}")
    if (activation := options.get("transformer-ffn-activation", "swish")) not in _ACTIVATIONS:
        names = " or ".join(map(repr, _ACTIVATIONS))
        problems.append(f"transformer-ffn-activation must be {names}, received {activation!r}")
    elif activation == "gelu" and _gelu(options) is None:
        problems.append(
            "version must be Marian's, such as 'v1.12.0', because it decides which GELU the model "
            f"has, received {options.get('version')!r}"
        )
    if problems:
        raise ValueError(f"{model} cannot be imported: {'; '.join(problems)}.")


def _search_problems(decoder: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, neutral in _NEUTRAL.items():
        value = decoder.get(name, neutral)
        if value not in (neutral, None, False):
            yield name, f"must be {neutral!r}, received {value!r}"


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
    activation = options.get("transformer-ffn-activation", "swish")
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
        activation=_gelu(options) if activation == "gelu" else activation,
        use_bias=True,
        use_output_bias=True,
        position="tensor2tensor",
        share_embeddings=share,
    )


def _gelu(options: Mapping[str, Any]) -> str | None:
    """Return the GELU of the version of Marian that wrote a model, or None if it is unknown."""
    found = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", str(options.get("version")))
    if found is None:
        return None
    is_old = tuple(map(int, found.groups())) <= _LAST_APPROXIMATION
    return "sigmoid_gelu" if is_old else "gelu"


def _decoding(decoder: Mapping[str, Any]) -> DecodingConfig:
    limit = {"max_source_length": decoder.get("max-length", 1000)}
    return DecodingConfig(
        beam_size=decoder.get("beam-size", 12),
        length_penalty=decoder.get("normalize") or 0,
        style="marian",
        renormalize=False,
        length_factor=decoder.get("max-length-factor", _MAX_LENGTH_FACTOR),
        extra_length=0,
        allow_unknown=decoder.get("allow-unk", False),
        **(limit if decoder.get("max-length-crop") else {}),
    )


def _rename(config, theirs, source, target, path):
    """Return the weights by our paths. Each of theirs must have a place."""
    ours = take_layers(theirs, config, _name, path)
    names, sides = {}, {"source_embedding/embeddings": source}
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
    ours |= {place: take_weight(theirs, name, path) for place, name in names.items()}
    if "output_embedding/embeddings" in ours and not has_rows:
        ours["output_embedding/embeddings"] = ours["output_embedding/embeddings"].T
    for place, side in sides.items():
        ours[place] = side.rows(ours[place], config.d_model)
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
