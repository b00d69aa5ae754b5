"""The vocabulary files of a model: one for both languages, or one each."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.text.base import Tokenizer
from keras_transformer.text.sentencepiece import SentencePieceTokenizer
from keras_transformer.text.tree_tokenizer import TreeTokenizer
from keras_transformer.text.word_piece import WordPieceTokenizer
from keras_transformer.text.words import WordTokenizer

_TREES = b'{"labels":'
"""What `TreeTokenizer` writes first. A vocabulary of words may have the word "labels"."""
_STARTS: dict[bytes, type[Tokenizer]] = {
    _TREES: TreeTokenizer,
    b"{": WordTokenizer,
    b"<pad>\n": WordPieceTokenizer,
    b"\n": SentencePieceTokenizer,
}
"""The kind of a vocabulary by its first bytes."""


def vocabulary_paths(directory: str | os.PathLike, shared: bool) -> list[Path]:
    """Return the path of the joint vocabulary, or the paths of source and target vocabulary.

    Args:
        directory: The directory of the files.
        shared: Whether source and target share one vocabulary.

    >>> [path.name for path in vocabulary_paths("runs/en_de", shared=False)]
    ['source.model', 'target.model']
    """
    names = ["vocabulary.model"] if shared else ["source.model", "target.model"]
    return [Path(directory) / name for name in names]


def find_vocabularies(directory: str | os.PathLike, shared: bool) -> list[Path]:
    """Return the vocabulary files of a model: those that are expected, or two instead of one.

    The sides of an imported model may share their ids and split text differently.

    Args:
        directory: The directory of the files.
        shared: Whether source and target share one vocabulary.

    >>> [path.name for path in find_vocabularies("runs/new", shared=True)]
    ['vocabulary.model']
    """
    separate = vocabulary_paths(directory, shared=False)
    if shared and all(path.exists() for path in separate):
        return separate
    return vocabulary_paths(directory, shared)


def tokenizer_paths(
    directory: str | os.PathLike, tokenizers: Sequence[Tokenizer], shared: bool
) -> list[Path]:
    """Return the files that `save_tokenizers` writes, with the same arguments."""
    return vocabulary_paths(directory, shared and len({each.model for each in tokenizers}) < 2)


def save_tokenizers(
    directory: str | os.PathLike, tokenizers: tuple[Tokenizer, Tokenizer], shared: bool
) -> list[Path]:
    """Write the vocabularies of source and target, or their joint vocabulary.

    Args:
        directory: The directory of the files, which must exist.
        tokenizers: Source and target tokenizers; the same object for a joint vocabulary.
        shared: Whether source and target share their ids. They get two files even so, if they split
            text differently.

    Returns:
        The files.

    >>> from keras_transformer.text import train_word_piece
    >>> tokenizer = WordPieceTokenizer(train_word_piece(["a dog", "a cat"], vocab_size=270))
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_tokenizers(folder, (tokenizer, tokenizer), shared=True)
    ...     source, target = read_tokenizers(vocabulary_paths(folder, shared=True), "wordpiece")
    >>> source is target, source.vocab_size == tokenizer.vocab_size
    (True, True)
    """
    paths = tokenizer_paths(directory, tokenizers, shared)
    for path, tokenizer in zip(paths, tokenizers, strict=False):
        tokenizer.save(path)
    return paths


def read_tokenizers(paths: Sequence[Path], subwords: str) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target.

    The kind of each is recognized by its content.

    Args:
        paths: Vocabulary files, as returned by `vocabulary_paths`.
        subwords: Kind that a file without such content should have, as in `DataConfig.subwords`.

    Returns:
        Source and target tokenizers; the same object if there is one file.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If a file is not a vocabulary of this kind.

    >>> read_tokenizers([Path("missing.model")], "bpe")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    tokenizers = [_kind_of(Path(path), subwords).from_file(path) for path in paths]
    return tokenizers[0], tokenizers[-1]


def _kind_of(path: Path, subwords: str) -> type[Tokenizer]:
    content = path.read_bytes() if path.is_file() else b""
    usual = {"word": WordTokenizer, "wordpiece": WordPieceTokenizer}
    default = usual.get(subwords, SentencePieceTokenizer)
    return next((kind for start, kind in _STARTS.items() if content.startswith(start)), default)


def word_tags_of(path: Path) -> str | None:
    """Return the `word_tags` of a vocabulary of trees, or None for another or a missing file.

    Unlike a tokenizer, it needs no TensorFlow.

    Raises:
        ValueError: If the file is damaged.
    """
    content = path.read_bytes() if path.is_file() else b""
    if not content.startswith(_TREES):
        return None
    try:
        return json.loads(content)["word_tags"]
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}. Restore it.") from error
