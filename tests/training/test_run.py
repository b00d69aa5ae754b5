import dataclasses
import gc
import json
import shutil
import weakref

import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.config import DecodingConfig, ExperimentConfig
from keras_transformer.evaluation import score
from keras_transformer.training import average_checkpoints, run, train
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.run import prepare
from keras_transformer.training.run_directory import claim, locked_directory
from tests.helpers.arrays import assert_same_weights
from tests.helpers.experiment import epochs_of
from tests.helpers.tiny import (
    TOY_RECIPE,
    tiny_tokenizer,
    toy_data,
    toy_experiment,
    toy_pairs,
    toy_run,
    toy_sentences,
    toy_training,
    write_toy_text,
)

VALIDATION = toy_pairs(420)[400:]


def test_the_loss_falls_and_the_log_has_every_epoch():
    history = read_history(toy_training()[0])
    assert history["epoch"] == [1, 2, 3]
    loss = history["loss"]
    assert loss[0] > loss[1] > loss[2]
    assert history["val_nll"][2] < history["val_nll"][0] < np.log(380)
    assert {"val_bleu", "val_accuracy", "learning_rate", "tokens_per_second"} <= history.keys()


def test_the_directory_has_what_later_programs_need():
    directory = toy_training()[0]
    best = [path.name for path in (directory / "checkpoints").glob("best-*.weights.h5")]
    last = ["epoch-0002.weights.h5", "epoch-0003.weights.h5"]
    assert {path.name for path in (directory / "checkpoints").iterdir()} == {*best, *last}
    assert sorted(name.split("-")[2] for name in best) == ["bleu", "chrf", "nll"]
    assert sorted(path.name for path in directory.iterdir()) == [
        "SHA256SUMS",
        "checkpoints",
        "chosen.json",
        "config.yaml",
        "epochs.csv",
        "inputs.json",
        "metrics.csv",
        "model.keras",
        "tensorboard",
        "text",
        "vocabulary.model",
    ]
    config = toy_experiment(toy_data(toy_run() / "text"), **TOY_RECIPE)
    assert config.training.precision == "auto"
    settled = dataclasses.replace(
        config, training=dataclasses.replace(config.training, precision="float32")
    )
    assert ExperimentConfig.from_file(directory / "config.yaml") == settled


def test_the_model_is_the_chosen_mean_of_checkpoints():
    directory, translator = toy_training()
    chosen = json.loads((directory / "chosen.json").read_text())
    assert chosen["chosen"] == max(chosen["validation_bleu"], key=chosen["validation_bleu"].get)
    model = keras.saving.load_model(directory / "model.keras")
    mean = Transformer(model.config)
    average_checkpoints(mean, [directory / "checkpoints" / name for name in chosen["checkpoints"]])
    assert_same_weights(model, mean)
    sources, references = zip(*VALIDATION, strict=True)
    bleu = score(translator(sources), references).bleu
    assert chosen["validation_bleu"][chosen["chosen"]] == bleu


def test_the_loaded_translator_is_the_returned_one():
    translations = json.loads((toy_run() / "returned.json").read_text())
    assert len(set(translations)) > 3
    assert toy_training()[1](toy_sentences(30, seed=9)) == translations


def test_a_finished_run_stays_as_it_is(tmp_path, caplog):
    directory = shutil.copytree(toy_training()[0], tmp_path / "run")
    config = ExperimentConfig.from_file(directory / "config.yaml")
    for name in ("checkpoints", "text"):
        shutil.rmtree(directory / name)
    caplog.set_level("INFO", logger="keras_transformer")
    before = {path: path.stat().st_mtime_ns for path in (directory, *directory.rglob("*"))}
    again = train(config, directory)
    other = dataclasses.replace(config, decoding=DecodingConfig(beam_size=9))
    assert train(other, directory).decoding == config.decoding
    assert {path: path.stat().st_mtime_ns for path in (directory, *directory.rglob("*"))} == before
    assert_same_weights(again.model, toy_training()[1].model)
    assert caplog.text.count(f"{directory} is finished and is left as it is; give --choose") == 2
    assert caplog.text.count("it keeps its own decoding options, which differ") == 1
    with pytest.raises(FileNotFoundError, match="needs checkpoints, received none in .*run/check"):
        train(config, directory, choose_again=True)
    (directory / "model.keras").unlink()
    with pytest.raises(FileNotFoundError, match="has no model.keras. Restore it, or give --choose"):
        train(config, directory)


@pytest.mark.slow
def test_the_weights_of_a_finished_run_can_be_chosen_again(tmp_path, without_scores):
    directory = tmp_path / "run"
    config = toy_experiment(write_toy_text(tmp_path, train=60))
    expected = train(config, directory)
    for name in ("model.keras", "chosen.json"):
        (directory / name).unlink()
    with pytest.raises(ValueError, match="chosen.json is missing, .* Restore it, or choose"):
        train(config, directory)
    assert_same_weights(train(config, directory, choose_again=True).model, expected.model)
    assert epochs_of(directory) == [1, 2, 3]
    assert_same_weights(train(config, directory).model, expected.model)
    longer = dataclasses.replace(config, training=dataclasses.replace(config.training, epochs=4))
    with pytest.raises(ValueError, match="--choose-again needs a run that has trained its 4 epo"):
        train(longer, directory, choose_again=True)
    # It never trains, even if the last epoch has lost its checkpoint.
    (directory / "checkpoints" / "epoch-0003.weights.h5").unlink()
    table = (directory / "epochs.csv").read_bytes()
    train(config, directory, choose_again=True)
    assert epochs_of(directory) == [1, 2, 3]
    assert (directory / "epochs.csv").read_bytes() == table
    assert json.loads((directory / "chosen.json").read_text())["epochs"] == 3


def test_a_finished_run_with_learned_positions_keeps_its_options(tmp_path, caplog):
    data = {"train_source": "train.tsv", "validation_source": "validation.tsv", "max_length": 9}
    config = toy_experiment(data, {"position": "learned", "max_length": 9})
    claim(tmp_path, config, [tiny_tokenizer(), tiny_tokenizer()], {})
    (tmp_path / "chosen.json").write_text('{"epochs": 3}')
    Transformer(config.model).save(tmp_path / "model.keras")
    assert train(config, tmp_path).decoding.max_source_length == 9
    assert "its own decoding options" not in caplog.text


def test_the_model_is_freed_before_the_choice(tmp_path, monkeypatch):
    build, models = run.build_model, []

    def build_and_watch(*arguments):
        built = build(*arguments)
        models.append(weakref.ref(built[0]))
        return built

    def choose(*arguments):
        gc.collect()
        return [model() for model in models]

    monkeypatch.setattr(run, "build_model", build_and_watch)
    monkeypatch.setattr(run, "choose_weights", choose)
    config = toy_experiment(write_toy_text(tmp_path, train=60), epochs=1)
    assert train(config, tmp_path / "run") == [None]


def test_only_encoded_text_is_removed_from_a_folder_of_text(tmp_path):
    own = tmp_path / "run" / "text" / "corpus"
    own.mkdir(parents=True)
    data = write_toy_text(own, train=60)
    config = toy_experiment(data)
    for sentences in (60, 50):
        lines = (own / "train.source").read_text().splitlines()[:sentences]
        (own / "train.source").write_text("\n".join(lines) + "\n")
        target = (own / "train.target").read_text().splitlines()[:sentences]
        (own / "train.target").write_text("\n".join(target) + "\n")
        assert f"kept {sentences} of" in prepare(config, tmp_path / "run")
    folders = [path for path in own.parent.iterdir() if path.is_dir() and path != own]
    assert len(folders) == 1 and len(list(own.iterdir())) == 4


def test_a_directory_in_use_is_refused_before_anything_is_read(tmp_path):
    text = {"train_source": "none", "validation_source": "none"}
    with locked_directory(tmp_path), pytest.raises(BlockingIOError, match="in use by process"):
        train(toy_experiment(text), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_text_may_come_from_a_tfds_dataset(tmp_path, monkeypatch, caplog, without_scores):
    sets = {
        ("toy", "train[:60]", "en", "de"): toy_pairs(60),
        ("toy", "dev", "en", "de"): VALIDATION,
    }
    module = "keras_transformer.training.corpora"
    monkeypatch.setattr(f"{module}.read_tfds", lambda *of: sets[of])
    monkeypatch.setattr(f"{module}.stream_tfds", lambda *of: iter(sets[of]))
    monkeypatch.setattr(f"{module}.tfds_version", lambda name: f"{name}/1.0.0")
    data = {
        "tfds": "toy",
        "source_language": "en",
        "target_language": "de",
        "train_split": "train[:60]",
        "validation_split": "dev",
    }
    caplog.set_level("INFO", logger="keras_transformer")
    train(toy_experiment(data, epochs=1, batch_tokens=600), tmp_path)
    log = [message.partition(":")[0] for message in caplog.messages]
    start = log.index("text to train on")
    assert log[start + 1] == "kept 60 of 60 sentence pairs"
    assert log[start + 2 : start + 4] == ["text to validate on", "kept 20 of 20 sentence pairs"]


def test_validation_text_is_checked_before_training_text_is_read(tmp_path):
    data = write_toy_text(tmp_path, train=60) | {"train_source": str(tmp_path / "none")}
    for name in ("source", "target"):
        (tmp_path / f"validation.{name}").write_text("\n \n")
    with pytest.raises(ValueError, match=r"received 2 pairs without one in \S*validation.source\."):
        train(toy_experiment(data), tmp_path / "run")


@pytest.mark.slow
def test_the_log_tells_greedy_from_beam_search(tmp_path, caplog, monkeypatch, without_scores):
    caplog.set_level("INFO", logger="keras_transformer")
    monkeypatch.setattr("keras_transformer.training.prepare._MANY_PASSES", 0.9)
    data = write_toy_text(tmp_path, train=60)
    train(toy_experiment(data, epochs=1), tmp_path / "run")
    assert "steps in all: 6, warm-up: 1, tokens per batch: up to 60" in caplog.messages
    assert any(message.startswith("the run makes 1 passes over") for message in caplog.messages)
    assert "val_bleu of an epoch is the validation BLEU (greedy)" in caplog.messages
    assert "choosing the weights on all 20 validation pairs (beam 2):" in caplog.messages
    assert "chosen: last (epoch 1)" in caplog.messages
    caplog.clear()
    train(toy_experiment(data, epochs=2), tmp_path / "run")
    assert "resuming after epoch 1 of 2" in caplog.messages


def test_a_mistake_leaves_the_directory_free(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    missing = toy_experiment(data | {"validation_target": str(tmp_path / "none")})
    with pytest.raises(FileNotFoundError, match="none must be a text file"):
        train(missing, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    too_small = toy_experiment(data, batch_tokens=3)
    with pytest.raises(ValueError, match="batch_tokens must be at least"):
        train(too_small, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["text"]


@pytest.mark.slow
def test_it_learns_to_translate_words_and_reverse_their_order(tmp_path):
    data = write_toy_text(tmp_path, train=3000, validation=40)
    config = toy_experiment(data, epochs=16, batch_tokens=300, **TOY_RECIPE)
    translator = train(config, tmp_path / "run")
    pairs = toy_pairs(3400)[3200:]
    translations = translator([source for source, _ in pairs])
    correct = sum(
        translation == target for translation, (_, target) in zip(translations, pairs, strict=True)
    )
    assert correct / len(pairs) > 0.9
