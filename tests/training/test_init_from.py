"""Runs that start from a trained or exported model, by `training.init_from`."""

import dataclasses
import shutil

import keras
import numpy as np
import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.evaluation import score
from keras_transformer.training import train
from keras_transformer.training.check import find_start
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.run_directory import run_facts
from keras_transformer.translation import Translator
from keras_transformer.translation.saved import find_translator
from tests.helpers.tiny import (
    export_quickly,
    tiny_tokenizer,
    toy_experiment,
    toy_pairs,
    toy_training,
    write_toy_text,
)

STANDS_STILL = 1e-12  # As learning_rate_scale.


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def assert_same_weights(received, expected, atol):
    for weight, other in zip(received.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, atol=atol)


@pytest.fixture
def source():
    return toy_training()[0]


@pytest.fixture
def export(tmp_path):
    """Export the model of a run, and return its directory."""

    def make(directory, **options):
        path = tmp_path / "saved_models" / "toy"
        export_quickly(Translator.load(directory, **options), path, run_facts(directory))
        return path

    return make


@pytest.fixture
def continued(tmp_path, source):
    """Return an experiment of 60 pairs that starts from the toy run; arguments replace fields."""

    def make(start=source, model=None, **training):
        text = write_toy_text(tmp_path, train=60)
        experiment = toy_experiment(text, init_from=str(start), **training)
        return dataclasses.replace(
            experiment, model=dataclasses.replace(experiment.model, **model or {})
        )

    return make


@pytest.mark.slow
def test_a_run_starts_with_the_weights_and_subwords_of_another(tmp_path, source, continued, caplog):
    before = contents(source)
    caplog.set_level("INFO", logger="keras_transformer")
    # Dropout has no weights and may differ.
    rates = {"dropout": 0.3, "attention_dropout": 0.1, "ffn_dropout": 0.2}
    config = continued(model=rates, epochs=1, learning_rate_scale=STANDS_STILL)
    translator = train(config, tmp_path / "run")
    trained = keras.saving.load_model(source / "model.keras")
    assert_same_weights(translator.model, trained, atol=1e-6)
    assert translator.model.config == config.model != trained.config
    sources, references = zip(*toy_pairs(80)[60:], strict=True)
    bleu = score(Translator.load(source, beam_size=1)(sources), references).bleu
    assert bleu > 0.1
    (nll,), (first_bleu,) = map(read_history(tmp_path / "run").get, ("val_nll", "val_bleu"))
    assert first_bleu == pytest.approx(bleu)
    assert f"before training: val_nll {nll:.4f}, validation BLEU (greedy) {bleu:.2f}" in (
        caplog.messages
    )
    vocabulary = (tmp_path / "run" / "vocabulary.model").read_bytes()
    assert vocabulary == (source / "vocabulary.model").read_bytes()
    assert ExperimentConfig.from_file(tmp_path / "run" / "config.yaml") == config
    assert contents(source) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [{}, {"compiled": True}, {"precision": "bfloat16"}], ids=lambda kind: "".join(kind)
)
def test_a_run_starts_from_an_exported_model(
    tmp_path, source, export, continued, kind, without_search
):
    start = export(source, beam_size=3, **kind)
    before = contents(start)
    config = continued(start, epochs=1, learning_rate_scale=STANDS_STILL)
    translator = train(config, tmp_path / "run")
    trained = Translator.load(source, precision=kind.get("precision", "float32")).model
    assert_same_weights(translator.model, trained, atol=1e-6)
    vocabulary = (tmp_path / "run" / "vocabulary.model").read_bytes()
    assert vocabulary == (source / "vocabulary.model").read_bytes()
    assert contents(start) == before


def test_an_export_in_a_run_directory_is_not_what_a_run_starts_from(tmp_path, source):
    directory = shutil.copytree(source, tmp_path / "both")
    export_quickly(Translator.load(source), directory)
    assert find_translator(directory).vocabularies == [directory / "vocabulary.model"]


@pytest.mark.slow
def test_a_run_starts_from_a_translator_that_was_saved_or_exported_in_python(
    tmp_path, source, continued, without_search
):
    translator = Translator.load(source)
    translator.save(tmp_path / "saved")
    export_quickly(translator, tmp_path / "exported", {"training": "3 epochs"})
    for name in ("saved", "exported"):
        config = continued(tmp_path / name, epochs=1, learning_rate_scale=STANDS_STILL)
        trained = train(config, tmp_path / f"run_{name}")
        assert_same_weights(trained.model, translator.model, atol=1e-6)


def test_an_exported_model_needs_its_vocabulary(tmp_path, source, export, continued):
    start = export(source)
    (start / "1" / "assets.extra" / "vocabulary.model").unlink()
    with pytest.raises(ValueError, match="toy/1/assets.extra/vocabulary.model is missing, but"):
        train(continued(start), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("exported", [False, True])
def test_separate_vocabularies_are_taken_over(
    tmp_path, continued, export, exported, without_search
):
    sizes = {"vocab_size": 330, "target_vocab_size": 350, "share_embeddings": "target"}
    first = continued(model=sizes, epochs=1)
    first = dataclasses.replace(first, training=dataclasses.replace(first.training, init_from=None))
    started = train(first, tmp_path / "first")
    start = export(tmp_path / "first") if exported else tmp_path / "first"
    config = continued(start, sizes, epochs=1, learning_rate_scale=STANDS_STILL)
    # A vocabulary that this trained would be another.
    data = dataclasses.replace(first.data, character_coverage=0.98)
    config = dataclasses.replace(config, data=data)
    translator = train(config, tmp_path / "run")
    assert_same_weights(translator.model, started.model, atol=1e-6)
    for name in ("source.model", "target.model"):
        first, second = (tmp_path / run / name for run in ("first", "run"))
        assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_the_schedule_and_the_optimizer_start_anew(tmp_path, continued, without_search):
    config = continued(epochs=1, warmup_steps=3, learning_rate_scale=0.01, steps_per_epoch=3)
    train(config, tmp_path / "run")
    # The rate of the fourth step, for an optimizer that has made none before.
    expected = 0.01 * 32**-0.5 * 4**-0.5
    assert read_history(tmp_path / "run")["learning_rate"] == [pytest.approx(expected)]


@pytest.mark.slow
def test_an_interrupted_run_resumes_as_if_uninterrupted(
    tmp_path, source, continued, interrupted_in_epoch, without_search
):
    start = shutil.copytree(source, tmp_path / "start")
    config = continued(start, epochs=3)
    for epoch in (1, 2):  # It starts again, and then resumes after the first epoch.
        with interrupted_in_epoch(epoch):
            train(config, tmp_path / "run")
    shutil.rmtree(start)  # Needed only until the first epoch is complete.
    received = train(config, tmp_path / "run")
    assert read_history(tmp_path / "run")["epoch"] == [1, 2, 3]
    expected = train(continued(epochs=3), tmp_path / "uninterrupted")
    assert_same_weights(received.model, expected.model, atol=1e-4)
    assert read_history(tmp_path / "run")["loss"] == pytest.approx(
        read_history(tmp_path / "uninterrupted")["loss"], rel=1e-4
    )


def test_every_size_that_differs_is_named(tmp_path, continued):
    config = continued(model={"d_ff": 59, "num_heads": 4, "norm": "pre", "dropout": 0.4})
    message = (
        "Received model.d_ff=59 instead of 48, model.num_heads=4 instead of 2, "
        "model.key_dim=8 instead of 16, model.value_dim=8 instead of 16, "
        r"model.norm='pre' instead of 'post', of \S*/training. Leave these options out"
    )
    with pytest.raises(ValueError, match=message):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sizes_may_be_spelled_out(tmp_path, continued):
    find_start(tmp_path / "run", continued(model={"key_dim": 16, "value_dim": 16}))


def test_other_subwords_are_refused(tmp_path, continued):
    config = continued()
    data = dataclasses.replace(config.data, subwords="wordpiece")
    with pytest.raises(ValueError, match="Received data.subwords='wordpiece' instead of 'bpe', of"):
        train(dataclasses.replace(config, data=data), tmp_path / "run")


def test_an_unfinished_run_is_refused(tmp_path, continued):
    with pytest.raises(FileNotFoundError, match="There is no directory .*none. Give the directory"):
        train(continued(tmp_path / "none"), tmp_path / "run")


def test_another_vocabulary_is_refused_and_kept(tmp_path, continued):
    path = tmp_path / "run" / "vocabulary.model"
    path.parent.mkdir()
    tiny_tokenizer(379).save(path)
    before = contents(path.parent)
    with pytest.raises(ValueError, match=r"run/vocabulary.model, which differs from .*/voc"):
        train(continued(), path.parent)
    assert contents(path.parent) == before
    shutil.copy(toy_training()[0] / path.name, path)
    find_start(path.parent, continued())


def test_the_directory_to_start_from_is_not_written_to(source, continued):
    before = contents(source)
    with pytest.raises(ValueError, match="holds a run with another configuration"):
        train(continued(), source)
    assert contents(source) == before


def with_two_vocabularies(source, start):
    """Copy a run, with a vocabulary for each side that splits text differently."""
    from sentencepiece import sentencepiece_model_pb2 as schema

    shutil.copytree(source, start)
    model = (start / "vocabulary.model").read_bytes()
    proto = schema.ModelProto.FromString(model)
    proto.normalizer_spec.add_dummy_prefix = False
    (start / "source.model").write_bytes(model)
    (start / "target.model").write_bytes(proto.SerializeToString())
    (start / "vocabulary.model").unlink()


@pytest.mark.slow
def test_a_run_keeps_and_resumes_with_two_vocabularies_of_one_size(
    tmp_path, source, continued, without_search
):
    with_two_vocabularies(source, tmp_path / "start")
    config = continued(tmp_path / "start", epochs=1)
    train(config, tmp_path / "run")
    for name in ("source.model", "target.model"):
        content = (tmp_path / "run" / name).read_bytes()
        assert content == (tmp_path / "start" / name).read_bytes()
    longer = dataclasses.replace(config.training, epochs=config.training.epochs + 1)
    train(dataclasses.replace(config, training=longer), tmp_path / "run")
    assert not (tmp_path / "run" / "vocabulary.model").exists()


def test_other_vocabularies_in_the_directory_are_refused(tmp_path, source, continued):
    (tmp_path / "run").mkdir()
    for name in ("source.model", "target.model"):
        shutil.copy(source / "vocabulary.model", tmp_path / "run" / name)
    with pytest.raises(ValueError, match="vocabulary.model; received .*source.model and .*target"):
        train(continued(), tmp_path / "run")


def test_an_int8_model_does_not_start_a_run(tmp_path, source, continued):
    translator = Translator.load(source)
    translator.model.quantize("int8")
    translator.save(tmp_path / "start")
    with pytest.raises(ValueError, match="can be trained, received .*/start, which is int8. Start"):
        train(continued(tmp_path / "start"), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["text"]  # For the next try.
