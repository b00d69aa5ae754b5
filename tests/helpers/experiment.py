"""The smallest experiment, and that of a preset."""

import dataclasses

from keras_transformer.config import ExperimentConfig

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
