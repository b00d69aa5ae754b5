"""What the tokenizers share: their vocabulary's bytes and file, and the cut of long texts."""

import abc
import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Self

import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.utils.files import whole_file


class Tokenizer(tf.Module, abc.ABC):
    """From strings to subword ids and back, inside a TensorFlow graph.

    It adds neither bos nor eos: the caller does, with TensorFlow ops. The vocabulary travels inside
    the graph, so that a SavedModel of a module that holds a tokenizer needs no vocabulary file.

    Args:
        model: The bytes of a vocabulary.

    Attributes:
        model: The bytes it was made from.
        vocab_size: The number of its pieces, control pieces included (V).

    Raises:
        TypeError: `model` is not bytes.
        ValueError: `model` is no such vocabulary.
    """

    _KIND: ClassVar[str]
    """What a file of it holds, in messages."""
    _TRAINED_BY: ClassVar[str]
    """The function that makes one."""

    def __init__(self, model: bytes):
        super().__init__()
        if not isinstance(model, bytes):
            raise TypeError(
                f"model must be the bytes of a {self._KIND}, received {type(model).__name__}. "
                f"Use {type(self).__name__}.from_file for a path."
            )
        self._names = self._read(model)
        self.model = model
        self.vocab_size = len(self._names)
        # In bytes of the text before it is normalised: a character has at most 4 of them.
        self._longest_piece = 4 * max(len(name) for name in self._names)

    @abc.abstractmethod
    def _read(self, model: bytes) -> list[str]:
        """Returns the names of a vocabulary's pieces, or raises the ValueError for other bytes."""

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Self:
        """Reads a vocabulary file.

        Raises:
            FileNotFoundError: There is no such file.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} must be a {cls._KIND}, but there is no such file. Check the path, "
                f"or make one with keras_transformer.text.{cls._TRAINED_BY}."
            )
        return cls(path.read_bytes())

    def save(self, path: str | os.PathLike) -> None:
        """Writes the vocabulary to a file, which `from_file` and the tools of its kind read."""
        with whole_file(Path(path)) as temporary:
            temporary.write_bytes(self.model)

    def tokenize(self, text: tf.Tensor, max_length: int | None = None) -> tf.RaggedTensor:
        """Splits each text into subwords.

        Args:
            text: `[B]` strings in UTF-8; bytes that are not UTF-8 count as U+FFFD.
            max_length: The most subwords of a text, after which it is cut off. No more bytes of
                it are looked at, white space included, than so many of the longest subwords have.

        Returns:
            `[B, None]` int32 ids, without bos and eos; none for an empty text.
        """
        text = tf.convert_to_tensor(text, tf.string)
        if max_length is None:
            return self._tokenize(text)
        return self._tokenize(tf.strings.substr(text, 0, max_length * self._longest_piece))[
            :, :max_length
        ]

    @abc.abstractmethod
    def _tokenize(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids [B, None] of whole texts [B]."""

    def detokenize(self, ids: tf.Tensor | tf.RaggedTensor) -> tf.Tensor:
        """Joins subwords into text, whatever the ids are.

        Args:
            ids: `[B, T]` integers, dense or ragged. Pad, bos and eos are dropped wherever they
                are, and so are ids outside the vocabulary.

        Returns:
            `[B]` strings in UTF-8; an unk reads "⁇" between spaces, perhaps without the first.
        """
        if isinstance(ids, tf.RaggedTensor):
            ids = ids.to_tensor(PAD_ID)
        return self._detokenize(tf.convert_to_tensor(ids))

    @abc.abstractmethod
    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the texts [B] of any integers [B, T]."""

    @abc.abstractmethod
    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Names each subword inside the graph, as `id_to_piece` does outside.

        Args:
            ids: int32 of any shape, all in the vocabulary.

        Returns:
            Strings in UTF-8 in the shape of `ids`; "" for padding.
        """

    def id_to_piece(self, ids: Iterable[int]) -> list[str]:
        """Names each subword, as in the labels of an attention map.

        Raises:
            IndexError: An id is outside the vocabulary.

        >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
        >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab ab"], vocab_size=265))
        >>> tokenizer.id_to_piece([2, *tokenizer.tokenize(["ab"])[0].numpy(), 3])
        ['<s>', '▁ab', '</s>']
        """
        ids = [int(i) for i in ids]
        for i in ids:
            if not 0 <= i < self.vocab_size:
                raise IndexError(f"ids must be from 0 to {self.vocab_size - 1}, received {i}.")
        return [self._names[i] for i in ids]
