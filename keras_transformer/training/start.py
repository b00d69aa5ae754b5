"""What a training can start from, or learn of: the directory of another, or an exported model."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.export.loading import find_saved_model
from keras_transformer.growth import grow, growth_problems
from keras_transformer.model import Transformer
from keras_transformer.training.directory import finished_config
from keras_transformer.training.vocabularies import own_vocabularies

_SECTIONS = [field.name for field in dataclasses.fields(ExperimentConfig)]


@dataclasses.dataclass(frozen=True)
class Start:
    """A trained model to start from."""

    config: ExperimentConfig
    """What it was made with."""
    vocabularies: list[Path]
    """The file of the joint one, or those of source and target."""
    read_model: Callable[[], Transformer]
    """Returns the trained model."""

    def set_weights(self, model: Transformer) -> None:
        """Give its weights to a model of the same sizes, or of larger ones: see `grow`."""
        model.set_weights(grow(self.read_model(), model.config).get_weights())


def find_start(path: str | os.PathLike) -> Start:
    """Return what a path names: a training that has ended, or an exported model.

    Raises:
        FileNotFoundError: there is neither.
        ValueError: the exported model does not say how it was trained, or lacks its vocabularies.
    """
    path = Path(path)
    # A model may have been exported into the directory of its training, which is then the newer.
    version = None if (path / "config.yaml").exists() else find_saved_model(path)
    if version is not None:
        return _exported(version)
    try:
        config = finished_config(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} An exported model will do too.") from error

    def read_model():
        return keras.saving.load_model(path / "model.keras", compile=False)

    return Start(config, own_vocabularies(path, config), read_model)


def _exported(version: Path) -> Start:
    extra = version / "assets.extra"
    path = extra / "export.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if missing := [name for name in ("data", "training") if name not in facts]:
        raise ValueError(
            "A training can start from, or learn of, a model that pipelines.export wrote, which "
            f"says how it was trained; {path} has no {' and no '.join(missing)}. Export it again, "
            "or give the directory of its training."
        )
    config = ExperimentConfig.from_dict({name: facts[name] for name in _SECTIONS})
    vocabularies = own_vocabularies(extra, config)
    if missing := [str(path) for path in vocabularies if not path.exists()]:
        raise ValueError(
            "A training can start from, or learn of, a model that was exported with its "
            f"vocabularies; there is no {' and no '.join(missing)}. Export it again, or give the "
            "directory of its training."
        )

    def read_model():
        import tensorflow_text  # noqa: F401  registers the tokenizer's ops

        weights = tf.saved_model.load(str(version)).weights
        values = {_place(weight.name.removesuffix(":0")): weight.numpy() for weight in weights}
        model = Transformer(config.model)
        model.set_weights([values[_place(weight.path)] for weight in model.weights])
        return model

    return Start(config, vocabularies, read_model)


def _place(path: str) -> str:
    """Return a weight's place in its model, whose name is the first part of the path."""
    return path.partition("/")[2]


def check_start(directory: Path, config: ExperimentConfig) -> Start:
    """Return what `init_from` names, or raise an error if a new training cannot start from it.

    Raises:
        FileNotFoundError: there is none.
        ValueError: its model cannot grow to the sizes, or the directory has another vocabulary.
    """
    origin = config.training.init_from
    start = find_start(origin)
    differences = growth_problems(start.config.model, config.model)
    if config.data.subwords != (theirs := start.config.data.subwords):
        differences.append(f"subwords is {config.data.subwords} in place of {theirs}")
    if differences:
        raise ValueError(
            f"A training that starts from {origin} has its subwords and, but for dropout, a model "
            "of the same sizes, or of larger ones with the same heads; received "
            f"{', '.join(differences)}. Leave them out of the options and of the configuration: "
            "pipelines.train then takes them from there."
        )
    paths = own_vocabularies(directory, config)
    for own, original in zip(paths, start.vocabularies, strict=True):
        if own.exists() and own.read_bytes() != original.read_bytes():
            raise ValueError(
                f"A training that starts from {origin} has its vocabularies, and {own} is not "
                f"{original}. Remove it, or choose another directory."
            )
    return start
