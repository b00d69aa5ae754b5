"""The paper's recipe for `compile`, and its warm-up."""

import dataclasses
import re

import keras
import pytest

from keras_transformer.config import TrainingConfig
from keras_transformer.training import paper_recipe, train
from keras_transformer.training.recipe import check_warmup
from tests.helpers.tiny import tiny_model, toy_experiment, write_toy_text


def test_the_recipe_is_that_of_sections_5_3_and_5_4():
    model = tiny_model(num_layers=1)  # d_model is 12.
    model.compile(**paper_recipe(model))
    adam = model.optimizer
    assert (adam.beta_1, adam.beta_2, adam.epsilon) == (0.9, 0.98, 1e-9)
    assert model.loss.label_smoothing == 0.1
    first = float(keras.ops.convert_to_numpy(adam.learning_rate))
    assert first == pytest.approx(12**-0.5 * 4000**-1.5)  # Step 1 of a warm-up of 4,000.


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


def test_a_limit_of_steps_is_raised_for_the_warm_up():
    limited = {"epochs": 20, "steps_per_epoch": 900, "max_steps": 50}
    assert remedies(**limited) == {"warmup_steps": 12, "max_steps": 16_000}


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
