import contextlib

import numpy as np
import pytest

from keras_transformer.training.resume import SaveCheckpoints
from keras_transformer.training.validation import Validation
from keras_transformer.translation import Translator
from tests.helpers.batch_norm_model import make_model
from tests.helpers.experiment import leave_scores_out
from tests.helpers.tiny import toy_run


@pytest.fixture
def without_search(monkeypatch):
    """Let every translator return what it is given: tracing the search takes most of a run."""
    toy_run()  # The run that all tests share has searched.
    monkeypatch.setattr(Translator, "__call__", lambda self, sentences, *_: list(sentences))


@pytest.fixture
def without_scores(monkeypatch):
    """Give all epochs and averages the same scores; see `leave_scores_out`."""
    toy_run()  # The run that all tests share has scores.
    leave_scores_out(monkeypatch)


@pytest.fixture
def interrupted_in_epoch(monkeypatch):
    """Return a context that interrupts training when an epoch has been trained, not validated."""

    @contextlib.contextmanager
    def interrupted(number):
        validate = Validation.on_epoch_end

        def fail(self, epoch, logs=None):
            if epoch + 1 == number:
                raise KeyboardInterrupt
            validate(self, epoch, logs)

        with monkeypatch.context() as context, pytest.raises(KeyboardInterrupt):
            context.setattr(Validation, "on_epoch_end", fail)
            yield

    return interrupted


@pytest.fixture
def killed_at_step(monkeypatch):
    """Return a context in which training ends without warning after a step of an epoch."""

    @contextlib.contextmanager
    def killed(epoch, step):
        def end(self, batch, logs=None):
            save(self, batch, logs)
            if (self.state.epoch, self.state.step) == (epoch - 1, step):
                raise SystemExit

        save = SaveCheckpoints.on_train_batch_end
        with monkeypatch.context() as context, pytest.raises(SystemExit):
            context.setattr(SaveCheckpoints, "on_train_batch_end", end)
            yield

    return killed


@pytest.fixture
def save(tmp_path):
    """Save a model whose kernel has one value everywhere, and whose moving mean another."""

    def save(name, kernel, moving_mean=0.0):
        model = make_model()
        model.get_layer("dense").kernel.assign(np.full([2, 3], kernel))
        model.get_layer("norm").moving_mean.assign(np.full([3], moving_mean))
        path = tmp_path / f"{name}.weights.h5"
        model.save_weights(path)
        return path

    return save
