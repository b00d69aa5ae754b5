"""Frozen dataclasses for the model, the data, the training recipe and decoding."""

from keras_transformer.config.data import DataConfig
from keras_transformer.config.decoding import DecodingConfig
from keras_transformer.config.experiment import ExperimentConfig
from keras_transformer.config.model import BOS_ID, EOS_ID, PAD_ID, UNK_ID, TransformerConfig
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
]
