"""Write a translator as a model of Hugging Face: Marian, M2M100, NLLB or mBART-50."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.model import Transformer
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
from keras_transformer.pretrained.foreign_model import layer_weights
from keras_transformer.pretrained.hugging_face_search import SPECIAL_IDS, write_search
from keras_transformer.pretrained.hugging_face_vocabulary import (
    fairseq_order,
    write_languages,
    write_sides,
)
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translation.foreign import TABLES, array_of, check_is_new, other_position
from keras_transformer.translation.saved import weight_place, write_readme
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.files import whole_directory

_ORDER_OF_SPECIAL = BOS_ID, PAD_ID, EOS_ID, UNK_ID
"""Our special tokens in the order of fairseq's ids."""
_D_MODEL_AXES = {"inner_kernel": 0, "outer_kernel": 1, "outer_bias": 0} | {
    **{f"{name}_kernel": 0 for name in ("query", "key", "value")},
    **{"output_kernel": 1, "output_bias": 0, "gamma": 0, "beta": 0},
}
"""The axis of each of our weights that has the D elements of a vector."""


def save_hugging_face(translator: Translator, path: str | os.PathLike) -> Path:
    """Write a translator as a folder that `from_pretrained` of Hugging Face loads.

    A model of many languages is of the class that it was imported from, such as
    `M2M100ForConditionalGeneration`, with a tokenizer; any other is a `MarianMTModel`.
    `import_model` reads the folder too, unless it is Marian's and has learned positions. It has the
    same search as long as generation_config.json is as it was written.

    The start token of a model of many languages is </s>, or is written as <s> (id 0) if fine-tuning
    has changed its embedding, or the search has a repetition penalty or bans repeated tokens, which
    Hugging Face applies to the start token too. No translation then has the token <s>. M2M100 and
    NLLB have no bias on the logits, so one that was trained is refused; `train` and LoRA leave it
    as it is.

    The search becomes generation_config.json. Hugging Face's length penalty is a division by
    length ** length_penalty, its rules of a beam search change log-probabilities, whatever
    `decoding.style` is, and a translation of any source has at most the tokens that the longest
    source may have here. Their tokenizer does not normalize text as `import_marian(path, "opus")`
    does, and generates a translation of an empty text.

    For CTranslate2, use `export_ctranslate2`. CTranslate2's own converter refuses the folder, as it
    only takes models of Marian whose decoder starts from a vector of zeros.

    Hugging Face's normalization layers have an epsilon of 1e-5. One of up to 2e-5 becomes that,
    which changes logits by less than 1e-4 where the variance is about 1.

    Sines and cosines in the order of the paper become sines before cosines, by the same permutation
    of the elements of all vectors. Positions of tensor2tensor and learned ones are written as they
    are, and Hugging Face loads them, but does not save them again.

    The license, the languages and the attribution of an imported model become a README.md.

    Args:
        translator: The translator. LoRA and int8 become plain float32 weights.
        path: A directory that does not exist yet. It appears only when it is complete.

    Returns:
        The directory.

    Raises:
        FileExistsError: If `path` exists.
        ImportError: If `safetensors` is not installed.
        ValueError: If Hugging Face's model cannot express the translator; all reasons are named.

    Example:

    ```python
    save_hugging_face(Translator.load("runs/en_de"), "hugging_face/en_de")
    model = transformers.MarianMTModel.from_pretrained("hugging_face/en_de")
    tokenizer = transformers.MarianTokenizer.from_pretrained("hugging_face/en_de")
    ```
    """
    try:
        from safetensors.numpy import save_file
    except ImportError as error:
        raise ImportError(
            f"Writing {path} needs `pip install 'keras-transformer-mt[marian]'`."
        ) from error
    path = Path(path)
    check_is_new(path)
    if reasons := list(_obstacles(translator)):
        raise ValueError(
            f"Hugging Face's {_family(translator)[1].model} cannot express this translator: "
            f"{'; '.join(reasons)}."
        )
    special = _special_ids(translator)
    order = _their_order(translator, special)
    options = _options(translator, special, order)
    weights = _weights(translator, order, options["max_position_embeddings"])
    with whole_directory(path) as temporary:
        for name, content in {
            "config.json": options,
            "generation_config.json": _search(translator, special, order),
            **_tokenizer_files(translator),
        }.items():
            if not isinstance(content, bytes):
                content = f"{json.dumps(content, ensure_ascii=False, indent=2)}\n".encode()
            (temporary / name).write_bytes(content)
        write_readme(temporary, translator.origin)
        save_file(weights, temporary / "model.safetensors", metadata={"format": "pt"})
    return path


def _family(translator: Translator) -> tuple[str, Family]:
    """Return the family that a translator is written as, and its `model_type`."""
    kind = "marian"
    if translator.languages:
        kind = "mbart" if translator.model.config.embedding_norm else "m2m_100"
    return kind, FAMILIES[kind]


def _special_ids(translator: Translator) -> dict[str, int]:
    """Return the ids of special tokens by Hugging Face's names of options."""
    if not translator.languages:
        return SPECIAL_IDS
    pad, end = _ORDER_OF_SPECIAL.index(PAD_ID), _ORDER_OF_SPECIAL.index(EOS_ID)
    table = translator.model.target_embedding.kernel("embeddings")
    starts_with_end = np.array_equal(array_of(table[BOS_ID]), array_of(table[EOS_ID]))
    # Their rules count the start token as one that occurred, and would hold the end back.
    rules = translator.decoding.repetition_penalty, translator.decoding.no_repeat_ngram_size
    counts_start = rules[0] != 1 or rules[1] == 1
    start = end if starts_with_end and not counts_start else 0
    return {
        "pad_token_id": pad,
        "bos_token_id": 0,
        "eos_token_id": end,
        "decoder_start_token_id": start,
    }


def _their_order(translator: Translator, special: Mapping[str, int]) -> list[int] | None:
    """Return our id of each of Hugging Face's ids; None if they are the same."""
    if not translator.languages:
        return None
    order = fairseq_order(_pieces(translator)[0])
    if special["decoder_start_token_id"] == 0:
        order[0] = BOS_ID
    return order


def _search(
    translator: Translator, special: Mapping[str, int], order: Sequence[int] | None
) -> dict[str, Any]:
    if order is None:
        return write_search(translator.decoding, special, UNK_ID, {})
    ours = translator.target_tokenizer.languages
    languages = {code: order.index(i) for code, i in ours.items()}
    unknown = _ORDER_OF_SPECIAL.index(UNK_ID)
    return write_search(translator.decoding, special, unknown, languages)


def _tokenizers(translator):
    return translator.tokenizer, translator.target_tokenizer


def _pieces(translator):
    return [t.id_to_piece(range(t.vocab_size)) for t in _tokenizers(translator)]


def _obstacles(translator: Translator) -> Iterator[str]:
    """Yield why Hugging Face's model cannot express a translator, as parts of a sentence."""
    config, decoding = translator.model.config, translator.decoding
    for name, value in _family(translator)[1].layers.items():
        if (received := getattr(config, name)) != value:
            yield f"{name} must be {value!r}, received {received!r}"
    if translator.languages:
        yield from _obstacles_of_languages(translator)
    if abs(config.layer_norm_epsilon - LAYER_NORM_EPSILON) > LAYER_NORM_EPSILON:
        yield f"layer_norm_epsilon must be at most 2e-5, received {config.layer_norm_epsilon}"
    heads = {"num_heads": config.num_heads, "decoder_num_heads": config.decoder_num_heads}
    key_dim, value_dim = config.key_dim, config.value_dim
    for name, count in heads.items():
        if count and any(size and size * count != config.d_model for size in (key_dim, value_dim)):
            yield (
                f"key_dim and value_dim must be d_model / {name} = {config.d_model / count:g}, "
                f"received {key_dim} and {value_dim or key_dim}"
            )
    if config.d_model % 2:
        yield f"d_model must be even, received {config.d_model}"
    if other := other_position(translator.model):
        yield f"position must be one of {', '.join(map(repr, TABLES))}, received {other}"
    if not all(isinstance(t, SentencePieceTokenizer) for t in _tokenizers(translator)):
        yield "the tokenizers must be SentencePieceTokenizers, received another kind"
    else:
        source, target = (pieces[: EOS_ID + 1] for pieces in _pieces(translator))
        if source != target:
            yield (
                "the special tokens must have the same names in both vocabularies, received "
                f"{' '.join(source)} and {' '.join(target)}"
            )
    if decoding.prefix:
        yield f"decoding.prefix must be empty, received {decoding.prefix!r}"
    if decoding.protect:
        yield f"decoding.protect must be empty, received {decoding.protect!r}"


def _obstacles_of_languages(translator: Translator) -> Iterator[str]:
    config, bias = translator.model.config, translator.model.output_bias
    if config.target_vocab_size is not None:
        yield "source and target must share a vocabulary, received one that is restricted"
        return
    if config.share_embeddings == "target":
        yield "share_embeddings must be 'all', 'inputs' or 'none', received 'target'"
    if not _family(translator)[1].has_output_bias and bias is not None:
        others = np.delete(array_of(bias), BOS_ID)
        if others.any():
            yield (
                "output_bias must be zero, as M2M100 and NLLB have none, received one of up to "
                f"{np.abs(others).max():.2g}"
            )


def _options(
    translator: Translator, special: Mapping[str, int], order: Sequence[int] | None
) -> dict[str, Any]:
    config, decoding = translator.model.config, translator.decoding
    kind, family = _family(translator)
    whole = dataclasses.replace(
        config,
        num_decoder_layers=config.decoder_layers,
        decoder_d_ff=config.decoder_inner_size,
        decoder_num_heads=config.decoder_heads,
    )
    activation = next(name for name, ours in ACTIVATIONS.items() if ours == config.activation)
    longest = max(decoding.max_source_length, decoding.longest(decoding.max_source_length))
    shared = {
        "model_type": kind,
        "architectures": [family.model],
        "dtype": "float32",
        "is_encoder_decoder": True,
        "vocab_size": len(order or range(config.vocab_size)),
        **{theirs: getattr(whole, ours) for theirs, ours in OPTIONS.items()},
        "activation_function": activation,
        **special,
        "forced_eos_token_id": None,
    }
    if translator.languages:
        is_learned = config.position == "learned"
        return shared | {
            "max_position_embeddings": config.max_length if is_learned else longest,
            "tie_word_embeddings": config.share_embeddings == "all",
        }
    return shared | {
        "decoder_vocab_size": config.target_size,
        "max_position_embeddings": longest,
        **UNREAD,
        "share_encoder_decoder_embeddings": config.share_embeddings in ("all", "inputs"),
        "tie_word_embeddings": config.share_embeddings in ("all", "target"),
    }


def _tokenizer_files(translator: Translator) -> dict[str, Any]:
    """Return bytes, or the contents of JSON files, by their names."""
    decoding = translator.decoding
    if translator.languages:
        languages = decoding.source_language, decoding.target_language
        return write_languages(translator.tokenizer, languages)
    source, target = _tokenizers(translator)
    return write_sides(source, target, decoding.max_source_length)


def _weights(
    translator: Translator, order: Sequence[int] | None, longest: int
) -> dict[str, np.ndarray]:
    """Return the weights by Hugging Face's names, with tables of `longest` positions."""
    model, config = translator.model, translator.model.config
    read = _reader(model)
    rows: Any = slice(None) if order is None else order
    columns = np.arange(config.d_model)
    if config.position == "sinusoidal":  # Sines come first; ours are interleaved.
        columns = columns.reshape(-1, 2).T.reshape(-1)
    uses = {
        "model.encoder.embed_tokens.weight": model.source_embedding,
        "model.decoder.embed_tokens.weight": model.target_embedding,
        "model.shared.weight": model.source_embedding,
    }
    if config.share_embeddings == "all":
        uses = {"model.shared.weight": model.source_embedding}
    elif config.share_embeddings != "inputs" and not translator.languages:
        del uses["model.shared.weight"]
    if config.share_embeddings in ("inputs", "none"):
        uses["lm_head.weight"] = model.output_embedding
    found = {
        name: read(f"{layer.name}/embeddings")[:, columns][rows] for name, layer in uses.items()
    }
    if _family(translator)[1].has_output_bias:
        bias = read("output_bias")
        bias = np.zeros(config.target_size, "float32") if bias is None else bias
        found["final_logits_bias"] = bias[np.newaxis, rows]
    for weight in layer_weights(config):
        value = read(weight.path)
        value = np.zeros(weight.shape(config), "float32") if value is None else value
        if (axis := _D_MODEL_AXES.get(weight.name)) is not None:
            value = np.take(value, columns, axis)
        found[weight_name(weight)] = value.T if weight.name.endswith("_kernel") else value
    found |= {name: read(place) for place, name in norm_names(config).items()}
    kinds = ["learned"] if translator.languages else ["learned", "tensor2tensor"]
    unused = _family(translator)[1].unused_positions
    for stack, side in STACKS.items() if config.position in kinds else ():
        table = array_of(getattr(model, f"{side}_position").encoding(longest))
        found[table_name(stack)] = np.pad(table, [[unused, 0], [0, 0]])
    # The file takes the bytes of an array in the order in which they lie in memory.
    return {name: np.array(value, order="C") for name, value in found.items()}


def _reader(model: Transformer) -> Callable[[str], Any]:
    """Return a function of the path of a weight: its value, with LoRA or from int8.

    It returns None for a bias that the model lacks, and raises a ValueError for other weights.
    """
    layers = model.kernel_layers()
    weights = {weight_place(weight.path): weight for weight in model.weights}

    def read(path):
        layer, _, name = path.rpartition("/")
        is_kernel = layer in layers and name in layers[layer].kernel_names
        weight = layers[layer].kernel(name) if is_kernel else weights.get(path)
        if weight is None and not name.endswith("_bias"):
            raise ValueError(f"The model has no weight {path}.")
        return None if weight is None else array_of(weight)

    return read
