"""Saving translators, and loading them, training runs and exports."""

import dataclasses
import json
import os
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.config import DecodingConfig
from keras_transformer.config.record import ExportRecord
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
    train_word_piece,
)
from keras_transformer.text.files import save_tokenizers
from keras_transformer.training.run_directory import run_facts
from keras_transformer.translation import Translator, saved
from keras_transformer.translation.saved import find_translator, weights_file
from tests.helpers.parser import parser
from tests.helpers.tiny import (
    export_quickly,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_pairs,
    toy_sentences,
    toy_training,
)

SENTENCES = toy_sentences(14)
SEARCH = DecodingConfig(beam_size=3, extra_length=6, length_penalty=1.0)


def make_translator():
    return Translator(tiny_model(num_layers=1), tiny_tokenizer(), decoding=SEARCH)


@pytest.fixture
def translator():
    return make_translator()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The directory of an exported model's versions. Tests must not change it."""
    directory = tmp_path_factory.mktemp("saved_models") / "toy"
    export_quickly(make_translator(), directory)
    return directory


def write_export(directory, translator, **facts):
    """Write the files of an export other than its graph and weights."""
    record = ExportRecord(
        model=dataclasses.asdict(translator.model.config),
        decoding=dataclasses.asdict(translator.decoding),
        facts=facts,
    )
    directory.mkdir()
    extra = record.write(directory).parent
    save_tokenizers(extra, (translator.tokenizer, translator.target_tokenizer), shared=True)
    (directory / "saved_model.pb").touch()


def assert_equal(received, expected):
    assert type(received.model) is Transformer
    assert received.model.config == expected.model.config
    assert received.decoding == expected.decoding
    for one, other in zip(received.model.weights, expected.model.weights, strict=True):
        assert one.path == other.path
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def assert_same_translations(received, expected):
    found, wanted = (each.translate_with_scores(SENTENCES) for each in (received, expected))
    assert found["translation"].numpy().tolist() == wanted["translation"].numpy().tolist()
    np.testing.assert_allclose(found["score"], wanted["score"], atol=1e-6)


def test_a_string_has_a_string_and_a_list_has_a_list():
    translator = tiny_translator(beam_size=1, extra_length=6)
    translations = translator(SENTENCES[:2])
    assert translator(SENTENCES[0]) == translations[0] != ""
    assert translator([SENTENCES[0]]) == translations[:1]


@pytest.mark.slow
def test_each_kind_of_directory_is_loaded_as_it_was_written(translator, exported, tmp_path):
    translator.save(tmp_path / "new" / "toy")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["toy"]
    directory, trained = toy_training()
    for path, expected in (
        (tmp_path / "new" / "toy", translator),
        (exported, translator),
        (str(directory), trained),
    ):
        loaded = Translator.load(path)
        assert_equal(loaded, expected)
        assert_same_translations(loaded, expected)


@pytest.mark.slow
def test_what_was_exported_can_be_loaded_and_saved(translator, exported, tmp_path):
    Translator.load(exported / "1").save(tmp_path)
    assert_equal(Translator.load(tmp_path), translator)


def test_decoding_options_and_the_precision_can_be_changed(translator, tmp_path):
    translator.save(tmp_path)
    loaded = Translator.load(tmp_path, compiled=True, precision="bfloat16", beam_size=2)
    assert (loaded.decoding.beam_size, loaded.decoding.extra_length) == (2, 6)
    assert loaded.model.dtype_policy.name == "bfloat16"
    assert loaded.compiled


@pytest.mark.parametrize("target_vocab_size", [350, None])
def test_separate_vocabularies_stay_separate(target_vocab_size, tmp_path):
    source = tiny_tokenizer(330, sides=(0,))
    target = tiny_tokenizer(target_vocab_size or 330, sides=(1,))
    Translator(tiny_model(330, target_vocab_size), source, target).save(tmp_path)
    loaded = Translator.load(tmp_path)
    assert loaded.tokenizer.model == source.model
    assert loaded.target_tokenizer.model == target.model


@pytest.mark.parametrize("kinds", [("bpe", "wordpiece"), ("wordpiece", "bpe")])
def test_the_vocabularies_may_be_of_two_kinds(kinds, tmp_path):
    source, target = map(trained_tokenizer, kinds)
    Translator(tiny_model(300, 300), source, target).save(tmp_path)
    loaded = Translator.load(tmp_path)
    assert loaded.tokenizer.model == source.model
    assert loaded.target_tokenizer.model == target.model


def trained_tokenizer(subwords):
    lines = [side for pair in toy_pairs(50) for side in pair]
    if subwords == "wordpiece":
        return WordPieceTokenizer(train_word_piece(lines, 300))
    return SentencePieceTokenizer(train_sentencepiece(lines, 300, model_type=subwords))


@pytest.mark.parametrize(
    ("subwords", "word_tags"),
    [
        *(("bpe", None), ("unigram", None), ("wordpiece", None)),
        *(("word", "none"), ("word", "source"), ("word", "target")),
    ],
)
def test_each_kind_of_vocabulary_is_known_again(subwords, word_tags, tmp_path):
    if word_tags is None:
        tokenizer = trained_tokenizer(subwords)
        model = Transformer.from_size("tiny", tokenizer.vocab_size, num_layers=1, d_model=8)
        translator, task = Translator(model, tokenizer), "translation"
    else:
        translator, task = parser(word_tags, subwords="word"), "parsing"
    translator.save(tmp_path / "saved")
    write_export(tmp_path / "exported", translator)
    for name in ("saved", "exported"):
        found = find_translator(tmp_path / name)
        assert found.config.data.subwords == subwords
        assert found.read_task() == {"task": task, "word_tags": word_tags or "none"}
    loaded = Translator.load(tmp_path / "saved")
    assert_equal(loaded, translator)
    for side in ("tokenizer", "target_tokenizer"):
        one, other = getattr(loaded, side), getattr(translator, side)
        assert (type(one), one.model) == (type(other), other.model)


@pytest.mark.parametrize("free", [10**9, 0])
def test_a_large_model_is_unpacked_where_there_is_space(free, translator, tmp_path, monkeypatch):
    translator.save(tmp_path / "toy")
    opened, load = [], keras.saving.load_model
    monkeypatch.setattr(saved, "_LARGE", 10_000)
    monkeypatch.setattr(saved.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(
        saved.keras.saving, "load_model", lambda *a, **k: (opened.append(a[0]), load(*a, **k))[1]
    )
    received = Translator.load(tmp_path / "toy")
    assert opened[0].endswith("model.keras") == (not free)
    assert Path(opened[0]).exists() == (not free)
    assert_equal(received, translator)


def test_a_large_model_that_is_damaged_is_named(translator, tmp_path, monkeypatch):
    translator.save(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(saved.tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(saved.shutil, "disk_usage", lambda _: SimpleNamespace(free=1e12))
    monkeypatch.setattr(saved.keras.saving, "load_model", None)  # It is not called.
    monkeypatch.setattr(saved, "_LARGE", 10_000)
    (tmp_path / "SHA256SUMS").unlink()
    data = bytearray((tmp_path / "model.keras").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "model.keras").write_bytes(data)
    with pytest.raises(ValueError, match="model.keras is damaged: Bad CRC-32"):
        Translator.load(tmp_path)
    assert not list((tmp_path / "temporary").iterdir())


def test_a_model_is_saved_whatever_the_clock_says(translator, tmp_path, monkeypatch):
    write = zipfile.ZipFile.write

    def write_old(archive, file, name):
        os.utime(file, (0, 0))
        write(archive, file, name)

    monkeypatch.setattr(zipfile.ZipFile, "write", write_old)
    translator.save(tmp_path / "toy")
    assert_equal(Translator.load(tmp_path / "toy"), translator)


def test_the_optimizer_is_not_saved(translator, tmp_path):
    translator.save(tmp_path / "plain")
    model = translator.model
    model.compile("adam", LabelSmoothedCrossEntropy(0.1))
    model.optimizer.build(model.trainable_variables)
    translator.save(tmp_path / "trained")
    sizes = [(tmp_path / n / "model.keras").stat().st_size for n in ("plain", "trained")]
    assert sizes[1] < 1.1 * sizes[0]
    assert_equal(Translator.load(tmp_path / "trained"), translator)


def test_saving_replaces_what_save_wrote(translator, tmp_path):
    path = tmp_path / "toy"
    path.mkdir()
    translator.save(path)  # Empty directories are free.
    other = Translator(tiny_model(330, 350), tiny_tokenizer(330, (0,)), tiny_tokenizer(350, (1,)))
    other.save(path)
    assert {entry.name for entry in path.iterdir()} == {
        *("SHA256SUMS", "config.yaml", "model.keras", "source.model", "target.model")
    }
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy"]


@pytest.mark.parametrize("held", ["notes.txt", "model.keras", "1"])
def test_saving_keeps_what_save_did_not_write(held, translator, tmp_path):
    (tmp_path / held).touch()
    with pytest.raises(FileExistsError, match=f"path must be new, empty, .* holds {held}. Choose"):
        translator.save(tmp_path)
    with pytest.raises(FileExistsError, match=f"directory, received the file .*/{held}."):
        translator.save(tmp_path / held)
    assert [entry.name for entry in tmp_path.iterdir()] == [held]


def test_a_run_is_not_replaced(translator, tmp_path):
    for name in ("config.yaml", "model.keras", "vocabulary.model"):
        shutil.copy(toy_training()[0] / name, tmp_path)
    with pytest.raises(FileExistsError, match="holds a training run. Choose"):
        translator.save(tmp_path)


def test_a_failure_leaves_what_was_there(translator, tmp_path, monkeypatch):
    path = tmp_path / "toy"
    translator.save(path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}

    def fail(self, *args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(Transformer, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        translator.save(path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["toy"]


def test_what_is_not_a_translator_is_named(translator, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no directory .*/none. Give the dir"):
        Translator.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="config.yaml does not exist. Give .* or of an exp"):
        Translator.load(tmp_path)
    translator.save(tmp_path)
    (tmp_path / "config.yaml").write_text("model: {vocab_size: 3}")
    (tmp_path / "SHA256SUMS").unlink()
    with pytest.raises(
        ValueError, match="config.yaml has invalid values: model.vocab_size must be greater than 4"
    ):
        Translator.load(tmp_path)
    (tmp_path / "model.keras").unlink()
    with pytest.raises(FileNotFoundError, match="model.keras does not exist. Give the directory"):
        Translator.load(tmp_path)


def said(caplog):
    name = "keras_transformer.translation.saved"
    return [record.getMessage() for record in caplog.records if record.name == name]


def test_a_run_that_is_not_finished_is_used_with_its_best_epoch(tmp_path, caplog):
    run = shutil.copytree(toy_training()[0], tmp_path / "run")
    (run / "model.keras").unlink()
    with pytest.raises(FileNotFoundError, match="model.keras does not exist"):  # It was finished.
        Translator.load(run)
    (run / "chosen.json").unlink()
    (best,) = (run / "checkpoints").glob("best-*-bleu-*")
    epoch = int(best.name.split("-")[1])
    model = Transformer(toy_training()[1].model.config)
    model.load_weights(best)
    loaded = Translator.load(run)
    assert_equal(loaded, Translator(model, loaded.tokenizer, decoding=loaded.decoding))
    assert said(caplog) == [
        f"{run} is not finished: these are the weights of epoch {epoch} of 3, the best so far"
    ]
    assert weights_file(run) == best
    assert run_facts(run)["training"]["epochs"] == 3
    for path in (run / "checkpoints").glob("best-*"):  # As a run on JAX, which has no BLEU.
        path.unlink()
    assert weights_file(run).name == "epoch-0003.weights.h5"
    last = run / "checkpoints/epoch-10000.weights.h5"
    shutil.copy(run / "checkpoints/epoch-0003.weights.h5", last)
    assert weights_file(run) == last
    for path in (run / "checkpoints").iterdir():
        path.rename(path.with_name("step-0001-000001.weights.h5"))
    with pytest.raises(FileNotFoundError, match="model.keras does not exist.* a complete epoch"):
        Translator.load(run)


@pytest.mark.parametrize(("then", "is_warned"), [(2, True), (3, False)])
def test_a_run_that_has_trained_on_since_the_choice_says_so(tmp_path, caplog, then, is_warned):
    run = shutil.copytree(toy_training()[0], tmp_path / "run")
    (run / "chosen.json").write_text(json.dumps({"trained_epochs": then}))
    assert_equal(Translator.load(run), toy_training()[1])
    message = "chosen after epoch 2, and the run has trained on to epoch 3; train --finish chooses"
    assert [message in each for each in said(caplog)] == [True] * is_warned


def test_weights_that_do_not_fit_the_record_of_an_export_are_named(exported, tmp_path):
    path = shutil.copytree(exported, tmp_path / "toy") / "1" / ExportRecord.FILE
    record = json.loads(path.read_text())
    record["model"]["num_layers"] = 3
    path.write_text(json.dumps(record))
    (path.parents[1] / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match="its weights are not those of its assets.extra/export.js"):
        Translator.load(tmp_path / "toy")


def test_the_facts_of_an_export_are_carried_over(translator, tmp_path):
    facts = {"description": "Toys.", "scores": {"bleu": 37.7}, "training": {"epochs": 3}}
    write_export(tmp_path / "exported", translator, **facts, command="export")
    assert run_facts(tmp_path / "exported") == facts
    translator.save(tmp_path / "saved")
    assert run_facts(tmp_path / "saved") == {}
