"""Check that a run can start or resume: its directory, its machines, the models that it needs."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import ExperimentConfig
from keras_transformer.config.experiment import TranslatorConfig
from keras_transformer.model import Transformer
from keras_transformer.text.files import find_vocabularies
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.machines import Cluster, Machines, connect_machines
from keras_transformer.training.run_directory import read_state
from keras_transformer.translation.saved import SavedTranslator, find_translator


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checked:
    """What a run knows before it reads its text."""

    directory: Path
    """The run directory."""
    checkpoints: Checkpoints
    """The checkpoints in it."""
    has_begun: bool
    """Whether there is one, so that the run resumes."""
    machines: Machines
    """The devices of the run."""
    start: SavedTranslator | None
    """The model to take the first weights from; None if they are random or from a checkpoint."""
    trained: SavedTranslator | None
    """The trained model whose vocabularies the run uses: `start` or a teacher, if any."""
    teachers: Sequence[Transformer]
    """The models for distillation, on the devices of the run."""


def check_run(
    config: ExperimentConfig,
    directory: Path,
    cluster: Cluster | None = None,
    *,
    resumes: bool = True,
    has_devices: bool = True,
) -> Checked:
    """Check that a run can start or resume in a directory, and connect its machines.

    Nothing is written, except that damaged checkpoints get another name.

    Args:
        config, directory, cluster: The run.
        resumes: Whether to set aside damaged checkpoints, to resume from one that is whole.
        has_devices: Whether to prepare devices, and to read the teachers.

    Raises:
        FileNotFoundError: If a vocabulary of a run that resumes, the model to start from or a
            teacher is missing.
        ValueError: If the directory holds a run with another configuration; a file is damaged;
            machines differ; or a trained model does not fit the configuration.
    """
    checkpoints = read_state(directory, config).checkpoints
    if resumes and (cluster is None or cluster.is_chief):
        checkpoints.set_aside_damaged()
    machines = connect_machines(config, directory, cluster) if has_devices else Machines()
    has_begun = checkpoints.newest() is not None
    if has_begun:
        _check_vocabularies(directory, config)
    start = None
    if config.training.init_from is not None and not has_begun:
        start = find_start(directory, config)
    teachers = find_teachers(directory, config, start)
    with machines.strategy.scope():
        models = [_read(each, config.training.precision) for each in teachers if has_devices]
    return Checked(
        directory=directory,
        checkpoints=checkpoints,
        has_begun=has_begun,
        machines=machines,
        start=start,
        trained=start or (teachers[0] if teachers else None),
        teachers=models,
    )


def _check_vocabularies(directory: Path, config: ExperimentConfig) -> None:
    paths = find_vocabularies(directory, config.model.has_joint_vocabulary)
    if missing := [str(path) for path in paths if not path.exists()]:
        raise FileNotFoundError(
            f"A run resumes with the vocabularies it started with; there is no "
            f"{' and no '.join(missing)}. Restore what was there, or choose another directory."
        )


def find_start(directory: Path, config: ExperimentConfig) -> SavedTranslator:
    """Find the model that `training.init_from` names, and check that a run can start from it.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If its sizes, subwords or task differ from the experiment, or the directory has
            another vocabulary.
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


def _needed(config: ExperimentConfig | TranslatorConfig, task: Mapping[str, str]) -> dict[str, Any]:
    """Return what has to be equal in a run and the model that it starts from, by option."""
    model = config.model
    key_dim = model.key_dim or model.d_model // model.num_heads
    dims = {"key_dim": key_dim, "value_dim": model.value_dim or key_dim}
    sizes = {**dataclasses.asdict(model), **dims}
    needed = {f"model.{name}": value for name, value in sizes.items() if "dropout" not in name}
    data = {"subwords": config.data.subwords, **task}
    return {**needed, **{f"data.{name}": value for name, value in data.items()}}


def find_teachers(
    directory: Path, config: ExperimentConfig, start: SavedTranslator | None
) -> list[SavedTranslator]:
    """Find the models that `training.teachers` names, and check that they fit the experiment.

    They share their vocabularies with the run and with the model that it starts from.

    Raises:
        FileNotFoundError: If a teacher does not exist.
        ValueError: If a teacher has other vocabularies, or fewer learned positions than the text
            needs; or if the directory has another vocabulary.
    """
    teachers = [find_translator(path) for path in config.training.teachers]
    if not teachers:
        return []
    known = (start or teachers[0]).vocabularies
    is_joint = config.model.has_joint_vocabulary
    own, problems = _subwords(config, len(known) if is_joint else 2), []
    for path, teacher in zip(config.training.teachers, teachers, strict=True):
        model = teacher.config.model
        if (theirs := _subwords(teacher.config, len(teacher.vocabularies))) != own:
            problems.append(f"{path} has {theirs}")
        if model.position == "learned" and model.max_length < config.data.max_length:
            problems.append(f"{path} has {model.max_length} learned positions")
    if problems:
        raise ValueError(
            f"Teachers need the subwords of the model that they train, {own}, and positions for "
            f"data.max_length={config.data.max_length}; received {'; '.join(problems)}. Set these "
            "options as the teachers need them, or choose other teachers."
        )
    contents = {path.name: path.read_bytes() for path in known}
    found = [directory / path.name for path in known if (directory / path.name).exists()]
    found += [path for teacher in teachers for path in teacher.vocabularies]
    if others := [str(path) for path in found if path.read_bytes() != contents[path.name]]:
        raise ValueError(
            "Teachers need the vocabularies of the model that they train, here "
            f"{' and '.join(map(str, known))}; received others in {' and '.join(others)}. Train "
            "all models from one, with training.init_from, or on one text with one vocab_size, "
            "into a directory without a vocabulary."
        )
    return teachers


def _subwords(config: ExperimentConfig | TranslatorConfig, vocabularies: int) -> str:
    sizes = f"vocab_size={config.model.vocab_size}"
    if vocabularies > 1:
        sizes += f" and target_vocab_size={config.model.target_size}"
    return f"subwords={config.data.subwords} with {sizes}"


def _read(teacher: SavedTranslator, precision: str) -> Transformer:
    """Read a teacher, to compute in the precision of the run."""
    model = teacher.read_model()
    return model if model.dtype_policy.name == precision else model.with_dtype(precision)
