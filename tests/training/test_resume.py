"""Runs that go on where they ended."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from keras_transformer import Transformer
from keras_transformer.config import ExperimentConfig
from keras_transformer.training import train
from keras_transformer.training.csv_tables import read_history, read_metrics
from keras_transformer.translation import Translator
from tests.helpers.experiment import epochs_of
from tests.helpers.tiny import (
    run_python,
    toy_experiment,
    toy_sentences,
    toy_training,
    write_toy_text,
)


def weights_after(directory, epoch):
    model = Transformer(ExperimentConfig.from_file(directory / "config.yaml").model)
    model.load_weights(directory / "checkpoints" / f"epoch-{epoch:04d}.weights.h5")
    return model.get_weights()


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


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


@pytest.mark.slow
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


@pytest.mark.slow
def test_training_stops_without_progress_and_is_then_finished(tmp_path, without_search):
    data = write_toy_text(tmp_path, train=60)
    # No step changes anything, so the first epoch stays the best.
    config = toy_experiment(data, epochs=9, patience=2, learning_rate_scale=1e-12)
    for _ in range(2):
        train(config, tmp_path / "run")
        assert epochs_of(tmp_path / "run") == [1, 2, 3]


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
    assert len(Translator.load(tmp_path / "run")(toy_sentences(5))) == 5
