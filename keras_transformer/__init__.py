"""The Transformer of "Attention Is All You Need" in Keras: from text files to a served model."""

from keras_transformer.config import TransformerConfig
from keras_transformer.model import Transformer

__version__ = "0.1.0"

__all__ = ["Transformer", "TransformerConfig"]
