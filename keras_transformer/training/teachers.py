"""The models that a training learns of: `training.teachers`."""

from pathlib import Path

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.training.start import Start, find_start
from keras_transformer.training.vocabularies import own_vocabularies


def find_teachers(directory: Path, config: ExperimentConfig, start: Start | None) -> list[Start]:
    """Return the teachers, whose vocabularies are the training's and its start's.

    Raises:
        FileNotFoundError: a teacher is not there.
        ValueError: a teacher has other vocabularies, knows too few positions, or does not say how
            it was trained; or the directory has another vocabulary.
    """
    teachers = [find_start(path) for path in config.training.teachers]
    if not teachers:
        return []
    own, problems = _subwords(config), []
    for path, teacher in zip(config.training.teachers, teachers, strict=True):
        model = teacher.config.model
        if (theirs := _subwords(teacher.config)) != own:
            problems.append(f"{path} has {theirs}")
        if model.position == "learned" and model.max_length < config.data.max_length:
            problems.append(f"{path} has {model.max_length} learned positions")
    if problems:
        raise ValueError(
            f"Teachers have the subwords of the model that learns of them, {own}, and positions "
            f"for data.max_length={config.data.max_length}; received {'; '.join(problems)}. Set "
            "these options as the teachers need them, or choose other teachers."
        )
    known = (start or teachers[0]).vocabularies
    contents = {path.name: path.read_bytes() for path in known}
    found = [path for path in own_vocabularies(directory, config) if path.exists()]
    found += [path for teacher in teachers for path in teacher.vocabularies]
    if others := [str(path) for path in found if path.read_bytes() != contents[path.name]]:
        raise ValueError(
            "Teachers have the vocabularies of the model that learns of them, here "
            f"{' and '.join(map(str, known))}; received others in {' and '.join(others)}. Train "
            "all from one model, by training.init_from, or on one text with one vocab_size, into "
            "a directory without a vocabulary."
        )
    return teachers


def teach(model: Transformer, teachers: list[Start]) -> None:
    """Let a model learn of the teachers, which compute in its own types."""
    policy = model.dtype_policy
    models = (teacher.read_model() for teacher in teachers)
    model.learn_from(
        read if read.dtype_policy.name == policy.name else read.with_dtype(policy)
        for read in models
    )


def _subwords(config):
    sizes = f"vocab_size={config.model.vocab_size}"
    if not config.model.has_joint_vocabulary:
        sizes += f" and target_vocab_size={config.model.target_vocab_size}"
    return f"subwords={config.data.subwords} with {sizes}"
