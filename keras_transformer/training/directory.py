"""The directory of a training: what is in it, and how it is read."""

import csv
import dataclasses
import os
from pathlib import Path
from typing import Any

import keras

from keras_transformer.config import ExperimentConfig
from keras_transformer.text import read_tokenizers, save_tokenizers
from keras_transformer.training.vocabularies import Tokenizers, own_vocabularies
from keras_transformer.translation.translator import Translator


def load_translator(
    directory: str | os.PathLike,
    *,
    compiled: bool = False,
    precision: str = "float32",
    **decoding: Any,
) -> Translator:
    """Return the translator of a directory that `train` wrote.

    Args:
        directory: the training's directory.
        compiled: whether XLA compiles the search; see `Translator`.
        precision: of weights and matrix products, "float32" or "bfloat16". Norms, softmax and what
            follows from the logits are computed in float32 in both.
        **decoding: fields of `DecodingConfig` to replace in the training's configuration.

    Raises:
        FileNotFoundError: the directory has no finished training.
    """
    directory = Path(directory)
    config = finished_config(directory)
    model = keras.saving.load_model(directory / "model.keras", compile=False)
    if model.dtype_policy.name != precision:
        model = model.with_dtype(precision)
    search = dataclasses.replace(config.decoding, **decoding)
    tokenizers = read_tokenizers(own_vocabularies(directory, config), config.data.subwords)
    return Translator(model, *tokenizers, search, compiled)


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
        whole = [row for row in csv.DictReader(file) if None not in row and all(row.values())]
        rows = list({row["epoch"]: row for row in whole}.values())
    return {name: [float(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def end_last_line(path: Path) -> None:
    """End a line that was being written when the machine went down, so that the next is whole."""
    if path.exists() and (text := path.read_bytes()) and not text.endswith(b"\n"):
        with open(path, "ab") as file:
            file.write(b"\n")


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


def claim(directory: Path, config: ExperimentConfig, tokenizers: Tokenizers) -> None:
    """Write the configuration and the vocabularies, or the one that both languages share."""
    directory.mkdir(parents=True, exist_ok=True)
    config.to_file(directory / "config.yaml")
    save_tokenizers(directory, tokenizers, config.model.has_joint_vocabulary)
