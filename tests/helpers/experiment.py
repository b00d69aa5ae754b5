"""The smallest experiment, that of a preset, and the epochs of a run."""

import dataclasses

from keras_transformer.config import ExperimentConfig
from keras_transformer.training.csv_tables import read_history

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


def epochs_of(directory):
    return read_history(directory)["epoch"]
