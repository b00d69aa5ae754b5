"""Runs with teachers (distillation), by `training.teachers`."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.training import train
from keras_transformer.training.csv_tables import read_history
from tests.helpers.tiny import tiny_tokenizer, toy_experiment, toy_training, write_toy_text


@pytest.fixture
def teacher():
    return toy_training()[0]


@pytest.fixture
def taught(tmp_path, teacher):
    """Return an experiment of 60 pairs with the toy run as teacher; arguments replace fields."""

    def make(teachers=(teacher,), model=None, **training):
        text = write_toy_text(tmp_path, train=60)
        given = {"teachers": [str(path) for path in teachers], "epochs": 1, **training}
        experiment = toy_experiment(text, **given)
        return dataclasses.replace(
            experiment, model=dataclasses.replace(experiment.model, **model or {})
        )

    return make


@pytest.mark.slow
def test_a_student_of_other_sizes_takes_over_the_vocabulary(
    tmp_path, teacher, taught, without_search
):
    before = (teacher / "model.keras").read_bytes()
    text = taught(model={"d_model": 16}, distillation=1.0, epochs=2)
    translator = train(text, tmp_path / "run")
    # The labels have no weight, and still become more likely.
    first, second = read_history(tmp_path / "run")["val_nll"]
    assert second < first
    vocabulary = (tmp_path / "run" / "vocabulary.model").read_bytes()
    assert vocabulary == (teacher / "vocabulary.model").read_bytes()
    assert (teacher / "model.keras").read_bytes() == before
    saved = keras.saving.load_model(tmp_path / "run" / "model.keras")
    for weight, other in zip(saved.get_weights(), translator.model.get_weights(), strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.mark.slow
def test_a_run_may_start_from_one_model_and_have_others_as_teachers(
    tmp_path, teacher, taught, without_search
):
    other = tmp_path / "other"
    train(taught(), other)
    started = keras.saving.load_model(teacher / "model.keras").get_weights()

    def loss(name, teachers):
        config = taught(
            teachers, init_from=str(teacher), distillation=1.0, learning_rate_scale=1e-12
        )
        model = train(config, tmp_path / name).model
        for weight, start in zip(model.get_weights(), started, strict=True):
            np.testing.assert_allclose(weight, start, atol=1e-6)
        return read_history(tmp_path / name)["loss"][0]

    one, two = loss("one", [teacher]), loss("two", [other])
    assert abs(two - one) > 0.01
    # A cross entropy is linear in its target, and dropout is of the same seed.
    assert loss("both", [teacher, other]) == pytest.approx((one + two) / 2, rel=1e-5)


@pytest.mark.slow
def test_an_interrupted_run_resumes_with_its_teachers(
    tmp_path, taught, interrupted_in_epoch, without_search
):
    with interrupted_in_epoch(2):
        train(taught(epochs=3), tmp_path / "run")
    received = train(taught(epochs=3), tmp_path / "run")
    expected = train(taught(epochs=3), tmp_path / "uninterrupted")
    for one, other in zip(received.model.get_weights(), expected.model.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_teachers_with_another_vocabulary_are_refused_by_name(tmp_path, teacher, taught):
    odd = shutil.copytree(teacher, tmp_path / "odd")
    tiny_tokenizer(379).save(odd / "vocabulary.model")
    (odd / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match=r"training/vocabulary.model; .*others in \S*/odd/voc"):
        train(taught([teacher, odd]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_is_there_is_kept(tmp_path, taught):
    run = tmp_path / "run"
    run.mkdir()
    tiny_tokenizer(379).save(run / "vocabulary.model")
    before = (run / "vocabulary.model").read_bytes()
    with pytest.raises(ValueError, match=r"others in \S*/run/vocabulary.model\. Train"):
        train(taught(), run)
    assert (run / "vocabulary.model").read_bytes() == before


def test_teachers_of_other_subwords_or_few_positions_are_refused_by_name(tmp_path, teacher, taught):
    odd = shutil.copytree(teacher, tmp_path / "odd")
    config = ExperimentConfig.from_file(odd / "config.yaml")
    model = dataclasses.replace(config.model, position="learned", max_length=64)
    data = dataclasses.replace(config.data, max_length=64)
    dataclasses.replace(config, model=model, data=data).to_file(odd / "config.yaml")
    (odd / "SHA256SUMS").unlink()
    own = r"subwords=bpe with vocab_size=390, .*"
    theirs = r"\S*/training has subwords=bpe with vocab_size=380; "
    with pytest.raises(ValueError, match=own + theirs + ".*/odd has 64 learned positions. Set"):
        train(taught([teacher, odd], {"vocab_size": 390}), tmp_path / "run")
    with pytest.raises(ValueError, match=r"max_length=128; received \S*/odd has 64 learned pos"):
        train(taught([teacher, odd]), tmp_path / "run")


def test_a_shared_vocabulary_differs_from_two_of_its_size(tmp_path, taught):
    with pytest.raises(ValueError, match="vocab_size=380 and target_vocab_size=380, .*=380\\. Set"):
        model = {"target_vocab_size": 380, "share_embeddings": "target"}
        train(taught(model=model), tmp_path / "run")


def test_a_teacher_that_is_not_there_is_named(tmp_path, taught):
    with pytest.raises(FileNotFoundError, match="There is no directory .*none"):
        train(taught([tmp_path / "none"]), tmp_path / "run")
