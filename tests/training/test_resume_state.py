"""What an epoch in progress needs, apart from weights and optimizer, to resume."""

import types

import keras
import numpy as np
import pytest

from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.resume import (
    EpochState,
    SaveCheckpoints,
    dropout_states,
    progress_of,
    restore_progress,
)
from tests.helpers.tiny import tiny_tokenizer, toy_pairs


def make_model():
    inputs = keras.Input([4])
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Dropout(0.5)(inputs)))
    model.compile("sgd", "mse")
    return model


def train(model, steps):
    return [model.train_on_batch(np.ones([2, 4]) * step, np.ones([2, 1])) for step in steps]


def test_metrics_and_dropout_go_on_where_they_were():
    model = make_model()
    train(model, [1, 2])
    arrays, weights = progress_of(model), model.get_weights()
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
    arrays = progress_of(model)
    mean = model.get_metrics_result()["loss"]
    state = dropout_states(model)[0].numpy().tolist()
    # As that many replicas with equal sentences would have saved it.
    arrays = {name: np.repeat(array, replicas, axis=0) for name, array in arrays.items()}
    resumed = make_model()
    restore_progress(resumed, arrays)
    assert float(resumed.get_metrics_result()["loss"]) == pytest.approx(float(mean))
    assert dropout_states(resumed)[0].numpy().tolist() == state


def test_batches_and_dropout_depend_only_on_seed_and_epoch(tmp_path):
    encoded = encode_pairs(toy_pairs(9), tiny_tokenizer(), max_length=50)

    def start(epoch, seed, steps_before):
        inputs = keras.Input([50])
        x = keras.layers.Dropout(0.5)(keras.layers.Dropout(0.5)(inputs))
        model = keras.Model(inputs, x)
        for _ in range(steps_before):
            model(np.ones([1, 50]), training=True)
        callback = EpochState(TokenBatches(encoded, 50, seed=seed), Checkpoints(tmp_path, keep=1))
        callback.set_model(model)
        callback.on_epoch_begin(epoch)
        assert (callback.batches.epoch, callback.batches.step) == (epoch, 0)
        return [model(np.ones([1, 50]), training=True).numpy().tolist() for _ in range(2)]

    first, second = start(epoch=4, seed=1, steps_before=0)
    assert start(epoch=4, seed=1, steps_before=3) == [first, second]
    others = [first, second, *start(5, 1, 0), *start(4, 2, 0)]
    assert len({str(masks) for masks in others}) == 6
    # Two layers with the same mask would keep a half of the values, not a quarter.
    assert 2 < np.count_nonzero(first) < 22


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """Return a function that makes steps of an epoch, and returns which have got a checkpoint."""

    def saved(count=9, seconds_per_step=0.0, value=1.0, **interval):
        clock = types.SimpleNamespace(monotonic=lambda: clock.now, now=0.0)
        monkeypatch.setattr("keras_transformer.training.resume.time", clock)
        model = keras.Sequential([keras.Input([1]), keras.layers.Dense(1, use_bias=False)])
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        model.layers[0].kernel.assign([[value]])
        checkpoints = Checkpoints(tmp_path, keep=1)
        state = types.SimpleNamespace(epoch=0, step=0, arrays=dict)
        callback = SaveCheckpoints(checkpoints, state, **interval)
        callback.set_model(model)
        callback.set_params({"steps": count})
        seen = []
        for state.step in range(1, count + 1):
            clock.now += seconds_per_step
            callback.on_train_batch_end(state.step - 1)
            seen.append(checkpoints.position().steps)
        return sorted(set(seen) - {0})

    return saved


def test_by_default_a_step_has_no_checkpoint(saved):
    assert saved(seconds_per_step=1e6) == []


def test_checkpoints_come_after_a_number_of_steps_except_the_last_of_an_epoch(saved):
    assert saved(steps=3) == [3, 6]


@pytest.mark.parametrize(("seconds", "expected"), [(20, [3, 6]), (45, [2, 4, 6, 8])])
def test_checkpoints_come_after_a_number_of_minutes(saved, seconds, expected):
    assert saved(seconds_per_step=seconds, minutes=1) == expected


def test_whichever_comes_first_counts(saved):
    assert saved(seconds_per_step=20, minutes=1, steps=4) == [3, 4, 7, 8]


def test_values_that_are_not_finite_are_not_saved(saved):
    assert saved(value=np.nan, steps=3) == []
