"""Runs that start from a trained model (`init_from`), and runs with teachers (distillation)."""

import dataclasses
import shutil

import keras
import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.evaluation import score
from keras_transformer.training import train
from keras_transformer.training.check import find_start
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.run_directory import run_facts, settle
from keras_transformer.translation import Translator
from keras_transformer.translation.saved import find_translator
from tests.helpers.arrays import assert_same_weights
from tests.helpers.experiment import interrupted_in_epoch
from tests.helpers.tiny import (
    export_quickly,
    tiny_tokenizer,
    tiny_translator,
    toy_experiment,
    toy_pairs,
    toy_training,
    write_toy_text,
)

STANDS_STILL = 1e-12  # As learning_rate_scale.


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def assert_same_files(ours, theirs, *names):
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()


@pytest.mark.parametrize("field", ["init_from", "teachers"])
def test_a_model_that_is_not_there_is_named(field, tmp_path):
    missing = str(tmp_path / "none")
    recipe = {field: missing if field == "init_from" else [missing]}
    config = toy_experiment(write_toy_text(tmp_path, train=60), **recipe)
    with pytest.raises(FileNotFoundError, match="There is no directory .*none"):
        train(config, tmp_path / "run")


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
        return toy_experiment(text, model, **{"init_from": str(start), "epochs": 1, **training})

    return make


@pytest.mark.slow
def test_a_run_starts_with_the_weights_and_subwords_of_another(tmp_path, source, continued, caplog):
    before = contents(source)
    caplog.set_level("INFO", logger="keras_transformer")
    # Dropout has no weights and may differ.
    rates = {"dropout": 0.3, "attention_dropout": 0.1, "ffn_dropout": 0.2}
    config = continued(model=rates, learning_rate_scale=STANDS_STILL)
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
    assert_same_files(tmp_path / "run", source, "vocabulary.model")
    assert ExperimentConfig.from_file(tmp_path / "run" / "config.yaml") == settle(config, tmp_path)
    assert contents(source) == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["saved", "exported", "without data", "compiled", "bfloat16"])
def test_a_run_starts_from_a_saved_or_exported_translator(
    tmp_path, source, continued, kind, without_scores
):
    start, precision = tmp_path / "toy", "bfloat16" if kind == "bfloat16" else "float32"
    translator = Translator.load(
        source, beam_size=3, compiled=kind == "compiled", precision=precision
    )
    facts = {"training": "3 epochs"} if kind == "without data" else run_facts(source)
    translator.origin = {"license": "cc-by-4.0", "attribution": "OPUS-MT"}
    if kind == "saved":
        translator.save(start)
    else:
        export_quickly(translator, start, facts)
    before = contents(start)
    trained = train(continued(start, learning_rate_scale=STANDS_STILL), tmp_path / "run")
    assert_same_weights(trained.model, translator.model, atol=1e-6)
    assert_same_files(tmp_path / "run", source, "vocabulary.model")
    assert contents(start) == before
    shutil.rmtree(start)
    assert Translator.load(tmp_path / "run").origin == translator.origin
    assert run_facts(tmp_path / "run")["license"] == "cc-by-4.0"


def test_an_export_in_a_run_directory_is_not_what_a_run_starts_from(tmp_path, source):
    directory = shutil.copytree(source, tmp_path / "both")
    export_quickly(Translator.load(source), directory)
    assert find_translator(directory).vocabularies == [directory / "vocabulary.model"]


def test_an_exported_model_needs_its_vocabulary(tmp_path, source, export, continued):
    start = export(source)
    (start / "1" / "assets.extra" / "vocabulary.model").unlink()
    with pytest.raises(ValueError, match="toy/1/assets.extra/vocabulary.model is missing, but"):
        train(continued(start), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize("exported", [False, True])
def test_separate_vocabularies_are_taken_over(
    tmp_path, continued, export, exported, without_scores
):
    sizes = {"vocab_size": 330, "target_vocab_size": 350, "share_embeddings": "target"}
    first = toy_experiment(write_toy_text(tmp_path, train=60), sizes, epochs=1)
    started = train(first, tmp_path / "first")
    start = export(tmp_path / "first") if exported else tmp_path / "first"
    config = continued(start, sizes, learning_rate_scale=STANDS_STILL)
    # A vocabulary that this trained would be another.
    data = dataclasses.replace(first.data, character_coverage=0.98)
    config = dataclasses.replace(config, data=data)
    translator = train(config, tmp_path / "run")
    assert_same_weights(translator.model, started.model, atol=1e-6)
    assert_same_files(tmp_path / "run", tmp_path / "first", "source.model", "target.model")


@pytest.mark.slow
def test_the_schedule_and_the_optimizer_start_anew(tmp_path, continued, without_scores):
    config = continued(epochs=2, warmup_steps=3, learning_rate_scale=0.01, steps_per_epoch=3)
    train(config, tmp_path / "run")
    # The rates of the fourth and the seventh step, for an optimizer that has made none before.
    expected = [0.01 * 32**-0.5 * step**-0.5 for step in (4, 7)]
    assert read_history(tmp_path / "run")["learning_rate"] == pytest.approx(expected)


@pytest.mark.slow
def test_an_interrupted_run_resumes_as_if_uninterrupted(
    tmp_path, source, continued, without_scores
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


def test_every_option_that_differs_is_named(tmp_path, continued):
    config = continued(model={"d_ff": 59, "num_heads": 4, "norm": "pre", "dropout": 0.4})
    data = dataclasses.replace(config.data, subwords="wordpiece")
    message = (
        "Received model.d_ff=59 instead of 48, model.num_heads=4 instead of 2, "
        "model.key_dim=8 instead of 16, model.value_dim=8 instead of 16, "
        "model.norm='pre' instead of 'post', data.subwords='wordpiece' instead of 'bpe', "
        r"of \S*/training. Leave these options out"
    )
    with pytest.raises(ValueError, match=message):
        train(dataclasses.replace(config, data=data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_sizes_may_be_spelled_out(tmp_path, continued):
    find_start(tmp_path / "run", continued(model={"key_dim": 16, "value_dim": 16}))


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


def test_a_saved_model_is_no_run_to_resume(tmp_path, continued):
    tiny_translator(num_layers=1).save(tmp_path / "saved")
    with pytest.raises(ValueError, match="saved holds a model that was saved or imported. Choose"):
        train(continued(), tmp_path / "saved")


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
    tmp_path, source, continued, without_scores
):
    with_two_vocabularies(source, tmp_path / "start")
    config = continued(tmp_path / "start", epochs=1)
    train(config, tmp_path / "run")
    assert_same_files(tmp_path / "run", tmp_path / "start", "source.model", "target.model")
    train(continued(tmp_path / "start", epochs=2), tmp_path / "run")
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


@pytest.fixture
def taught(tmp_path, source):
    """Return an experiment of 60 pairs with the toy run as teacher; arguments replace fields."""

    def make(teachers=(source,), model=None, **training):
        text = write_toy_text(tmp_path, train=60)
        given = {"teachers": [str(path) for path in teachers], "epochs": 1, **training}
        return toy_experiment(text, model, **given)

    return make


@pytest.mark.slow
def test_a_student_of_other_sizes_takes_over_the_vocabulary(
    tmp_path, source, taught, without_search
):
    before = (source / "model.keras").read_bytes()
    text = taught(model={"d_model": 16}, distillation=1.0, epochs=2)
    translator = train(text, tmp_path / "run")
    # The labels have no weight, and still become more likely.
    first, second = read_history(tmp_path / "run")["val_nll"]
    assert second < first
    assert_same_files(tmp_path / "run", source, "vocabulary.model")
    assert (source / "model.keras").read_bytes() == before
    saved = keras.saving.load_model(tmp_path / "run" / "model.keras")
    assert_same_weights(saved, translator.model)


@pytest.mark.slow
def test_a_run_may_start_from_one_model_and_have_others_as_teachers(
    tmp_path, source, taught, without_scores
):
    other = tmp_path / "other"
    train(taught(), other)
    started = keras.saving.load_model(source / "model.keras")

    def loss(name, teachers):
        config = taught(
            teachers, init_from=str(source), distillation=1.0, learning_rate_scale=1e-12
        )
        assert_same_weights(train(config, tmp_path / name).model, started, atol=1e-6)
        return read_history(tmp_path / name)["loss"][0]

    one, two = loss("one", [source]), loss("two", [other])
    assert abs(two - one) > 0.01
    # A cross entropy is linear in its target, and dropout is of the same seed.
    assert loss("both", [source, other]) == pytest.approx((one + two) / 2, rel=1e-5)


def test_teachers_with_another_vocabulary_are_refused_by_name(tmp_path, source, taught):
    odd = shutil.copytree(source, tmp_path / "odd")
    tiny_tokenizer(379).save(odd / "vocabulary.model")
    (odd / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match=r"training/vocabulary.model; .*others in \S*/odd/voc"):
        train(taught([source, odd]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_is_there_is_kept(tmp_path, taught):
    run = tmp_path / "run"
    run.mkdir()
    tiny_tokenizer(379).save(run / "vocabulary.model")
    before = (run / "vocabulary.model").read_bytes()
    with pytest.raises(ValueError, match=r"others in \S*/run/vocabulary.model\. Train"):
        train(taught(), run)
    assert (run / "vocabulary.model").read_bytes() == before


def test_teachers_of_other_subwords_or_few_positions_are_refused_by_name(tmp_path, source, taught):
    odd = shutil.copytree(source, tmp_path / "odd")
    config = ExperimentConfig.from_file(odd / "config.yaml")
    model = dataclasses.replace(config.model, position="learned", max_length=64)
    data = dataclasses.replace(config.data, max_length=64)
    dataclasses.replace(config, model=model, data=data).to_file(odd / "config.yaml")
    (odd / "SHA256SUMS").unlink()
    own = r"subwords=bpe with vocab_size=390, .*"
    theirs = r"\S*/training has subwords=bpe with vocab_size=380; "
    with pytest.raises(ValueError, match=own + theirs + ".*/odd has 64 learned positions. Set"):
        train(taught([source, odd], {"vocab_size": 390}), tmp_path / "run")
    with pytest.raises(ValueError, match=r"max_length=128; received \S*/odd has 64 learned pos"):
        train(taught([source, odd]), tmp_path / "run")


def test_a_shared_vocabulary_differs_from_two_of_its_size(tmp_path, taught):
    with pytest.raises(ValueError, match="vocab_size=380 and target_vocab_size=380, .*=380\\. Set"):
        model = {"target_vocab_size": 380, "share_embeddings": "target"}
        train(taught(model=model), tmp_path / "run")
