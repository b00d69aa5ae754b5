"""The vocabularies of a training: where they are, and how they come to be."""

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
"""Of source and target."""


def own_vocabularies(directory: Path, config: ExperimentConfig) -> list[Path]:
    """Return the files of a training's vocabularies, whether they are there yet or not."""
    return vocabulary_paths(directory, config.model.has_joint_vocabulary)


def check_vocabularies(directory: Path, config: ExperimentConfig) -> None:
    """Raise a FileNotFoundError if a training that has begun lacks a vocabulary."""
    paths = own_vocabularies(directory, config)
    if missing := [str(path) for path in paths if not path.exists()]:
        raise FileNotFoundError(
            f"A training goes on with the vocabularies that it began with; there is no "
            f"{' and no '.join(missing)}. Put back what was there, or choose another directory."
        )


def read_or_train(
    directory: Path, config: ExperimentConfig, pairs: Sequence[tuple[str, str]]
) -> Tokenizers:
    """Return the directory's vocabularies, and train those of the text that it does not have.

    There is one of both sides, or one of each. Nothing is written.
    """
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    if config.model.has_joint_vocabulary:
        jobs = [(sources + targets, config.model.vocab_size)]
    else:
        jobs = [(sources, config.model.vocab_size), (targets, config.model.target_vocab_size)]
    tokenizers = []
    for path, (lines, size) in zip(own_vocabularies(directory, config), jobs, strict=True):
        if path.exists():
            tokenizers.append(read_tokenizers([path], config.data.subwords)[0])
            continue
        log.info("training a vocabulary of %s subwords", f"{size:,}")
        tokenizers.append(_train_tokenizer(config.data, lines, size))
    return tokenizers[0], tokenizers[-1]


def _train_tokenizer(data: DataConfig, lines: Sequence[str], size: int) -> Tokenizer:
    coverage = data.character_coverage
    if data.subwords == "wordpiece":
        return WordPieceTokenizer(train_word_piece(lines, size, character_coverage=coverage))
    model = train_sentencepiece(lines, size, model_type=data.subwords, character_coverage=coverage)
    return SentencePieceTokenizer(model)
