"""SentencePiece in a TensorFlow graph: strings to token ids and back; training of vocabularies."""

import functools
import hashlib
import io
import re
import tempfile
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the ops

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.config.data import can_be_symbol
from keras_transformer.text.base import (
    NO_TEXT,
    LanguageTags,
    StringTable,
    Tokenizer,
    check_coverage,
    is_language_tag,
)
from keras_transformer.text.bpe_dropout import BPEDropout
from keras_transformer.text.foreign_vocabulary import normalize_opus, read_foreign_vocabulary
from keras_transformer.text.normalization import rule_tables
from keras_transformer.utils.devices import available_cores

_NBEST_SIZE, _ALPHA = 0, 1.0  # no sampling
_OPTIONS = (False, False, False)  # add_bos, add_eos, reverse
_ERRORS_ONLY = 2
_NORMALIZATIONS = "nfkc", "nfc", "identity"
_MOST_BYTES = 4192
"""SentencePiece leaves out longer lines. Another limit would be a part of the vocabulary's file."""
_MOST_CHARACTERS = _MOST_BYTES // 4
_PARTS = re.compile(rf"(?s).{{1,{_MOST_CHARACTERS}}}(?![^ ])|.{{1,{_MOST_CHARACTERS}}}")


class SentencePieceTokenizer(Tokenizer):
    """Tokenize with a SentencePiece model (Kudo and Richardson, 2018) inside a TensorFlow graph.

    Adds `decode` and `drop_merges` to the methods of `Tokenizer`. If the vocabulary has tags such
    as `>>de<<`, a tag at the start of a text becomes its first token; see `LanguageTags`.

    Args:
        model: A SentencePiece model as bytes, with pad 0, unk 1, bos 2 and eos 3, such as
            `train_sentencepiece` and `join_vocabulary` return.

    Attributes:
        model: The SentencePiece model, as bytes.
        vocab_size: Number of pieces in the vocabulary (V), including control pieces.

    Raises:
        ImportError: If sentencepiece is not installed.
        TypeError: If `model` is not bytes.
        ValueError: If `model` is not a SentencePiece model, or has other special ids.

    >>> from keras_transformer.text import train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a dog", "a cat"], vocab_size=269))
    >>> ids = tokenizer.tokenize(["a cat", "", "a dog 🐕"])
    >>> [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    ['a cat', '', 'a dog 🐕']
    """

    _KIND = "SentencePiece model"
    _TRAINED_BY = "train_sentencepiece"

    def _read(self, model: bytes) -> list[str]:
        self._processor = _load(model)
        self._foreign = read_foreign_vocabulary(model)
        size = self._foreign.vocab_size if self._foreign else self._processor.get_piece_size()
        pieces = [self._processor.id_to_piece(i) for i in range(size)]
        ids = {piece: i for i, piece in enumerate(pieces)}
        tags = {piece: i for piece, i in ids.items() if is_language_tag(piece)}
        self._tags = LanguageTags(tags) if tags else None
        if self._foreign is not None:
            self._table = StringTable({piece: i for piece, i in ids.items() if i > EOS_ID})
            self.languages = {code: ids[piece] for code, piece in self._foreign.languages.items()}
            self.language_comes_last = self._foreign.language_comes_last
            self._tags = None if self.languages else LanguageTags(tags, any_text=True)
        period = self._processor.piece_to_id("<0x2E>")
        self._period = period if self._processor.is_byte(period) else None
        encode = self._processor.encode
        blanks = {self._blank: "a \t\n\f\r\u00a0\u2028\u3000b", " {2,}": "a  b", "": "a b"}
        self._blank = next(x for x, text in blanks.items() if encode(text) == encode("a b"))
        is_whole = "".join(self._processor.encode_as_pieces(" ")) == "▁▁"
        self.keeps_white_space = is_whole and self._foreign is None and self._period is not None
        return pieces

    @property
    def language_tags(self) -> list[str]:
        """The tags of the vocabulary, such as `[">>de<<", ">>fr<<"]`."""
        return list(self._tags.ids) if self._tags else []

    @property
    def tag_ids(self) -> frozenset[int]:
        """The ids of `language_tags`."""
        return frozenset(self._tags.ids.values() if self._tags else ())

    @property
    def normalization(self) -> str:
        """The normalization that `train_sentencepiece` was given; "nfkc" for other models."""
        name = self._proto.normalizer_spec.name
        is_ours = name == "nfc" or (name == "identity" and self.keeps_white_space)
        return name if is_ours and self._foreign is None else "nfkc"

    @functools.cached_property
    def user_symbols(self) -> list[str]:
        """The pieces that are never split, such as `["%s", "<b>"]`."""
        kind = self._proto.SentencePiece.USER_DEFINED
        return [piece.piece for piece in self._proto.pieces[EOS_ID + 1 :] if piece.type == kind]

    @functools.cached_property
    def _proto(self) -> Any:
        from sentencepiece import sentencepiece_model_pb2 as schema

        return schema.ModelProto.FromString(self.model)

    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        tags = None
        if self._tags is not None:
            text, tags = self._tags.split(text)
            if self.keeps_white_space:  # A space after the tag belongs to it.
                rest = tf.strings.regex_replace(text, "^ ", "", replace_global=False)
                text = tf.where(tags >= 0, rest, text)
        if self._foreign is not None and self._foreign.normalization == "opus":
            text = normalize_opus(text)
        if self._foreign is None:
            ids = self._split(text)
        else:
            # A character that the model does not know may be in the vocabulary.
            pieces = self._split_into_pieces(text)
            ids = pieces.with_values(self._table(pieces.values, default=UNK_ID))
        if tags is None:
            return ids
        has_tag = tags >= 0
        first = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(tags, has_tag), tf.cast(has_tag, tf.int64), validate=False
        )
        return tf.concat([first, ids], axis=1)

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of texts in memory; see `Tokenizer.encode`.

        SentencePiece itself encodes them, on all cores and in half the time of its op in a graph.
        """
        if self._foreign is not None:  # SentencePiece does not know its ids.
            return super().encode(texts)
        tags: list[int] = []
        if self._tags is not None:
            texts, tags = self._tags.split_strings(texts)
            if self.keeps_white_space:
                pairs = zip(tags, texts, strict=True)
                texts = [text.removeprefix(" ") if tag >= 0 else text for tag, text in pairs]
        rows = self._processor.encode(list(texts), num_threads=available_cores())
        if self._tags is not None:
            rows = [[tag, *row] if tag >= 0 else row for tag, row in zip(tags, rows, strict=True)]
        counts = np.fromiter(map(len, rows), np.int64, len(rows))
        return np.fromiter(chain.from_iterable(rows), np.int32, counts.sum()), counts

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """Return the texts of ids in memory, as `detokenize` does, on all cores.

        Args:
            ids: Token ids of each sentence, without bos and eos.

        >>> from keras_transformer.text import train_sentencepiece
        >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a cat"], vocab_size=265))
        >>> tokenizer.decode(tokenizer.tokenize(["a cat", ""]).to_list())
        ['a cat', '']
        """
        if self._foreign is not None:  # SentencePiece does not know its ids.
            rows = tf.RaggedTensor.from_row_lengths(
                np.fromiter(chain.from_iterable(ids), np.int32), [len(row) for row in ids]
            )
            return [text.decode() for text in self.detokenize(rows).numpy()]
        return self._processor.decode([list(row) for row in ids], num_threads=available_cores())

    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        # A single id outside the vocabulary would make the op fail for the whole batch.
        is_text = (ids > EOS_ID) & (ids < self.vocab_size)
        if self._foreign is None:
            is_text |= ids == UNK_ID
        values = tf.cast(tf.boolean_mask(ids, is_text), tf.int32)
        counts = tf.reduce_sum(tf.cast(is_text, tf.int64), axis=1)
        rows = tf.RaggedTensor.from_row_lengths(values, counts, validate=False)
        if self.keeps_white_space:
            # The op would drop all spaces at the start. It keeps those after another character.
            period = tf.fill([rows.nrows(), 1], tf.constant(self._period, tf.int32))
            text = self._join(tf.concat([period, rows], axis=1))
            return tf.strings.regex_replace(text, r"^\. ?", "", replace_global=False)
        text = self._join(rows)
        return text if self._foreign is None else tf.strings.strip(text)

    def drop_merges(self, ids: Sequence[Sequence[int]], rate: float, seed: int) -> list[list[int]]:
        """Segment sentences again with random merges left out.

        This is BPE-dropout (Provilkov et al., 2020), a regularization: a model that sees different
        segmentations of the same words learns their composition. It needs a model trained with
        `model_type="bpe"`.

        Args:
            ids: Token ids of each sentence, without bos, eos and unk.
            rate: Probability of leaving out a merge, from 0 to 1.
            seed: Seed of the segmentation; equal seeds give equal results.

        Returns:
            The new token ids of each sentence.

        >>> from keras_transformer.text import train_sentencepiece
        >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab ab"], vocab_size=265))
        >>> [ids] = tokenizer.drop_merges(tokenizer.tokenize(["ab ab"]).to_list(), rate=1, seed=7)
        >>> tokenizer.id_to_piece(ids)
        ['▁', 'a', 'b', '▁', 'a', 'b']
        """
        return self.bpe_dropout(ids, rate, seed)

    @functools.cached_property
    def bpe_dropout(self) -> BPEDropout:
        """What `drop_merges` calls; it doesn't need TensorFlow."""
        processor, pieces = self._processor, self._pieces_by_id
        no_merges = processor.is_control, processor.is_unknown, processor.is_byte
        symbols = set(self.user_symbols)
        scores = {
            i: processor.get_score(i)
            for i, piece in enumerate(pieces)
            if len(piece) > 1
            and piece not in symbols
            and not any(is_other(i) for is_other in no_merges)
        }
        return BPEDropout(pieces, scores)

    # These are TensorFlow Text's ops, called by name: its Python class would add the model to the
    # graph, and load it, once for every place that uses it. The shared name makes them one
    # resource, which survives keras.utils.set_random_seed (it empties TensorFlow's cache of eager
    # kernels). The options are state of the resource, which concurrent calls with other options
    # would change, so all calls use the same.

    @tf.function(input_signature=[])
    def _resource(self):
        name = hashlib.sha256(self.model).hexdigest().encode()
        return _op("SentencepieceOp", [], [tf.resource], model=self.model, shared_name=name)[0]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def _split(self, text):
        inputs = [self._resource(), text, _NBEST_SIZE, _ALPHA, *_OPTIONS]
        return tf.RaggedTensor.from_row_splits(
            *_op("SentencepieceTokenizeOp", inputs, [tf.int32, tf.int64]), validate=False
        )

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def _split_into_pieces(self, text):
        inputs = [self._resource(), text, _NBEST_SIZE, _ALPHA, *_OPTIONS]
        dtypes = [tf.string, tf.int64]
        outputs = _op("SentencepieceTokenizeOp", inputs, dtypes, out_type=tf.string)
        return tf.RaggedTensor.from_row_splits(*outputs, validate=False)

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def _join(self, ids):
        inputs = [self._resource(), ids.values, ids.row_splits, *_OPTIONS]
        return _op("SentencepieceDetokenizeOp", inputs, [tf.string])[0]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
    def _pieces(self, ids):
        return _op("SentencepieceIdToStringOp", [self._resource(), ids], [tf.string])[0]


def _op(
    name: str, inputs: Sequence[Any], dtypes: Sequence[tf.DType], **attributes: bytes | tf.DType
) -> list[tf.Tensor]:
    """Add an op to the current graph and return its outputs."""
    attrs = {
        key: tf.compat.v1.AttrValue(type=value.as_datatype_enum)
        if isinstance(value, tf.DType)
        else tf.compat.v1.AttrValue(s=value)
        for key, value in attributes.items()
    }
    inputs = [tf.convert_to_tensor(value) for value in inputs]
    return tf.compat.v1.get_default_graph().create_op(name, inputs, dtypes, attrs=attrs).outputs


def import_sentencepiece() -> ModuleType:
    """Return the package sentencepiece, which word pieces do without.

    Raises:
        ImportError: If sentencepiece is not installed.
    """
    try:
        import sentencepiece
    except ImportError as error:
        raise ImportError(
            "SentencePiece vocabularies need the package sentencepiece: pip install sentencepiece"
        ) from error
    return sentencepiece


def _load(model: bytes) -> Any:
    """Return the SentencePieceProcessor of a model, or raise a ValueError for other bytes."""
    processor = import_sentencepiece().SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(
            f"model must be the bytes of a SentencePiece model, received {len(model)} other bytes "
            f"({error}). Read a file that spm_train or train_sentencepiece wrote."
        ) from error
    received = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if received != (PAD_ID, UNK_ID, BOS_ID, EOS_ID):
        raise ValueError(
            "a SentencePiece model must have pad 0, unk 1, bos 2 and eos 3, received "
            "pad {}, unk {}, bos {} and eos {}. Train it with train_sentencepiece, or give "
            "spm_train --pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3.".format(*received)
        )
    return processor


def train_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    *,
    model_type: str = "bpe",
    character_coverage: float = 1.0,
    byte_fallback: bool = True,
    language_tags: Sequence[str] = (),
    user_symbols: Sequence[str] = (),
    normalization: str = "nfkc",
) -> bytes:
    """Train a SentencePiece vocabulary with pad 0, unk 1, bos 2 and eos 3.

    For a joint vocabulary, which the paper's English-German models use for source, target and
    softmax (Section 5.1), pass the lines of both languages; for separate vocabularies, call the
    function once for each. Training is deterministic. The vocabulary contains the rules of its
    normalization, so training and serving normalize text in the same way.

    Args:
        lines: Raw sentences. Those of more than 4,192 bytes are cut, at spaces if they have some.
        vocab_size: Exact number of pieces (V), including control pieces and bytes.
        model_type: "bpe" (byte pair encoding, as in the paper) or "unigram".
        character_coverage: Share of the text's characters, 0.98 to 1, that become pieces; 0.9995
            is usual for languages with thousands of characters.
        byte_fallback: Whether to spell other characters as their UTF-8 bytes, so that no text
            becomes unk. This takes 256 pieces.
        language_tags: Tags of target languages, such as `>>de<<`, which get the ids from 4 on.
            Inside a text, they are text.
        user_symbols: Texts such as `%s` that are never split or joined with others.
        normalization: "nfkc" is SentencePiece's own: it replaces characters by their plain
            equivalents, and white space by single spaces. "nfc" composes accents, and joins spaces.
            With "identity", `detokenize` returns what `tokenize` was given; this needs
            `byte_fallback`.

    Returns:
        The vocabulary as bytes, for `SentencePieceTokenizer`.

    Raises:
        ImportError: If sentencepiece is not installed.
        ValueError: If an argument is out of range, the lines have no text, or `vocab_size` is too
            large or too small for them.

    >>> from keras_transformer.text import SentencePieceTokenizer
    >>> SentencePieceTokenizer(train_sentencepiece(["a dog", "a cat"], vocab_size=269)).vocab_size
    269
    """
    _check_sizes(vocab_size, model_type, character_coverage)
    _check_text_options(language_tags, user_symbols, normalization, byte_fallback)
    options: dict[str, Any] = {
        "vocab_size": vocab_size,
        "model_type": model_type,
        "character_coverage": character_coverage,
        "byte_fallback": byte_fallback,
        "control_symbols": list(dict.fromkeys(language_tags)),
    }
    if user_symbols:
        options["user_defined_symbols"] = list(dict.fromkeys(user_symbols))
    try:
        if normalization == "nfkc":
            return _trained(lines, **options)
        return _trained_with_rules(lines, normalization, **options)
    except RuntimeError as error:
        raise _explained(error, vocab_size) from error


def _check_sizes(vocab_size: int, model_type: str, character_coverage: float) -> None:
    if model_type not in ("bpe", "unigram"):
        raise ValueError(
            f"model_type must be 'bpe' or 'unigram', received {model_type!r}. "
            "Use 'bpe' for the paper's byte pair encoding."
        )
    check_coverage(character_coverage)
    if vocab_size < 1:
        raise ValueError(f"vocab_size must be positive, received {vocab_size}. Try 8000.")


def _check_text_options(
    language_tags: Sequence[str],
    user_symbols: Sequence[str],
    normalization: str,
    byte_fallback: bool,
) -> None:
    for tag in language_tags:
        if not is_language_tag(tag):
            raise ValueError(f"language_tags must be such as >>de<<, received {tag!r}.")
    for symbol in user_symbols:
        if not can_be_symbol(symbol):
            raise ValueError(
                "user_symbols must be printable, without white space or ▁, and no pieces of every "
                f"vocabulary such as <s>, received {symbol!r}. Leave it out."
            )
    if normalization not in _NORMALIZATIONS:
        raise ValueError(
            f"normalization must be one of {', '.join(_NORMALIZATIONS)}, received "
            f"{normalization!r}."
        )
    if normalization == "identity" and not byte_fallback:
        raise ValueError(
            "normalization='identity' must have byte_fallback, so that no character becomes unk, "
            "received byte_fallback=False. Leave it out."
        )


def _trained(lines: Iterable[str], **options: Any) -> bytes:
    model = io.BytesIO()
    import_sentencepiece().SentencePieceTrainer.train(
        sentence_iterator=chain.from_iterable(map(_cut, lines)),
        model_writer=model,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        # Each thread adds up a partial sum, so another number of threads changes the scores.
        num_threads=16,
        minloglevel=_ERRORS_ONLY,
        **options,
    )
    return model.getvalue()


def _cut(line: str) -> list[str]:
    """Return the parts of a line that is too long for SentencePiece."""
    is_short = len(line) <= _MOST_CHARACTERS or len(line.encode(errors="replace")) <= _MOST_BYTES
    return [line] if is_short else [part.removeprefix(" ") for part in _PARTS.findall(line)]


def _trained_with_rules(lines: Iterable[str], normalization: str, **options: Any) -> bytes:
    """Train a vocabulary with rules that SentencePiece itself does not have."""
    import_sentencepiece()
    from sentencepiece import sentencepiece_model_pb2 as schema

    with tempfile.TemporaryDirectory() as folder:
        keys = "normalization_rule_tsv", "denormalization_rule_tsv"
        for key, table in zip(keys, rule_tables(normalization), strict=True):
            options[key] = str(Path(folder) / key)
            Path(options[key]).write_text(table, encoding="utf-8")
        keeps_white_space = normalization == "identity"
        options["remove_extra_whitespaces"] = not keeps_white_space
        options["allow_whitespace_only_pieces"] = keeps_white_space
        model = _trained(lines, **options)
    proto: Any = schema.ModelProto.FromString(model)
    proto.normalizer_spec.name = normalization
    proto.trainer_spec.ClearField("input")
    for spec in (proto.normalizer_spec, proto.denormalizer_spec):
        spec.ClearField("normalization_rule_tsv")  # A temporary file.
    return proto.SerializeToString(deterministic=True)


class VocabularyTooLargeError(ValueError):
    """The text has too few different parts of words for a vocabulary.

    Args:
        largest: The largest size that it can fill.
        received: The size that was asked for.
    """

    def __init__(self, largest: int, received: int):
        super().__init__(
            f"vocab_size must be at most {largest} for these lines, received {received}. Use a "
            "smaller vocab_size (model.vocab_size) or more text."
        )
        self.largest = largest


def _explained(error: RuntimeError, vocab_size: int) -> Exception:
    """Return an error of SentencePiece in terms of the arguments of `train_sentencepiece`."""
    message = str(error)
    if "sentences_.empty()" in message or "all_chars_count" in message:
        return ValueError(NO_TEXT)
    if largest := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        return VocabularyTooLargeError(int(largest[1]), vocab_size)
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return ValueError(
            f"vocab_size must be at least {smallest[1]} for these lines (control pieces, bytes, "
            f"user symbols and single characters), received {vocab_size}. Use a larger vocab_size "
            "(model.vocab_size) or a smaller character_coverage (data.character_coverage)."
        )
    return error
