import numpy as np
import pytest

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
