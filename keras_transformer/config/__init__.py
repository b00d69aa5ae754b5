"""Frozen dataclasses for the model, the data, the training recipe and decoding."""

from keras_transformer.config.data import DataConfig
from keras_transformer.config.decoding import DecodingConfig
from keras_transformer.config.experiment import ExperimentConfig, read_yaml
from keras_transformer.config.model import TransformerConfig
from keras_transformer.config.training import TrainingConfig

PAD_ID = 0
"""The id of padding."""
UNK_ID = 1
"""The id of unknown tokens."""
BOS_ID = 2
"""The id at the start of what the decoder reads."""
EOS_ID = 3
"""The id at the end of a sentence."""

__all__ = [
    "BOS_ID",
    "EOS_ID",
    "PAD_ID",
    "UNK_ID",
    "DataConfig",
    "DecodingConfig",
    "ExperimentConfig",
    "TrainingConfig",
    "TransformerConfig",
    "read_yaml",
]
