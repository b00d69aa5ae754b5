"""The vocabularies of a training run: their files, and how they are trained."""

import logging
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.text import (
    SentencePieceTokenizer,
    Tokenizer,
    WordPieceTokenizer,
    read_tokenizers,
    train_sentencepiece,
    train_word_piece,
    vocabulary_paths,
)

log = logging.getLogger(__name__)

Tokenizers = tuple[Tokenizer, Tokenizer]
"""Of source and target; the same object twice if they share a vocabulary."""


def vocabulary_files(directory: Path, config: ExperimentConfig) -> list[Path]:
    """Return the paths of a run's vocabularies, one if both languages share it.

    The files need not exist yet.
    """
    return vocabulary_paths(directory, config.model.has_joint_vocabulary)


def check_vocabularies(directory: Path, config: ExperimentConfig) -> None:
    """Check that a run that has begun has its vocabularies.

    Raises:
        FileNotFoundError: If one is missing.
    """
    paths = vocabulary_files(directory, config)
    if missing := [str(path) for path in paths if not path.exists()]:
        raise FileNotFoundError(
            f"A run resumes with the vocabularies it started with; there is no "
            f"{' and no '.join(missing)}. Restore what was there, or choose another directory."
        )


def read_or_train(
    directory: Path, config: ExperimentConfig, pairs: Sequence[tuple[str, str]]
) -> Tokenizers:
    """Read the vocabularies of a run directory, and train those that it does not have.

    Nothing is written.

    Args:
        directory: The run directory.
        config: The experiment, with the kind and sizes of the vocabularies.
        pairs: The training text.

    Returns:
        The tokenizers of source and target.
    """
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    if config.model.has_joint_vocabulary:
        jobs = [(sources + targets, config.model.vocab_size)]
    else:
        jobs = [(sources, config.model.vocab_size), (targets, config.model.target_size)]
    tokenizers = []
    for path, (lines, size) in zip(vocabulary_files(directory, config), jobs, strict=True):
        if path.exists():
            tokenizers.append(read_tokenizers([path], config.data.subwords)[0])
            continue
        log.info("training a vocabulary of %s tokens", f"{size:,}")
        tokenizers.append(_train_tokenizer(config.data, lines, size))
    return tokenizers[0], tokenizers[-1]


def _train_tokenizer(data: DataConfig, lines: Sequence[str], size: int) -> Tokenizer:
    coverage = data.character_coverage
    if data.subwords == "wordpiece":
        return WordPieceTokenizer(train_word_piece(lines, size, character_coverage=coverage))
    model = train_sentencepiece(lines, size, model_type=data.subwords, character_coverage=coverage)
    return SentencePieceTokenizer(model)
