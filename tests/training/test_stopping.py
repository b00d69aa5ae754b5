"""Checks that end a run before it trains for nothing."""

import dataclasses
import math
import re

import keras
import numpy as np
import pytest

from keras_transformer.config import TrainingConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.training import train
from keras_transformer.training.stopping import FiniteLoss, check_warmup
from tests.helpers.tiny import tiny_tokenizer, toy_experiment, toy_pairs, write_toy_text


def test_the_warm_up_may_take_the_whole_run():
    check_warmup(TrainingConfig(epochs=2, warmup_steps=20), 10, smallest_batch=9, has_begun=False)


def remedies(**recipe):
    """Return the options that the error of a too short run names, with the values to set."""
    training = TrainingConfig(**recipe)
    with pytest.raises(ValueError, match="The warm-up must end within the run, received ") as error:
        check_warmup(training, training.steps_per_epoch or 7, smallest_batch=128, has_begun=False)
    found = re.findall(r"training\.(\w+) to ([\d,]+) or", str(error.value))
    return {name: int(value.replace(",", "")) for name, value in found}


@pytest.mark.parametrize("recipe", [{"epochs": 20}, {"epochs": 20, "steps_per_epoch": 9}])
def test_each_remedy_of_a_warm_up_longer_than_the_run_helps(recipe):
    values = remedies(**recipe)
    assert values.keys() == {"warmup_steps", "epochs"} | recipe.keys() - {"epochs"} | (
        set() if "steps_per_epoch" in recipe else {"batch_tokens"}
    )
    batch_tokens = values.pop("batch_tokens", None)
    for name, value in values.items():
        training = dataclasses.replace(TrainingConfig(**recipe), **{name: value})
        steps = training.epochs * (training.steps_per_epoch or 7)
        assert training.warmup_steps == pytest.approx(steps / 4, rel=0.05)
    if batch_tokens:
        assert 20 * 7 * 25_000 / batch_tokens == pytest.approx(4 * 4000, rel=0.01)


def test_batches_that_no_sentence_fits_are_not_advised():
    assert "batch_tokens" not in remedies(epochs=1, batch_tokens=2048)


def test_a_run_that_has_begun_gets_a_warning_only(caplog):
    check_warmup(TrainingConfig(epochs=1), 8, smallest_batch=128, has_begun=True)
    (message,) = caplog.messages
    assert message.endswith(
        "received 4,000 warm-up steps for 8 steps: the learning rate would rise to 0.2% of its "
        "highest value only"
    )


def test_a_run_with_a_longer_warm_up_writes_nothing_but_its_encoded_text(tmp_path):
    data = write_toy_text(tmp_path, train=20)
    with pytest.raises(ValueError, match="received 80 warm-up steps for 9 steps: .* to 11.2% "):
        train(toy_experiment(data, warmup_steps=80), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["text"]


@pytest.fixture
def guard():
    """The guard of a small model in the third of its epochs, which have six batches."""
    batches = TokenBatches(encode_pairs(toy_pairs(60), tiny_tokenizer()), 60, seed=1)
    guard = FiniteLoss(batches, tiny_tokenizer())
    model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, name="dense")])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    guard.set_model(model)
    guard.on_epoch_begin(2)
    return guard


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_training_and_names_the_batch(guard, loss):
    guard.on_train_batch_end(3, {"loss": 5.0})
    guard.batches.epoch = 2
    inputs = list(guard.batches.dataset())[4][0]
    first, *rest = guard.tokenizer.detokenize(inputs["source"]).numpy()
    with pytest.raises(FloatingPointError) as error:
        guard.on_train_batch_end(4, {"loss": loss})
    message = str(error.value)
    assert message.startswith(
        f"The loss must be finite, received {loss}, in epoch 3 after step 5 of 6, whose batch has "
        f"the sentences {first.decode()!r}, "
    )
    assert f" and {len(rest) - 2} more. No checkpoint has this step." in message


@pytest.mark.parametrize("place", ["weight", "optimizer"])
def test_weights_that_are_not_finite_end_training_with_the_epoch(guard, place):
    guard.on_epoch_end(2, {"loss": 5.0})
    model = guard.model
    variable = model.layers[0].kernel if place == "weight" else model.optimizer.variables[-1]
    variable.assign(np.full(variable.shape, np.nan))
    message = f"NaN or infinity in {variable.path}, in epoch 3 after step 6 of 6"
    with pytest.raises(FloatingPointError, match=message):
        guard.on_epoch_end(2, {"loss": 5.0})


def test_a_run_that_diverges_saves_nothing_and_ends(tmp_path):
    data = write_toy_text(tmp_path, train=60)
    with pytest.raises(FloatingPointError, match="The loss must be .*, in epoch 1 "):
        train(toy_experiment(data, learning_rate_scale=1e30), tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names <= {
        *("SHA256SUMS", "config.yaml", "metrics.csv", "tensorboard", "text", "vocabulary.model")
    }
