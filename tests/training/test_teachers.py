"""A training that learns of others, by `training.teachers`."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest
from tiny import tiny_tokenizer, toy_experiment, toy_training, write_toy_text

from keras_transformer.training import read_history, train


@pytest.fixture
def teacher():
    return toy_training()[0]


@pytest.fixture
def taught(tmp_path, teacher):
    """The experiment to learn of the toy training on 60 pairs, and fields to replace."""

    def make(teachers=(teacher,), model=None, **training):
        text = write_toy_text(tmp_path, train=60)
        given = {"teachers": [str(path) for path in teachers], "epochs": 1, **training}
        experiment = toy_experiment(text, **given)
        return dataclasses.replace(
            experiment, model=dataclasses.replace(experiment.model, **model or {})
        )

    return make


def test_a_model_learns_of_teachers_of_other_sizes_with_their_vocabulary(tmp_path, teacher, taught):
    before = (teacher / "model.keras").read_bytes()
    text = taught(model={"d_model": 16}, distillation=1.0, epochs=2)
    translator = train(text, tmp_path / "run")
    # What the labels say counts for nothing, and yet they become likelier.
    first, second = read_history(tmp_path / "run")["val_nll"]
    assert second < first
    vocabulary = (tmp_path / "run" / "vocabulary.model").read_bytes()
    assert vocabulary == (teacher / "vocabulary.model").read_bytes()
    assert (teacher / "model.keras").read_bytes() == before
    saved = keras.saving.load_model(tmp_path / "run" / "model.keras")
    for weight, other in zip(saved.get_weights(), translator.model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


def test_it_starts_from_one_model_and_learns_of_another(tmp_path, teacher, taught):
    other = train(taught(), tmp_path / "other").model
    config = taught([tmp_path / "other"], init_from=str(teacher), learning_rate_scale=1e-12)
    translator = train(config, tmp_path / "run")
    started = keras.saving.load_model(teacher / "model.keras")
    for weight, start in zip(translator.model.get_weights(), started.get_weights(), strict=True):
        np.testing.assert_allclose(weight, start, atol=1e-6)
    assert not np.allclose(weight, other.get_weights()[-1], atol=1e-3)


def test_interrupted_it_goes_on_with_its_teachers(tmp_path, taught, interrupted_in_epoch):
    with interrupted_in_epoch(2):
        train(taught(epochs=3), tmp_path / "run")
    received = train(taught(epochs=3), tmp_path / "run")
    expected = train(taught(epochs=3), tmp_path / "uninterrupted")
    for one, other in zip(received.model.get_weights(), expected.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_teachers_with_another_vocabulary_are_named(tmp_path, teacher, taught):
    odd = shutil.copytree(teacher, tmp_path / "odd")
    tiny_tokenizer(379).save(odd / "vocabulary.model")
    with pytest.raises(ValueError, match=r"training/vocabulary.model .*others in \S*/odd\. Train"):
        train(taught([teacher, odd]), tmp_path / "run")
    with pytest.raises(ValueError, match=r"vocab_size=390; received others in \S*/training\. Tr"):
        train(taught(model={"vocab_size": 390}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_teacher_that_is_not_there_is_named(tmp_path, taught):
    with pytest.raises(FileNotFoundError, match="none/config.yaml does not exist"):
        train(taught([tmp_path / "none"]), tmp_path / "run")
