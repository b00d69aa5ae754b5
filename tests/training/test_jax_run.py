"""A run whose epochs are trained on JAX and whose weights TensorFlow chooses."""

import json
from dataclasses import replace

import keras
import numpy as np
import pytest

from keras_transformer.data import encode_pairs
from keras_transformer.metrics import NegativeLogLikelihood
from keras_transformer.text.files import read_tokenizers
from keras_transformer.training import train, train_on_jax
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.jax_run import _check_options
from keras_transformer.utils.checkpoint_files import load_checkpoint
from tests.helpers.tiny import run_python, toy_experiment, toy_pairs, write_toy_text

RUNS = """
import os
import sys
from dataclasses import replace

folder = sys.argv[1]
os.environ |= {
    "KERAS_BACKEND": "jax",
    "JAX_PLATFORMS": "cpu",
    "JAX_COMPILATION_CACHE_DIR": folder + "/cache",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
}
from keras_transformer.config import ExperimentConfig
from keras_transformer.training import train_on_jax

config = ExperimentConfig.from_file(folder + "/config.yaml")
for epochs in (1, config.training.epochs):
    shorter = replace(config, training=replace(config.training, epochs=epochs))
    train_on_jax(shorter, folder + "/resumed")
train_on_jax(config, folder + "/straight")
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jax")
    data = write_toy_text(folder, train=100)
    config = toy_experiment({**data, "static_shapes": 1}, epochs=2, batch_tokens=128)
    config.to_file(folder / "config.yaml")
    return config, folder


@pytest.mark.slow
@pytest.mark.parity
def test_a_run_on_two_jax_devices_resumes_and_tensorflow_finishes_it(config):
    pytest.importorskip("jax")
    config, folder = config
    run_python("-c", RUNS, folder)
    histories = [read_history(folder / name) for name in ("straight", "resumed")]
    assert histories[0]["val_nll"][1] < histories[0]["val_nll"][0] < np.log(380)
    for name in ("loss", "val_nll", "val_accuracy", "learning_rate"):
        assert histories[0][name] == histories[1][name]
    first, second = histories[0]["steps"]
    assert second == 2 * first == histories[1]["steps"][1]

    translator = train(config, folder / "straight")
    report = json.loads((folder / "straight" / "chosen.json").read_text())
    assert report["validation_bleu"].keys() == {"last", "last 2"}

    last = folder / "straight" / "checkpoints" / "epoch-0002.weights.h5"
    load_checkpoint(translator.model, last)
    tokenizer, _ = read_tokenizers([folder / "straight" / "vocabulary.model"], "bpe")
    pairs = encode_pairs(toy_pairs(120)[100:], tokenizer, max_length=128)
    inputs, labels = pairs.padded_batch(np.arange(20))
    nll = NegativeLogLikelihood()
    nll.update_state(labels, translator.model(inputs))
    np.testing.assert_allclose(float(nll.result()), histories[0]["val_nll"][1], rtol=1e-5)


def test_options_that_jax_lacks_are_refused_together(config):
    config, _ = config
    training = replace(config.training, accumulation=2, clip_norm=1.0, patience=3)
    with pytest.raises(ValueError) as error:
        _check_options(replace(config, training=training))
    for part in ("accumulation must be 1, received 2", "clip_norm", "patience"):
        assert part in str(error.value)
    _check_options(config)


def test_each_backend_has_its_function(config, monkeypatch):
    config, folder = config
    with pytest.raises(RuntimeError, match="needs the JAX backend, received tensorflow"):
        train_on_jax(config, folder / "other")
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(RuntimeError, match="needs the TensorFlow backend.*call train_on_jax"):
        train(config, folder / "other")
    assert not (folder / "other").exists()
