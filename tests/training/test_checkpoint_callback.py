import types

import keras
import numpy as np
import pytest

from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.resume import SaveCheckpoints


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
        state = types.SimpleNamespace(epoch=0, step=0, seconds=lambda: 0.0, text=dict)
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
