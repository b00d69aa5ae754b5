"""Training with `model.fit`, from text files to a model's directory."""

from keras_transformer.training.checkpoints import average_checkpoints
from keras_transformer.training.cpu import prepare_cpu
from keras_transformer.training.directory import load_translator, read_history
from keras_transformer.training.memory import keep_freed_memory
from keras_transformer.training.run import train
from keras_transformer.training.strategy import replica_strategy

__all__ = [
    "average_checkpoints",
    "keep_freed_memory",
    "load_translator",
    "prepare_cpu",
    "read_history",
    "replica_strategy",
    "train",
]
