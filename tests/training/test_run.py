import dataclasses
import json
import re
import shutil

import keras
import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.config import ExperimentConfig
from keras_transformer.evaluation import score
from keras_transformer.text import WordPieceTokenizer
from keras_transformer.training import (
    average_checkpoints,
    load_translator,
    prepare,
    read_history,
    read_metrics,
    train,
)
from keras_transformer.training.lock import locked_directory
from tests.helpers.tiny import (
    TOY_RECIPE,
    run_python,
    tiny_tokenizer,
    toy_experiment,
    toy_pairs,
    toy_run,
    toy_sentences,
    toy_training,
    write_toy_text,
)

VALIDATION = toy_pairs(420)[400:]


def weights_after(directory, epoch):
    model = Transformer(ExperimentConfig.from_file(directory / "config.yaml").model)
    model.load_weights(directory / "checkpoints" / f"epoch-{epoch:04d}.weights.h5")
    return model.get_weights()


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def epochs_of(directory):
    return read_history(directory)["epoch"]


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
    assert sorted(path.name for path in (directory / "checkpoints").iterdir()) == best + last
    assert len(best) == 1
    assert sorted(path.name for path in directory.iterdir()) == [
        "SHA256SUMS",
        "checkpoints",
        "chosen.json",
        "config.yaml",
        "epochs.csv",
        "metrics.csv",
        "model.keras",
        "tensorboard",
        "text",
        "vocabulary.model",
    ]
    text = toy_run() / "text"
    data = {path.name.replace(".", "_"): str(path) for path in text.iterdir()}
    config = toy_experiment(data, **TOY_RECIPE)
    assert ExperimentConfig.from_file(directory / "config.yaml") == config


def test_the_model_is_the_chosen_mean_of_checkpoints():
    directory, translator = toy_training()
    chosen = json.loads((directory / "chosen.json").read_text())
    assert chosen["chosen"] == max(chosen["validation_bleu"], key=chosen["validation_bleu"].get)
    model = keras.saving.load_model(directory / "model.keras")
    mean = Transformer(model.config)
    average_checkpoints(mean, [directory / "checkpoints" / name for name in chosen["checkpoints"]])
    for received, expected in zip(model.get_weights(), mean.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)
    sources, references = zip(*VALIDATION, strict=True)
    bleu = score(translator(sources), references).bleu
    assert chosen["validation_bleu"][chosen["chosen"]] == bleu


def test_the_loaded_translator_is_the_returned_one():
    translations = json.loads((toy_run() / "returned.json").read_text())
    assert len(set(translations)) > 3
    assert toy_training()[1](toy_sentences(30, seed=9)) == translations


def test_a_finished_run_is_not_repeated():
    directory, translator = toy_training()
    config = ExperimentConfig.from_file(directory / "config.yaml")
    before = {path: path.stat().st_mtime_ns for path in (directory / "checkpoints").iterdir()}
    again = train(config, directory)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert epochs_of(directory) == [1, 2, 3]
    sentences = toy_sentences(5)
    assert again(sentences) == translator(sentences)


def test_another_configuration_is_refused():
    directory = toy_training()[0]
    config = ExperimentConfig.from_file(directory / "config.yaml")
    other = dataclasses.replace(config.training, warmup_steps=81)
    with pytest.raises(ValueError, match="holds a run with another configuration"):
        train(dataclasses.replace(config, training=other), directory)


@pytest.mark.slow
def test_an_interrupted_run_resumes_as_if_uninterrupted(
    tmp_path, interrupted_in_epoch, killed_at_step, without_search, caplog
):
    directory = toy_training()[0]
    config = ExperimentConfig.from_file(directory / "config.yaml")
    often = dataclasses.replace(config.training, checkpoint_steps=5)
    config = dataclasses.replace(config, training=often)
    caplog.set_level("INFO", logger="keras_transformer")
    with interrupted_in_epoch(2):
        train(config, tmp_path)
    assert epochs_of(tmp_path) == [1]
    for path in (tmp_path / "checkpoints").glob("step-*"):
        path.unlink()  # As if only epochs had checkpoints.
    with killed_at_step(2, 13):
        train(config, tmp_path)
    train(config, tmp_path)
    places = [message[15:] for message in caplog.messages if message.startswith("resuming after ")]
    assert places == ["epoch 1 of 3", "step 10 of epoch 2 of 3"]
    assert epochs_of(tmp_path) == [1, 2, 3]
    for epoch in (2, 3):
        expected = weights_after(directory, epoch)
        for received, other in zip(weights_after(tmp_path, epoch), expected, strict=True):
            np.testing.assert_array_equal(received, other)
    history, expected = read_history(tmp_path), read_history(directory)
    for name in ("loss", "learning_rate", "val_nll"):
        assert history[name] == expected[name]
    assert not list((tmp_path / "checkpoints").glob("step-*"))


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


def test_an_epoch_does_not_go_on_with_another_text(tmp_path, killed_at_step, without_search):
    data = write_toy_text(tmp_path, train=60)
    config = toy_experiment(data, epochs=1, checkpoint_steps=1)
    with killed_at_step(1, 2):
        train(config, tmp_path / "run")
    for side in ("source", "target"):
        with open(data[f"train_{side}"], "a") as file:
            file.write("one two\n")
    with pytest.raises(ValueError, match="goes on with the text it began with, of 6 batches"):
        train(config, tmp_path / "run")


@pytest.fixture
def without_best(tmp_path):
    """A copy of the run, in which the best checkpoint is missing."""
    directory = shutil.copytree(toy_training()[0], tmp_path / "run")
    for path in (directory / "checkpoints").glob("best-*"):
        path.unlink()
    return directory


@pytest.mark.slow
def test_a_damaged_checkpoint_costs_its_epoch(without_best, caplog, without_search):
    original, directory = toy_training()[0], without_best
    damage(directory / "checkpoints" / "epoch-0003.weights.h5")
    train(ExperimentConfig.from_file(directory / "config.yaml"), directory)
    assert "epoch-0003.weights.h5 is damaged (its checksum differs): it is " in caplog.text
    for received, expected in zip(
        weights_after(directory, 3), weights_after(original, 3), strict=True
    ):
        np.testing.assert_allclose(received, expected, atol=1e-4)


@pytest.mark.slow
def test_a_damaged_checkpoint_and_a_missing_one_are_not_chosen(
    without_best, caplog, without_search
):
    directory = without_best
    damage(directory / "checkpoints" / "epoch-0002.weights.h5")
    train(ExperimentConfig.from_file(directory / "config.yaml"), directory)
    assert "epoch-0002.weights.h5 is damaged (its checksum differs) and left out" in caplog.text
    chosen = json.loads((directory / "chosen.json").read_text())
    assert chosen["checkpoints"] == ["epoch-0003.weights.h5"]
    assert epochs_of(directory) == [1, 2, 3]


def test_a_directory_in_use_is_refused_before_anything_is_read(tmp_path):
    text = {"train_source": "none", "validation_source": "none"}
    with locked_directory(tmp_path), pytest.raises(BlockingIOError, match="in use by process"):
        train(toy_experiment(text), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_epoch_has_as_many_steps_as_asked_for(tmp_path, without_search):
    recipe = {"epochs": 3, "steps_per_epoch": 5, "warmup_steps": 8, "learning_rate_scale": 0.1}
    config = toy_experiment(write_toy_text(tmp_path, train=60), **recipe)
    train(config, tmp_path / "run")
    rate = read_history(tmp_path / "run")["learning_rate"]
    # After each epoch, that of the step to come.
    factors = [6 * 8**-1.5, 11**-0.5, 16**-0.5]
    expected = [0.1 * 32**-0.5 * factor for factor in factors]
    assert rate == pytest.approx(expected)


@pytest.mark.slow
def test_text_may_come_from_a_tfds_dataset(tmp_path, monkeypatch, caplog, without_search):
    sets = {
        ("toy", "train[:60]", "en", "de"): toy_pairs(60),
        ("toy", "dev", "en", "de"): VALIDATION,
    }
    module = "keras_transformer.training.text"
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


@pytest.mark.slow
def test_training_stops_without_progress_and_is_then_finished(tmp_path, without_search):
    data = write_toy_text(tmp_path, train=60)
    # No step changes anything, so the first epoch stays the best.
    config = toy_experiment(data, epochs=9, patience=2, learning_rate_scale=1e-12)
    for _ in range(2):
        train(config, tmp_path / "run")
        assert epochs_of(tmp_path / "run") == [1, 2, 3]


def test_validation_text_is_checked_before_training_text_is_read(tmp_path):
    data = write_toy_text(tmp_path, train=60) | {"train_source": str(tmp_path / "none")}
    for name in ("source", "target"):
        (tmp_path / f"validation.{name}").write_text("\n \n")
    with pytest.raises(ValueError, match=r"received 2 pairs without one in \S*validation.source\."):
        train(toy_experiment(data), tmp_path / "run")


@pytest.mark.slow
def test_the_log_tells_greedy_from_beam_search(tmp_path, caplog, without_search):
    caplog.set_level("INFO", logger="keras_transformer")
    data = write_toy_text(tmp_path, train=60)
    train(toy_experiment(data, epochs=1), tmp_path / "run")
    assert "steps in all: 6, warm-up: 1, tokens per batch: up to 60" in caplog.messages
    assert "val_bleu of an epoch is the validation BLEU (greedy)" in caplog.messages
    chosen = json.loads((tmp_path / "run" / "chosen.json").read_text())["validation_bleu"]
    for name in ("average", "best"):
        line = f"validation BLEU (beam 2) of the {name} checkpoint: {chosen[name]:.2f}"
        assert line in caplog.messages
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


def test_a_run_does_not_resume_without_its_vocabulary(tmp_path):
    directory = shutil.copytree(toy_training()[0], tmp_path / "run")
    (directory / "vocabulary.model").unlink()
    config = ExperimentConfig.from_file(directory / "config.yaml")
    with pytest.raises(FileNotFoundError, match="there is no .*run/vocabulary.model. Restore what"):
        train(config, directory)
    assert not (directory / "vocabulary.model").exists()


@pytest.mark.slow
def test_a_vocabulary_that_is_given_is_kept_and_the_other_trained(tmp_path, without_search):
    directory = tmp_path / "run"
    directory.mkdir()
    given = tiny_tokenizer()
    given.save(directory / "source.model")
    config = toy_experiment(write_toy_text(tmp_path, train=60), epochs=1)
    sizes = {"vocab_size": given.vocab_size, "target_vocab_size": 350, "share_embeddings": "target"}
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **sizes))
    translator = train(config, directory)
    assert (directory / "source.model").read_bytes() == translator.tokenizer.model == given.model
    assert translator.target_tokenizer.vocab_size == 350


@pytest.mark.slow
def test_subword_dropout_makes_no_sentence_that_fits_no_batch(tmp_path, without_search):
    data = write_toy_text(tmp_path, train=60) | {"subword_dropout": 0.9}
    with pytest.raises(ValueError, match="batch_tokens must be at least") as error:
        train(toy_experiment(data, batch_tokens=3), tmp_path / "run")
    smallest = int(re.search(r"at least (\d+)", str(error.value))[1])
    train(toy_experiment(data, batch_tokens=smallest, epochs=2), tmp_path / "run")
    assert epochs_of(tmp_path / "run") == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_tsv_separate_vocabularies_and_low_precision(tmp_path, precision):
    for name, pairs in (("train", toy_pairs(60)), ("validation", VALIDATION)):
        lines = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (tmp_path / f"{name}.tsv").write_text(lines, encoding="utf-8")
    data = {f"{name}_source": str(tmp_path / f"{name}.tsv") for name in ("train", "validation")}
    config = toy_experiment(data, epochs=1, precision=precision)
    vocabularies = {"vocab_size": 330, "target_vocab_size": 350, "share_embeddings": "target"}
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **vocabularies))
    translator = train(config, tmp_path / "run")
    assert np.isfinite(read_history(tmp_path / "run")["loss"]).all()
    assert translator.model.dtype_policy.name == "float32"
    loaded = load_translator(tmp_path / "run")
    assert (loaded.tokenizer.vocab_size, loaded.target_tokenizer.vocab_size) == (330, 350)
    assert loaded(toy_sentences(5)) == translator(toy_sentences(5))


@pytest.mark.slow
def test_word_pieces_are_trained_kept_and_loaded(tmp_path):
    data = write_toy_text(tmp_path, train=60) | {"subwords": "wordpiece"}
    config = toy_experiment(data, epochs=1)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, vocab_size=300))
    translator = train(config, tmp_path / "run")
    assert isinstance(translator.tokenizer, WordPieceTokenizer)
    assert (tmp_path / "run" / "vocabulary.model").read_bytes() == translator.tokenizer.model
    loaded = load_translator(tmp_path / "run")
    assert isinstance(loaded.tokenizer, WordPieceTokenizer)
    assert loaded.tokenizer is loaded.target_tokenizer
    assert loaded(toy_sentences(5)) == translator(toy_sentences(5))
    longer = dataclasses.replace(config.training, epochs=2)
    train(
        dataclasses.replace(config, training=longer), tmp_path / "run"
    )  # Goes on with the same vocabulary.
    assert epochs_of(tmp_path / "run") == [1, 2]


# Tracing a search takes long, and the second run has it.
TWO_REPLICAS = """
import logging, sys
from unittest import mock
from keras_transformer.config import ExperimentConfig
from keras_transformer.training import train
from keras_transformer.translation import Translator
logging.basicConfig(level="INFO")
first, second = map(ExperimentConfig.from_file, sys.argv[1:3])
with mock.patch.object(Translator, "__call__", lambda self, sentences, *_: list(sentences)):
    train(first, sys.argv[3])
train(second, sys.argv[3])
"""


@pytest.mark.slow
def test_two_replicas_train_and_resume(tmp_path):
    data = write_toy_text(tmp_path)
    files = [tmp_path / f"{epochs}.yaml" for epochs in (1, 2)]
    for epochs, file in enumerate(files, start=1):
        recipe = {"replicas": 2, "epochs": epochs, "warmup_steps": 30, "learning_rate_scale": 0.3}
        toy_experiment(data, **recipe).to_file(file)
    output = run_python("-c", TWO_REPLICAS, *files, tmp_path / "run")
    assert "resuming after epoch 1 of 2" in output.stderr
    assert epochs_of(tmp_path / "run") == [1, 2]
    loss = read_history(tmp_path / "run")["loss"]
    assert loss[1] < loss[0] - 0.5
    assert read_metrics(tmp_path / "run")["loss"] == pytest.approx(loss, rel=1e-4)
    assert len(load_translator(tmp_path / "run")(toy_sentences(5))) == 5


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
