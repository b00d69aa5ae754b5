"""What an epoch in progress needs, apart from weights and optimizer, to resume."""

import keras
import numpy as np
import pytest

from keras_transformer.training.resume import dropout_states, progress_of, restore_progress


def make_model():
    inputs = keras.Input([4])
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dropout(0.5)(inputs)))
    model.compile("sgd", "mse")
    return model


def train(model, steps):
    return [model.train_on_batch(np.ones([2, 4]) * step, np.ones([2, 1])) for step in steps]


def test_metrics_and_dropout_go_on_where_they_were(tmp_path):
    model = make_model()
    train(model, [1, 2])
    arrays, weights = progress_of(model, seconds=7.5), model.get_weights()
    assert arrays["seconds"] == 7.5
    expected = train(model, [3, 4])
    resumed = make_model()
    resumed.train_on_batch(np.ones([2, 4]), np.ones([2, 1]))  # Something else happened before.
    resumed.set_weights(weights)
    restore_progress(resumed, arrays)
    # The loss is a mean that begins with the first step.
    assert train(resumed, [3, 4]) == expected


@pytest.mark.parametrize("replicas", [1, 3])
def test_another_number_of_replicas_keeps_the_mean_of_the_loss(replicas):
    model = make_model()
    train(model, [1])
    arrays = progress_of(model, seconds=0.0)
    mean = model.get_metrics_result()["loss"]
    state = dropout_states(model)[0].numpy().tolist()
    # As that many replicas with equal sentences would have saved it.
    arrays = {
        name: array if name == "seconds" else np.repeat(array, replicas, axis=0)
        for name, array in arrays.items()
    }
    resumed = make_model()
    restore_progress(resumed, arrays)
    assert float(resumed.get_metrics_result()["loss"]) == pytest.approx(float(mean))
    assert dropout_states(resumed)[0].numpy().tolist() == state
