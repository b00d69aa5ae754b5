"""The model that a run starts from: what it must have in common with the run."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import ExperimentConfig, TransformerConfig
from keras_transformer.config.experiment import TranslatorConfig
from keras_transformer.text.files import find_vocabularies
from keras_transformer.training.vocabularies import check_vocabularies
from keras_transformer.translation.saved import SavedTranslator, find_translator


def find_start(
    directory: Path, config: ExperimentConfig, has_begun: bool
) -> SavedTranslator | None:
    """Find the model to take the first weights from.

    Args:
        directory: The run directory.
        config: The experiment.
        has_begun: Whether the run has checkpoints of its own, and so must have its vocabularies.

    Returns:
        The trained model; None if the first weights are random, or those of a checkpoint.

    Raises:
        FileNotFoundError: If there is no such model, or a vocabulary of the run is missing.
        ValueError: See `check_start`.
    """
    if has_begun:
        check_vocabularies(directory, config)
        return None
    return check_start(directory, config) if config.training.init_from is not None else None


def check_start(directory: Path, config: ExperimentConfig) -> SavedTranslator:
    """Find the model that `training.init_from` names, and check that a run can start from it.

    Args:
        directory: The run directory.
        config: The experiment.

    Returns:
        The trained model.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If its sizes, its subwords or its task differ from those of the experiment, or
            the directory has another vocabulary.
    """
    origin = str(config.training.init_from)
    start = find_translator(origin)
    task = {"task": config.data.task, "word_tags": config.data.word_tags}
    ours, theirs = _needed(config, task), _needed(start.config, start.read_task())
    differences = [
        f"{name}={value!r} instead of {theirs[name]!r}"
        for name, value in ours.items()
        if value != theirs[name]
    ]
    if differences:
        raise ValueError(
            "A run needs the sizes, the subwords and the task of the model that it starts from; "
            f"only dropout may differ. Received {', '.join(differences)}, of {origin}. Leave these "
            "options out: pipelines.train takes them from the model."
        )
    joint = config.model.has_joint_vocabulary
    names = [path.name for path in start.vocabularies]
    found = [path for path in find_vocabularies(directory, joint) if path.exists()]
    if others := [str(path) for path in found if path.name not in names]:
        raise ValueError(
            "A run needs the vocabularies of the model that it starts from, "
            f"{' and '.join(names)}; received {' and '.join(others)}. Remove them, or choose "
            "another directory."
        )
    for original in start.vocabularies:
        own = directory / original.name
        if own.exists() and own.read_bytes() != original.read_bytes():
            raise ValueError(
                "A run needs the vocabularies of the model that it starts from; received "
                f"{own}, which differs from {original}. Remove it, or choose another directory."
            )
    return start


def initial_weights(start: SavedTranslator) -> list[np.ndarray]:
    """Read the weights that a run starts with.

    Raises:
        ValueError: If the model is int8, or its file is damaged.
    """
    model = start.read_model()
    if model.quantization_mode is not None:
        raise ValueError(
            f"A run needs a model that can be trained, received {start.path.parent}, which is "
            f"{model.quantization_mode}. Start from the model that was quantized."
        )
    return model.without_lora().get_weights()


def _needed(config: ExperimentConfig | TranslatorConfig, task: Mapping[str, str]) -> dict[str, Any]:
    """Return what has to be equal in a run and the model that it starts from, by option."""
    sizes = dataclasses.asdict(_with_head_sizes(config.model))
    needed = {f"model.{name}": value for name, value in sizes.items() if "dropout" not in name}
    data = {"subwords": config.data.subwords, **task}
    return {**needed, **{f"data.{name}": value for name, value in data.items()}}


def _with_head_sizes(model: TransformerConfig) -> TransformerConfig:
    key_dim = model.key_dim or model.d_model // model.num_heads
    return dataclasses.replace(model, key_dim=key_dim, value_dim=model.value_dim or key_dim)
