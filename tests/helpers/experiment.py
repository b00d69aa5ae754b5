"""The smallest experiment, that of a preset, and the text, the epochs and the ends of runs."""

import contextlib
import dataclasses

import pytest

from keras_transformer.config import ExperimentConfig
from keras_transformer.training.corpora import training_text
from keras_transformer.training.csv_tables import read_history
from keras_transformer.training.prepare import encode_text
from keras_transformer.training.resume import SaveCheckpoints
from keras_transformer.training.tensorboard import Summaries
from keras_transformer.training.validation import SELECTING, Validation
from keras_transformer.training.vocabularies import run_tokenizers

MINIMAL = {
    "model": {"vocab_size": 380, "d_model": 32},
    "data": {"train_source": "train.tsv", "validation_source": "validation.tsv"},
}


def experiment_of(preset, data, **model):
    """The preset with some of the model's sizes replaced."""
    return ExperimentConfig.from_dict(
        {
            "model": dataclasses.asdict(preset.model) | model,
            "data": data,
            "training": dataclasses.asdict(preset.training),
            "decoding": dataclasses.asdict(preset.decoding),
        }
    )


def encoded_text(config, directory):
    """Return the tokenizers of a run, its encoded text and the reports on each corpus."""
    text = training_text(config, directory)
    tokenizers = run_tokenizers(config, directory, text)
    return tokenizers, *encode_text(config, text, tokenizers)


def leave_scores_out(monkeypatch):
    """Give all epochs and averages of runs the same scores, without translating, and draw nothing.

    Both take longer than the steps of a small run.
    """

    def measure(self):
        self.translations = [target for _, target in self.pairs]
        return {"val_nll": 1.0, "val_accuracy": 0.5, SELECTING[self.data.task]: 2.0}

    monkeypatch.setattr(Validation, "measure", measure)
    monkeypatch.setattr(Summaries, "_is_time_to_draw", lambda self: False)


def epochs_of(directory):
    return read_history(directory)["epoch"]


@contextlib.contextmanager
def interrupted_in_epoch(number):
    """Interrupt training in the block when an epoch has been trained, but not validated."""
    validate = Validation.on_epoch_end

    def stop(self, epoch, logs=None):
        if epoch + 1 == number:
            raise KeyboardInterrupt
        validate(self, epoch, logs)

    with pytest.MonkeyPatch.context() as context, pytest.raises(KeyboardInterrupt):
        context.setattr(Validation, "on_epoch_end", stop)
        yield


@contextlib.contextmanager
def killed_at_step(epoch, step):
    """End training in the block without warning after a step of an epoch."""
    save = SaveCheckpoints.on_train_batch_end

    def end(self, batch, logs=None):
        save(self, batch, logs)
        if (self.state.epoch, self.state.step) == (epoch - 1, step):
            raise SystemExit

    with pytest.MonkeyPatch.context() as context, pytest.raises(SystemExit):
        context.setattr(SaveCheckpoints, "on_train_batch_end", end)
        yield
