"""The models that a training learns of: `training.teachers`."""

from pathlib import Path

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.training.start import Start, find_start
from keras_transformer.training.vocabularies import own_vocabularies


def find_teachers(directory: Path, config: ExperimentConfig, start: Start | None) -> list[Start]:
    """Return the teachers, which share the vocabularies of the training.

    These are the directory's, if it has them; else those of the model to start from, or of the
    first teacher.

    Raises:
        FileNotFoundError: a teacher is not there.
        ValueError: a teacher has other vocabularies, or does not say how it was trained.
    """
    teachers = {path: find_start(path) for path in config.training.teachers}
    if not teachers:
        return []
    paths = own_vocabularies(directory, config)
    if not all(path.exists() for path in paths):
        paths = (start or next(iter(teachers.values()))).vocabularies
    own = _vocabularies(config, paths)
    others = [
        path
        for path, teacher in teachers.items()
        if _vocabularies(teacher.config, teacher.vocabularies) != own
    ]
    if others:
        raise ValueError(
            f"Teachers have the vocabularies of the model that learns of them, here those of "
            f"{' and '.join(map(str, paths))} with model.vocab_size={config.model.vocab_size}; "
            f"received others in {' and '.join(others)}. Train all from one model, by "
            "training.init_from, or on one text with one vocab_size."
        )
    return list(teachers.values())


def teach(model: Transformer, teachers: list[Start]) -> None:
    """Let a model learn of the teachers, which compute in its own types."""
    model.learn_from(teacher.read_model().with_dtype(model.dtype_policy) for teacher in teachers)


def _vocabularies(config, paths):
    sizes = config.model.vocab_size, config.model.target_size
    return config.data.subwords, sizes, [path.read_bytes() for path in paths]
