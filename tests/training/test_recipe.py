"""Training steps against the equations of the paper, written out in NumPy."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer
from keras_transformer.presets import PRESETS
from keras_transformer.training.run import compiled_model
from tests.helpers.tiny import toy_experiment

D, V = 8, 17
SOURCE = np.array([[5, 9, 3], [16, 3, 0]], "int32")
LABELS = np.array([[7, 4, 11, 3], [6, 3, 0, 0]], "int32")
INPUTS = {"source": SOURCE, "target": np.array([[2, 7, 4, 11], [2, 6, 0, 0]], "int32")}


@pytest.fixture
def make_model():
    """A small model, compiled as training does by the base model's recipe."""

    def make(teachers=(), **training):
        keras.utils.set_random_seed(3)
        toy = toy_experiment({"train_source": "none", "validation_source": "none"})
        sizes = {"vocab_size": V, "d_model": D, "d_ff": 12, "num_heads": 2, "dropout": 0.0}
        config = dataclasses.replace(
            toy,
            model=dataclasses.replace(toy.model, **sizes),
            training=dataclasses.replace(PRESETS["base"].training, **training),
        )
        return compiled_model(config, tf.distribute.get_strategy(), teachers=teachers)

    return make


def rate(step, warmup_steps):
    """Section 5.3, equation 3."""
    return D**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def smoothed_loss(labels, logits, epsilon=0.1):
    """Section 5.4: the mean over the tokens of the cross entropy with the smoothed labels."""
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    smoothed = (1 - epsilon) * np.eye(V)[labels] + epsilon / V
    cross_entropies = -(smoothed * np.log(probabilities)).sum(axis=-1)
    return cross_entropies[labels != 0].mean()


def adam(gradients, rates, beta_1=0.9, beta_2=0.98, epsilon=1e-9):
    """Return the updates of Kingma and Ba (2015), in the form at the end of their Section 2."""
    m = v = 0
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g**2
        yield -rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / (np.sqrt(v) + epsilon)


@pytest.mark.parametrize("step", [1, 2, 3_999, 4_000, 4_001, 100_000])
def test_the_learning_rate_of_a_step(make_model, step):
    optimizer = make_model().optimizer
    optimizer.iterations.assign(step - 1)
    assert float(optimizer.learning_rate) == pytest.approx(rate(step, 4_000), rel=1e-6)


def test_the_loss_and_adams_updates_of_some_steps(make_model, monkeypatch):
    model = make_model(warmup_steps=3)  # Rates that leave updates their digits in float32.
    model.run_eagerly = True
    apply, gradients, losses, weights = model.optimizer.apply_gradients, [], [], []

    def record(gradients_and_weights, **options):
        gradients_and_weights = list(gradients_and_weights)
        gradients.append([np.asarray(g, "float64") for g, _ in gradients_and_weights])
        apply(gradients_and_weights, **options)

    def read_weights():
        return [w.numpy().astype("float64") for w in model.trainable_weights]

    monkeypatch.setattr(model.optimizer, "apply_gradients", record)
    for _ in range(5):
        weights.append(read_weights())
        losses.append(smoothed_loss(LABELS, model(INPUTS).numpy().astype("float64")))
        received = model.train_on_batch(INPUTS, LABELS)
        assert received == pytest.approx(losses[-1], abs=1e-6)
    weights.append(read_weights())
    assert losses[-1] < losses[0] - 0.5

    rates = [rate(step, warmup_steps=3) for step in range(1, 6)]
    assert len(gradients) == 5
    for i, of_weight in enumerate(zip(*gradients, strict=True)):
        for t, update in enumerate(adam(of_weight, rates)):
            received = weights[t + 1][i] - weights[t][i]
            np.testing.assert_allclose(received, update, rtol=0, atol=1e-6)


def test_the_model_has_the_options_of_the_recipe(make_model):
    assert make_model(label_smoothing=0.2).loss.label_smoothing == 0.2
    teacher = Transformer(make_model().config)
    taught = make_model([teacher], precision="mixed_bfloat16", distillation=0.7)
    assert taught.distillation == 0.7
    assert taught.dtype_policy.name == "mixed_bfloat16"
