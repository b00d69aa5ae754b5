"""The directory of a training: what is in it, and how it is read."""

import csv
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_transformer.config import ExperimentConfig
from keras_transformer.text import SentencePieceTokenizer, Tokenizer, WordPieceTokenizer
from keras_transformer.translator import Translator


def load_translator(
    directory: str | os.PathLike, *, compiled: bool = False, **decoding: Any
) -> Translator:
    """Return the translator of a directory that `train` wrote.

    Args:
        directory: the training's directory.
        compiled: whether XLA compiles the search; see `Translator`.
        **decoding: fields of `DecodingConfig` to replace in the training's configuration.

    Raises:
        FileNotFoundError: the directory has no finished training.
    """
    directory = Path(directory)
    config = finished_config(directory)
    model = keras.saving.load_model(directory / "model.keras", compile=False)
    search = dataclasses.replace(config.decoding, **decoding)
    return Translator(model, *read_tokenizers(directory, config), search, compiled)


def finished_config(directory: Path) -> ExperimentConfig:
    """Return the configuration of a training that has ended.

    Raises:
        FileNotFoundError: the directory has none.
    """
    for name in ("config.yaml", "model.keras"):
        if not (directory / name).exists():
            raise FileNotFoundError(
                f"{directory / name} does not exist. Give the directory of a training that has "
                "ended, the --output of pipelines.train."
            )
    return ExperimentConfig.from_file(directory / "config.yaml")


def read_history(directory: str | os.PathLike) -> dict[str, list[float]]:
    """Return what a training's epochs.csv has: for each figure its values, epoch by epoch."""
    with open(Path(directory) / "epochs.csv", newline="", encoding="utf-8") as file:
        # An epoch that was interrupted before its checkpoint has another row: its last counts.
        # A line that was being written when the machine went down is not whole.
        whole = [row for row in csv.DictReader(file) if None not in {*row, *row.values()}]
        rows = list({row["epoch"]: row for row in whole}.values())
    return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def check_claim(directory: Path, config: ExperimentConfig) -> None:
    """Raise a ValueError if the directory has a training with another configuration."""
    path = directory / "config.yaml"
    if not path.exists():
        return
    before = ExperimentConfig.from_file(path)
    epochs = max(before.training.epochs, config.training.epochs)
    longer = dataclasses.replace(before.training, epochs=epochs)
    if dataclasses.replace(before, training=longer, decoding=config.decoding) != config:
        raise ValueError(
            f"{directory} holds a training with another configuration. A training goes on with "
            "the configuration that it began with, but for more epochs and another search; choose "
            f"another directory, or remove this one. Compare with {path}."
        )


def check_start(directory: Path, config: ExperimentConfig) -> None:
    """Raise an error if a new training cannot start from the one that `init_from` names.

    Raises:
        FileNotFoundError: that has not ended.
        ValueError: its model has other sizes, or the directory another vocabulary.
    """
    source = Path(config.training.init_from)
    ours, theirs = (
        dataclasses.asdict(c.model) | {"subwords": c.data.subwords}
        for c in (config, finished_config(source))
    )
    differences = [
        f"{name} is {ours[name]} in place of {theirs[name]}"
        for name in ours
        if "dropout" not in name and ours[name] != theirs[name]
    ]
    if differences:
        raise ValueError(
            f"A training that starts from {source} has its subwords and, but for dropout, a model "
            f"of the same sizes; received other ones: {', '.join(differences)}. Leave them out of "
            "the options and of the configuration: pipelines.train then takes them from there."
        )
    paths = (vocabulary_paths(place, config) for place in (directory, source))
    for own, original in zip(*paths, strict=True):
        if own.exists() and own.read_bytes() != original.read_bytes():
            raise ValueError(
                f"A training that starts from {source} has its vocabularies, and {own} is not "
                f"{original}. Remove it, or choose another directory."
            )


def claim(directory: Path, config: ExperimentConfig, tokenizers: Sequence[Tokenizer]) -> None:
    """Write the configuration and the vocabularies, or the one that both languages share."""
    directory.mkdir(parents=True, exist_ok=True)
    config.to_file(directory / "config.yaml")
    for path, tokenizer in zip(vocabulary_paths(directory, config), tokenizers, strict=False):
        tokenizer.save(path)


def read_tokenizers(directory: Path, config: ExperimentConfig) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target, the same object where they share one."""
    is_wordpiece = config.data.subwords == "wordpiece"
    kind = WordPieceTokenizer if is_wordpiece else SentencePieceTokenizer
    tokenizers = [kind.from_file(path) for path in vocabulary_paths(directory, config)]
    return tokenizers[0], tokenizers[-1]


def vocabulary_paths(directory: Path, config: ExperimentConfig) -> list[Path]:
    """Return the file of the joint vocabulary, or those of source and target."""
    if config.model.target_vocab_size is None:
        return [directory / "vocabulary.model"]
    return [directory / "source.model", directory / "target.model"]
