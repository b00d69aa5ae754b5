"""A model's vocabularies as files: one that both languages share, or one of each."""

import os
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.text.base import Tokenizer
from keras_transformer.text.sentencepiece import SentencePieceTokenizer
from keras_transformer.text.word_piece import WordPieceTokenizer


def vocabulary_paths(directory: str | os.PathLike, shared: bool) -> list[Path]:
    """Return the file of the joint vocabulary, or those of source and target."""
    names = ["vocabulary.model"] if shared else ["source.model", "target.model"]
    return [Path(directory) / name for name in names]


def save_tokenizers(
    directory: str | os.PathLike, tokenizers: tuple[Tokenizer, Tokenizer], shared: bool
) -> None:
    """Write the vocabularies of source and target, or the one that they share."""
    for path, tokenizer in zip(vocabulary_paths(directory, shared), tokenizers, strict=False):
        tokenizer.save(path)


def read_tokenizers(paths: Sequence[Path], subwords: str) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target, the same object where they share one.

    Args:
        paths: as `vocabulary_paths` returns them.
        subwords: their kind, as in `DataConfig`.
    """
    kind = WordPieceTokenizer if subwords == "wordpiece" else SentencePieceTokenizer
    tokenizers = [kind.from_file(path) for path in paths]
    return tokenizers[0], tokenizers[-1]
