"""The base class of tokenizers, and what several of them use: string tables and language tags."""

import abc
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
import tensorflow as tf

from keras_transformer.config import PAD_ID, UNK_ID
from keras_transformer.utils.files import whole_file

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
"""The first pieces of the vocabularies that this library makes itself."""
NO_TEXT = (
    "lines must contain text to train a vocabulary on, received no text. Check that the files are "
    "not empty."
)
"""The message of an error."""

_NUM_HASHES = 2**62

_TAG = r">>[^<>\s]+<<"
_ANY_TEXT = r"(?s)>>.*?<<"


class Tokenizer(tf.Module, abc.ABC):
    """Convert strings to token ids and back, inside a TensorFlow graph.

    Base class of all tokenizers, such as `SentencePieceTokenizer`. A tokenizer adds neither bos
    nor eos. Its vocabulary is part of the graph, so a SavedModel needs no vocabulary file.

    Args:
        model: The vocabulary, as bytes.

    Attributes:
        model: The vocabulary, as bytes.
        vocab_size: Number of pieces in the vocabulary (V), including control pieces.
        keeps_white_space: Whether a text comes back with all of its white space.

        languages: The id of each language by its code, such as `{"eng_Latn": 256047}`, in the
            vocabulary of a model of many languages; otherwise empty.
        language_comes_last: Whether the language of a source follows eos instead of preceding the
            text.

    Raises:
        TypeError: If `model` is not bytes.
        ValueError: If `model` is not a vocabulary of this kind.
    """

    keeps_white_space = False
    languages: Mapping[str, int] = MappingProxyType({})
    language_comes_last = False

    _blank = r"[\s\pZ]{2,}"
    """A regular expression of white space that has the tokens of one space; "" for none."""
    _KIND: ClassVar[str]
    """Name of the kind of vocabulary, for error messages."""
    _TRAINED_BY: ClassVar[str]
    """Name of the function that trains such a vocabulary, for error messages."""

    def __init__(self, model: bytes):
        super().__init__()
        if not isinstance(model, bytes):
            raise TypeError(
                f"model must be the bytes of a {self._KIND}, received {type(model).__name__}. "
                f"Use {type(self).__name__}.from_file for a path."
            )
        self._pieces_by_id = self._read(model)
        self.model = model
        self.vocab_size = len(self._pieces_by_id)
        # In bytes, before normalization: a character of UTF-8 has at most 4.
        self._longest_piece = 4 * max(len(piece) for piece in self._pieces_by_id)

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        return type(self), (self.model,)  # For processes that encode text.

    @abc.abstractmethod
    def _read(self, model: bytes) -> list[str]:
        """Return the pieces of a vocabulary, or raise a ValueError for other bytes."""

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Self:
        """Return the tokenizer of a vocabulary file.

        Args:
            path: The file.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is not a vocabulary of this kind.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} must be a {cls._KIND}, but does not exist. Check the path, or train one "
                f"with keras_transformer.text.{cls._TRAINED_BY}."
            )
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is not a {cls._KIND}, or is damaged: {error}") from error

    def save(self, path: str | os.PathLike) -> None:
        """Write the vocabulary to a file that `from_file` reads.

        Args:
            path: The file. It appears only when it is complete.
        """
        with whole_file(Path(path)) as temporary:
            temporary.write_bytes(self.model)

    def tokenize(self, text: tf.Tensor, max_length: int | None = None) -> tf.RaggedTensor:
        """Split each text into tokens.

        Args:
            text: UTF-8 strings [B]. Bytes that are not UTF-8 are read as U+FFFD.
            max_length: Most tokens of a text; the rest is cut off. Bytes that cannot belong to the
                first `max_length` tokens, judging by the longest piece, are not split.

        Returns:
            int32 ids [B, None], ragged, without bos and eos. An empty text has no ids.
        """
        text = tf.convert_to_tensor(text, tf.string)
        if max_length is None:
            return self._tokenize(text)
        most = max_length * self._longest_piece
        if self._blank:  # Thousands of spaces may have no token.
            squeezed = tf.strings.regex_replace(text, self._blank, " ")
            text = tf.where(tf.strings.length(text) > most, squeezed, text)
        return self._tokenize(tf.strings.substr(text, 0, most))[:, :max_length]

    @abc.abstractmethod
    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Return the ids [B, None] of whole texts [B]."""

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids that `tokenize` gives for texts in memory, concatenated.

        Args:
            texts: Strings.

        Returns:
            A tuple of the int32 ids of all texts and of the number of ids of each.

        >>> from keras_transformer.text import WordPieceTokenizer, train_word_piece
        >>> tokenizer = WordPieceTokenizer(train_word_piece(["a dog", "a cat"], vocab_size=270))
        >>> ids, counts = tokenizer.encode(["a cat", "", "a dog"])
        >>> len(ids) - sum(counts).item(), counts[1].item()
        (0, 0)
        """
        ids = self._tokenize(tf.constant(list(texts), tf.string))
        return ids.values.numpy(), ids.row_lengths().numpy()

    def detokenize(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Join tokens into text. Any integers are accepted.

        Args:
            ids: Integers [B, T], dense or ragged. Pad, bos, eos and ids outside the vocabulary are
                dropped at any position.

        Returns:
            UTF-8 strings [B]. Unk becomes "⁇" with a space on both sides; the first space may be
            missing at the beginning of a text.
        """
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD_ID)
        return self._detokenize(tf.convert_to_tensor(ids))

    def write(self, ids: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        """Return the texts of the ids that a model predicted for some source texts.

        By default, this is `detokenize`. A tokenizer may fill in parts of the sources.

        Args:
            ids: Integers [B, T], as in `detokenize`.
            text: UTF-8 strings [B], the sources.

        Returns:
            UTF-8 strings [B].
        """
        return self.detokenize(ids)

    @abc.abstractmethod
    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the texts [B] of any integers [B, T]."""

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Return the piece of each id inside the graph. See `id_to_piece` for use outside.

        Args:
            ids: int32 tensor of any shape, with ids of the vocabulary only.

        Returns:
            UTF-8 strings in the shape of `ids`; "" for padding.
        """
        names = tf.reshape(self._pieces(tf.reshape(ids, [-1])), tf.shape(ids))
        return tf.where(ids == PAD_ID, "", names)

    # A separate tf.function, so that a graph contains the vocabulary only once.
    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)], autograph=False)
    def _pieces(self, ids):
        return tf.gather(tf.constant(self._pieces_by_id), ids)

    def id_to_piece(self, ids: Iterable[int]) -> list[str]:
        """Return the piece of each id, for example to label an attention map.

        Args:
            ids: Ids of the vocabulary.

        Returns:
            The pieces; in subwords, "▁" marks the beginning of a word.

        Raises:
            IndexError: If an id is outside the vocabulary.

        >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
        >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab ab"], vocab_size=265))
        >>> tokenizer.id_to_piece([2, *tokenizer.tokenize(["ab"])[0].numpy(), 3])
        ['<s>', '▁ab', '</s>']
        """
        ids = [int(i) for i in ids]
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise IndexError(f"ids must be from 0 to {self.vocab_size - 1}, received {i}.")
        return [self._pieces_by_id[i] for i in ids]


def check_coverage(character_coverage: float) -> None:
    """Raise a ValueError for a share of characters that a vocabulary must not cover."""
    if not 0.98 <= character_coverage <= 1:
        raise ValueError(
            f"character_coverage must be between 0.98 and 1, received {character_coverage}. "
            "Use 1.0 for alphabetic languages."
        )


class StringTable:
    """Look strings up by their hash, in a sorted list.

    Args:
        numbers: A number for each string, at least 0.

    >>> table = StringTable({"▁a": 7, "dog": 9})
    >>> table(tf.constant(["dog", "cat", "▁a"]), default=1).numpy().tolist()
    [9, 1, 7]
    """

    def __init__(self, numbers: Mapping[str, int]):
        strings = np.array([string.encode() for string in numbers], object)
        hashes = tf.strings.to_hash_bucket_fast(tf.constant(strings, tf.string), _NUM_HASHES)
        order = np.argsort(hashes.numpy())
        self._hashes = hashes.numpy()[order]
        self._strings = strings[order]
        self._numbers = np.fromiter(numbers.values(), np.int32)[order]
        if len(np.unique(self._hashes)) < len(order):
            raise ValueError("two strings have the same hash of 62 bits; rename one of them")

    def __call__(self, strings: tf.Tensor, default: int) -> tf.Tensor:
        """Return the numbers int32 [N] of strings [N], and `default` for others."""
        if not len(self._strings):
            return tf.fill(tf.shape(strings), default)
        return self._look_up(strings, default)

    # A tf.function, so that a graph contains the strings only once.
    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([], tf.int32)],
        autograph=False,
    )
    def _look_up(self, strings, default):
        hashes = tf.strings.to_hash_bucket_fast(strings, _NUM_HASHES)
        places = tf.searchsorted(tf.constant(self._hashes), hashes)
        places = tf.minimum(places, len(self._hashes) - 1)
        is_known = tf.gather(tf.constant(self._strings), places) == strings
        return tf.where(is_known, tf.gather(tf.constant(self._numbers), places), default)


def is_language_tag(piece: str) -> bool:
    """Return whether a piece of a vocabulary is a tag.

    >>> [is_language_tag(piece) for piece in (">>de<<", ">><<", "▁de")]
    [True, False, False]
    """
    return re.fullmatch(_TAG, piece) is not None


def starts_with_tag(text: str) -> bool:
    """Return whether a text begins with a tag.

    >>> starts_with_tag(">>de<< a dog"), starts_with_tag("a >>de<< dog")
    (True, False)
    """
    return re.match(_TAG, text) is not None


class LanguageTags:
    """Take the tag off the start of texts.

    A tag is a word between `>>` and `<<`. One that is not among the tags of the vocabulary is
    unknown.

    Args:
        ids: The id of each tag of the vocabulary.
        any_text: Whether any text between `>>` and the first `<<` is a tag, as for Hugging Face.

    >>> tags = LanguageTags({">>de<<": 7, ">>fr<<": 9})
    >>> text, ids = tags.split(tf.constant([">>fr<< A dog", "A dog", ">>xx<<A dog"]))
    >>> text.numpy().tolist(), ids.numpy().tolist()
    ([b' A dog', b'A dog', b'A dog'], [9, -1, 1])
    >>> tags.split_strings([">>fr<< A dog", "A dog"])
    ([' A dog', 'A dog'], [9, -1])
    """

    def __init__(self, ids: dict[str, int], any_text: bool = False):
        self.ids = ids
        self._pattern = _ANY_TEXT if any_text else _TAG

    def split(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return texts [B] without their tags, and the ids of these, int32 [B], -1 for none."""
        rest = tf.strings.regex_replace(text, f"^(?:{self._pattern})", "", replace_global=False)
        length = tf.strings.length(text) - tf.strings.length(rest)
        tag = tf.strings.substr(text, tf.zeros_like(length), length)
        ids = tf.where(length > 0, UNK_ID, -1)
        if self.ids:
            is_tag = tag[:, tf.newaxis] == tf.constant(list(self.ids))
            known = tf.reduce_max(tf.where(is_tag, tf.constant(list(self.ids.values())), -1), 1)
            ids = tf.where(known >= 0, known, ids)
        return rest, ids

    def split_strings(self, texts: Sequence[str]) -> tuple[list[str], list[int]]:
        """Return what `split` does, for texts in memory."""
        rests, ids = [], []
        for text in texts:
            found = re.match(self._pattern, text)
            end = found.end() if found else 0
            rests.append(text[end:])
            ids.append(self.ids.get(text[:end], UNK_ID) if found else -1)
        return rests, ids
