import contextlib

import pytest

from keras_transformer.training.callbacks import Validation


@pytest.fixture
def interrupted_in_epoch(monkeypatch):
    """A block in which training fails when that epoch has been trained, but not yet validated."""

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
