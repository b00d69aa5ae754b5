"""The teachers of a run: trained models whose predictions it also learns (distillation)."""

from collections.abc import Sequence
from pathlib import Path

from keras_transformer.config import ExperimentConfig
from keras_transformer.config.experiment import TranslatorConfig
from keras_transformer.model import Transformer
from keras_transformer.translation.saved import SavedTranslator, find_translator


def find_teachers(
    directory: Path, config: ExperimentConfig, start: SavedTranslator | None
) -> list[SavedTranslator]:
    """Find the models that `training.teachers` names, and check that they fit the experiment.

    Args:
        directory: The run directory.
        config: The experiment.
        start: The model that the run starts from, if any.

    Returns:
        The teachers, whose vocabularies are those of the run.

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


def read_teachers(teachers: Sequence[SavedTranslator], precision: str) -> list[Transformer]:
    """Read the teachers' models.

    Args:
        teachers: What `find_teachers` returned.
        precision: Keras dtype policy to compute in, that of the training run.

    Returns:
        The models.

    Raises:
        ValueError: If a model's file is damaged.
    """
    models = (teacher.read_model() for teacher in teachers)
    return [
        model if model.dtype_policy.name == precision else model.with_dtype(precision)
        for model in models
    ]


def _subwords(config: ExperimentConfig | TranslatorConfig, vocabularies: int) -> str:
    sizes = f"vocab_size={config.model.vocab_size}"
    if vocabularies > 1:
        sizes += f" and target_vocab_size={config.model.target_size}"
    return f"subwords={config.data.subwords} with {sizes}"
