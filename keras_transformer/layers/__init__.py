"""The layers of the Transformer, each usable alone in a Keras model."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.decoder import Decoder, DecoderLayer
from keras_transformer.layers.embedding import TokenEmbedding
from keras_transformer.layers.encoder import Encoder, EncoderLayer
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.masks import causal_mask, padding_mask
from keras_transformer.layers.position import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_transformer.layers.residual import Dropout

__all__ = [
    "Decoder",
    "DecoderLayer",
    "Dropout",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "LearnedPositionEncoding",
    "MultiHeadAttention",
    "SinusoidalPositionEncoding",
    "TokenEmbedding",
    "causal_mask",
    "padding_mask",
]
