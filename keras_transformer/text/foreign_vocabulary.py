"""Vocabularies of Marian and Hugging Face, and the text normalization of OPUS-MT.

These programs split text with a SentencePiece model, and look the pieces up in a separate
vocabulary. Here, both become one SentencePiece model, with the ids of that vocabulary in our order:
pad, unk, bos, eos, then the others.
"""

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID

Normalization = Literal["none", "opus"]
_FIELD = 200
"""The number of our entry in the model; SentencePiece leaves those from 200 on to others."""

_REPLACEMENTS = {
    "[，、]": ",",
    "[。．] *": ". ",
    "[”“《》」「１]": '"',  # The scripts have a quotation mark for a wide 1.
    "[∶：]": ":",
    "？": "?",
    "）": ")",
    "！": "!",
    "（": "(",
    "；": ";",
    "～": "~",
    "’": "'",
    "…": "...",
    "━": "-",
    "〈": "<",
    "〉": ">",
    "【": "[",
    "】": "]",
    "％": "%",
    **{wide: str(digit) for digit, wide in enumerate("０１２３４５６７８９") if digit != 1},
    # Control characters, then spaces.
    r"[^\n\PC]": " ",
    " +": " ",
    "^ | $": "",
}


@dataclasses.dataclass(frozen=True)
class ForeignVocabulary:
    """Metadata that `join_vocabulary` stores in a model.

    >>> ForeignVocabulary(vocab_size=58_102).normalization
    'none'
    """

    vocab_size: int
    """Number of pieces of the vocabulary (V). The model holds more: pieces that text is split into,
    and that are unknown."""
    normalization: Normalization = "none"
    """What is done to text first: nothing, as Hugging Face does, or what the scripts of OPUS-MT do
    (see `normalize_opus`)."""
    languages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The piece of each language by its code, such as `{"en": "__en__"}`."""
    language_comes_last: bool = False
    """Whether the language of a source follows eos instead of preceding the text."""


def join_vocabulary(
    model: bytes,
    pieces: Sequence[str],
    normalization: Normalization = "none",
    *,
    languages: Mapping[str, str] | None = None,
    language_comes_last: bool = False,
    silent: Collection[str] = (),
) -> bytes:
    """Return a SentencePiece model that splits text as another one does, with other ids.

    A BPE model splits a run of characters that only the vocabulary has into single ones.

    Args:
        model: The SentencePiece model that splits the text.
        pieces: The pieces in the order of their ids, the first four being pad, unk, bos and eos.
            Pieces that the model lacks are never part of a text, and are written unchanged.
        normalization: See `ForeignVocabulary`.
        languages: See `ForeignVocabulary`.
        language_comes_last: See `ForeignVocabulary`.
        silent: Pieces that are no text, and are not written.

    Raises:
        ValueError: If `model` is not a SentencePiece model, or pieces occur twice.

    >>> from keras_transformer.text import train_sentencepiece
    >>> model = train_sentencepiece(["a dog", "a cat"], vocab_size=269)
    >>> joined = join_vocabulary(model, ["<pad>", "<unk>", "<s>", "</s>", "▁", "t", "a", "c"])
    >>> from keras_transformer.text import SentencePieceTokenizer
    >>> tokenizer = SentencePieceTokenizer(joined)
    >>> tokenizer.vocab_size
    8
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as schema

    try:
        proto = schema.ModelProto.FromString(model)
    except DecodeError as error:
        raise ValueError(
            f"model must be the bytes of a SentencePiece model, received {len(model)} other bytes."
        ) from error
    if repeated := len(pieces) - len(set(pieces)):
        raise ValueError(f"pieces must differ, received {repeated} that occurred before.")
    kind = schema.ModelProto.SentencePiece
    known = {piece.piece: piece for piece in proto.pieces}
    # BPE merges through unused pieces, and splits them again. With the lowest score, that comes
    # last, and changes nothing.
    lowest = min((piece.score for piece in proto.pieces), default=0.0) - 1.0
    text_kinds = kind.NORMAL, kind.USER_DEFINED, kind.BYTE, kind.UNUSED
    joined = []
    silent = frozenset(silent)
    for i, name in enumerate(pieces):
        piece = kind(piece=name, score=lowest, type=kind.UNUSED)
        if i == UNK_ID:
            piece.type = kind.UNKNOWN
        elif i in (PAD_ID, BOS_ID, EOS_ID) or name in silent:
            piece.type = kind.CONTROL
        elif name in known and known[name].type in text_kinds:
            piece.CopyFrom(known[name])
        joined.append(piece)
    names = set(pieces)
    joined += [p for p in proto.pieces if p.type in text_kinds and p.piece not in names]

    del proto.pieces[:]
    proto.pieces.extend(joined)
    spec = proto.trainer_spec
    spec.vocab_size = len(joined)
    for i, name in ((PAD_ID, "pad"), (UNK_ID, "unk"), (BOS_ID, "bos"), (EOS_ID, "eos")):
        setattr(spec, f"{name}_id", i)
        setattr(spec, f"{name}_piece", pieces[i])
    facts = dataclasses.asdict(
        ForeignVocabulary(len(pieces), normalization, dict(languages or {}), language_comes_last)
    )
    return proto.SerializeToString() + _entry(json.dumps(facts).encode())


def split_vocabulary(model: bytes) -> bytes:
    """Return a SentencePiece model without the metadata that `join_vocabulary` stored in it.

    Args:
        model: A SentencePiece model; returned unchanged if `join_vocabulary` did not make it.

    Returns:
        A model that splits text in the same way, and joins pieces that it does not have as they
        are.

    >>> from keras_transformer.text import train_sentencepiece
    >>> model = train_sentencepiece(["a dog", "a cat"], vocab_size=269)
    >>> joined = join_vocabulary(model, ["<pad>", "<unk>", "<s>", "</s>", "t", "a", "c"])
    >>> read_foreign_vocabulary(joined) is None, read_foreign_vocabulary(split_vocabulary(joined))
    (False, None)
    """
    from sentencepiece import sentencepiece_model_pb2 as schema

    if read_foreign_vocabulary(model) is None:
        return model
    proto: Any = schema.ModelProto.FromString(model)
    proto.DiscardUnknownFields()
    return proto.SerializeToString()


def select_pieces(model: bytes, used: Collection[int]) -> tuple[bytes, list[int]]:
    """Return a SentencePiece model that has some of the ids of another one, and these ids.

    Besides those that are used, these are the ids of pieces that are not learned, such as bytes and
    languages; of pieces without letters; and of the single characters of pieces that are used.

    Args:
        model: A SentencePiece model.
        used: The ids that are used.

    >>> from keras_transformer.text import train_sentencepiece
    >>> model = train_sentencepiece(["two dogs", "two cats"], vocab_size=276)
    >>> from keras_transformer.text import SentencePieceTokenizer
    >>> tokenizer = SentencePieceTokenizer(model)
    >>> _, kept = select_pieces(model, set(tokenizer.tokenize(["to"])[0].numpy().tolist()))
    >>> len(kept) < 276, {"t", "o"} <= set(tokenizer.id_to_piece(kept))
    (True, True)
    """
    from sentencepiece import sentencepiece_model_pb2 as schema

    proto: Any = schema.ModelProto.FromString(model)
    foreign = read_foreign_vocabulary(model) or ForeignVocabulary(len(proto.pieces))
    pieces, kind = proto.pieces[: foreign.vocab_size], schema.ModelProto.SentencePiece
    characters = set("".join(pieces[i].piece for i in used))
    kept = []
    for i, piece in enumerate(pieces):
        text = piece.piece.removeprefix("▁")
        is_learned = piece.type in (kind.NORMAL, kind.UNUSED)
        if i in used or not is_learned or text in characters or not any(map(str.isalpha, text)):
            kept.append(i)
    joined = join_vocabulary(
        split_vocabulary(model),
        [pieces[i].piece for i in kept],
        foreign.normalization,
        languages=foreign.languages,
        language_comes_last=foreign.language_comes_last,
        silent=[piece.piece for piece in pieces if piece.type == kind.CONTROL],
    )
    return joined, kept


def read_foreign_vocabulary(model: bytes) -> ForeignVocabulary | None:
    """Return the metadata that `join_vocabulary` stored in a model, or None for other models."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    from sentencepiece import sentencepiece_model_pb2 as schema

    if _entry(b"")[:2] not in model:  # Parsing takes a while.
        return None
    proto: Any = schema.ModelProto.FromString(model)
    fields: Any = UnknownFieldSet(proto)
    for field in fields:
        if field.field_number == _FIELD:
            return ForeignVocabulary(**json.loads(field.data))
    return None


def _entry(content: bytes) -> bytes:
    """Return a field of a protocol buffer that holds bytes."""
    return _varint(_FIELD << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    groups = []
    while number >= 128:
        groups.append(number % 128 | 128)
        number //= 128
    return bytes([*groups, number])


def normalize_opus(text: tf.Tensor) -> tf.Tensor:
    """Return texts as the preprocessing scripts of OPUS-MT give them to SentencePiece.

    They replace wide punctuation and digits by narrow ones, control characters (`\\p{C}` but for
    unassigned code points) by spaces, and several spaces by one.

    Args:
        text: UTF-8 strings [B].

    >>> normalize_opus(tf.constant(["你好，  世界！", "“a”…\\u200b b "])).numpy()[1].decode()
    '"a"... b'
    """
    for pattern, replacement in _REPLACEMENTS.items():
        text = tf.strings.regex_replace(text, pattern, replacement)
    return text
