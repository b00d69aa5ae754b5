"""A model's vocabularies as files: one that both languages share, or one of each."""

import os
from pathlib import Path

from keras_transformer.text.base import Tokenizer


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
