"""Our tokenizers as KerasHub tokenizers, whose vocabulary is an asset of a preset."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
import keras_hub
import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.keras_hub.backbone import TransformerBackbone
from keras_transformer.text import SentencePieceTokenizer, Tokenizer, WordPieceTokenizer


class _Kind(NamedTuple):
    tokenizer: type[Tokenizer]
    asset: str


_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "sentencepiece": _Kind(SentencePieceTokenizer, "vocabulary.spm"),
        "wordpiece": _Kind(WordPieceTokenizer, "vocabulary.txt"),
    }
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerTokenizer(keras_hub.tokenizers.Tokenizer):
    """A tokenizer of `keras_transformer.text` as a `keras_hub.tokenizers.Tokenizer`.

    Args:
        vocabulary: The vocabulary as bytes, the `model` of a tokenizer. Without, it is an asset
            that a preset or a `.keras` file has.
        kind: `"sentencepiece"` or `"wordpiece"`.
        **kwargs: Other arguments of `keras_hub.tokenizers.Tokenizer`.

    Call arguments:
        inputs: A string, a list of strings, or a string tensor, [] or [B].

    Returns:
        The ids: a list or, inside a TensorFlow graph, an int32 tensor [T], ragged [B, None] for a
        batch.

    Attributes:
        wrapped: The tokenizer, or None before there is a vocabulary.

    Raises:
        ValueError: If `kind` is unknown, or `vocabulary` is not of this kind.

    >>> from keras_transformer.text import train_word_piece
    >>> tokenizer = TransformerTokenizer(train_word_piece(["a dog"], 266), kind="wordpiece")
    >>> tokenizer.detokenize(tokenizer(["a dog", ""]))
    ['a dog', '']
    """

    backbone_cls = TransformerBackbone

    start_token_id = BOS_ID
    end_token_id = EOS_ID
    pad_token_id = PAD_ID
    unk_token_id = UNK_ID

    def __init__(self, vocabulary: bytes | None = None, kind: str = "sentencepiece", **kwargs: Any):
        super().__init__(**{"dtype": "int32", **kwargs})
        if kind not in _KINDS:
            raise ValueError(
                f"kind must be one of {', '.join(map(repr, _KINDS))}, received {kind!r}."
            )
        self.kind = kind
        self.file_assets = [_KINDS[kind].asset]
        self.wrapped = None if vocabulary is None else _KINDS[kind].tokenizer(vocabulary)

    @classmethod
    def wrap(cls, tokenizer: Tokenizer, **kwargs: Any) -> "TransformerTokenizer":
        """Return a tokenizer of `keras_transformer.text` as one of KerasHub.

        Args:
            tokenizer: The tokenizer.
            **kwargs: Other arguments of `keras_hub.tokenizers.Tokenizer`.

        Raises:
            ValueError: If it is of another kind, such as that of trees.
        """
        for name, kind in _KINDS.items():
            if isinstance(tokenizer, kind.tokenizer):
                return cls(tokenizer.model, name, **kwargs)
        raise ValueError(
            f"tokenizer must be of the kind {' or '.join(_KINDS)}, received "
            f"{type(tokenizer).__name__}. KerasHub has no parsers; use a Translator."
        )

    def unwrap(self) -> Tokenizer:
        """Return the tokenizer of `keras_transformer.text`.

        Raises:
            ValueError: If there is no vocabulary.
        """
        if self.wrapped is None:
            raise ValueError(
                "The tokenizer needs a vocabulary, which is missing. Give it as vocabulary, or "
                "load the tokenizer with from_preset."
            )
        return self.wrapped

    def tokenize(self, inputs: Any) -> Any:
        """Return the ids of texts; this is what a call does, without conversion of the result."""
        texts = tf.convert_to_tensor(inputs, tf.string)
        if texts.shape.rank == 0:
            return self.unwrap().tokenize(texts[tf.newaxis])[0]
        return self.unwrap().tokenize(texts)

    def detokenize(self, inputs: Any) -> Any:
        """Return the texts of ids.

        Args:
            inputs: Integers [T] or [B, T]: lists, or a dense or ragged tensor.

        Returns:
            A string or a list of strings; inside a TensorFlow graph, a string tensor [] or [B].
        """
        ids = tf.ragged.constant(inputs, tf.int32) if isinstance(inputs, list) else inputs
        ids = ids if isinstance(ids, tf.RaggedTensor) else tf.convert_to_tensor(ids)
        is_batch = ids.shape.rank > 1
        texts = self.unwrap().detokenize(ids if is_batch else ids[tf.newaxis])
        if not tf.executing_eagerly():
            return texts if is_batch else texts[0]
        strings = [text.decode() for text in texts.numpy()]
        return strings if is_batch else strings[0]

    @property
    def special_token_ids(self) -> list[int]:
        """The ids of pad, bos and eos, which are no text."""
        return [PAD_ID, BOS_ID, EOS_ID]

    def vocabulary_size(self) -> int:
        """Return V, the number of pieces."""
        return self.unwrap().vocab_size

    def get_vocabulary(self) -> list[str]:
        """Return the pieces in the order of their ids."""
        return self.unwrap().id_to_piece(range(self.vocabulary_size()))

    def id_to_token(self, id: int) -> str:
        """Return the piece of an id."""
        return self.unwrap().id_to_piece([id])[0]

    def token_to_id(self, token: str) -> int:
        """Return the id of a piece, that of unk for other strings."""
        vocabulary = self.get_vocabulary()
        return vocabulary.index(token) if token in vocabulary else UNK_ID

    def save_assets(self, dir_path: str) -> None:
        """Write the vocabulary into a directory."""
        self.unwrap().save(Path(dir_path) / _KINDS[self.kind].asset)

    def load_assets(self, dir_path: str) -> None:
        """Read the vocabulary from a directory."""
        kind = _KINDS[self.kind]
        self.wrapped = kind.tokenizer.from_file(Path(dir_path) / kind.asset)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "kind": self.kind}
