"""Trained models that a run starts from or uses as teachers: finished runs and exported models."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_transformer.config import ExperimentConfig, TransformerConfig
from keras_transformer.export.record import ExportRecord
from keras_transformer.export.versions import find_saved_model
from keras_transformer.model import Transformer
from keras_transformer.training.directory import finished_config, read_model
from keras_transformer.training.vocabularies import vocabulary_files


@dataclasses.dataclass(frozen=True)
class Start:
    """A trained model to start from, or to use as a teacher."""

    config: ExperimentConfig
    """The experiment that trained it."""
    vocabularies: list[Path]
    """The file of the shared vocabulary, or those of source and target."""
    read_model: Callable[[], Transformer]
    """Read the trained model."""


def find_start(path: str | os.PathLike) -> Start:
    """Find a finished run or an exported model.

    Args:
        path: A run directory, a version of an exported model, or the directory of its versions.

    Returns:
        The trained model, whose weights are not read yet.

    Raises:
        FileNotFoundError: If there is neither.
        ValueError: If the exported model does not say how it was trained, or lacks its
            vocabularies, or a file is damaged.
    """
    path = Path(path)
    # A model may have been exported into its run directory, which is then the newer one.
    version = None if (path / "config.yaml").exists() else find_saved_model(path)
    if version is not None:
        return _exported(version)
    try:
        config = finished_config(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} An exported model will do too.") from error
    return Start(config, vocabulary_files(path, config), lambda: read_model(path / "model.keras"))


def _exported(version: Path) -> Start:
    record = ExportRecord.read(version)
    path = version / ExportRecord.FILE
    if missing := [name for name in ("data", "training") if name not in record.facts]:
        raise ValueError(
            "A run needs an exported model that says how it was trained, as pipelines.export "
            f"writes it; {path} has no {' and no '.join(missing)}. Export the model again, or give "
            "its run directory."
        )
    try:
        config = ExperimentConfig.from_dict(
            {
                "model": record.model,
                "data": record.facts["data"],
                "training": record.facts["training"],
                "decoding": record.decoding,
            }
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    vocabularies = vocabulary_files(path.parent, config)
    if missing := [str(path) for path in vocabularies if not path.exists()]:
        raise ValueError(
            "A run needs an exported model with its vocabularies; there is no "
            f"{' and no '.join(missing)}. Export the model again, or give its run directory."
        )

    def read_exported_model() -> Transformer:
        import tensorflow_text  # noqa: F401  Registers the tokenizer's ops.

        weights = tf.saved_model.load(str(version)).weights
        values = {_place(weight.name.removesuffix(":0")): weight.numpy() for weight in weights}
        model = Transformer(config.model)
        model.set_weights([values[_place(weight.path)] for weight in model.weights])
        return model

    return Start(config, vocabularies, read_exported_model)


def _place(path: str) -> str:
    """Return a weight's path inside its model, without the model's own name."""
    return path.partition("/")[2]


def check_start(directory: Path, config: ExperimentConfig) -> Start:
    """Find the model that `training.init_from` names, and check that a run can start from it.

    Args:
        directory: The run directory.
        config: The experiment.

    Returns:
        The trained model.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If its sizes or its subwords differ from those of the experiment, or the
            directory has another vocabulary.
    """
    origin = str(config.training.init_from)
    start = find_start(origin)
    ours, theirs = (_needed(each) for each in (config, start.config))
    differences = [
        f"{name}={value!r} instead of {theirs[name]!r}"
        for name, value in ours.items()
        if value != theirs[name]
    ]
    if differences:
        raise ValueError(
            "A run needs the sizes and the subwords of the model that it starts from; only dropout "
            f"may differ. Received {', '.join(differences)}, of {origin}. Leave these options out: "
            "pipelines.train takes them from the model."
        )
    paths = vocabulary_files(directory, config)
    for own, original in zip(paths, start.vocabularies, strict=True):
        if own.exists() and own.read_bytes() != original.read_bytes():
            raise ValueError(
                "A run needs the vocabularies of the model that it starts from; received "
                f"{own}, which differs from {original}. Remove it, or choose another directory."
            )
    return start


def _needed(config: ExperimentConfig) -> dict[str, Any]:
    """Return what has to be equal in a run and the model that it starts from, by option."""
    sizes = dataclasses.asdict(_with_head_sizes(config.model))
    needed = {f"model.{name}": value for name, value in sizes.items() if "dropout" not in name}
    return {**needed, "data.subwords": config.data.subwords}


def _with_head_sizes(model: TransformerConfig) -> TransformerConfig:
    key_dim = model.key_dim or model.d_model // model.num_heads
    return dataclasses.replace(model, key_dim=key_dim, value_dim=model.value_dim or key_dim)
