"""Frozen dataclasses for the model, the data, the training recipe and decoding."""

from keras_transformer.config.data import DataConfig
from keras_transformer.config.decoding import DecodingConfig
from keras_transformer.config.experiment import ExperimentConfig, read_yaml
from keras_transformer.config.model import TransformerConfig
from keras_transformer.config.special_ids import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.config.training import TrainingConfig

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
