"""Subword tokenizers that run inside a TensorFlow graph, and the training of their vocabularies."""

from keras_transformer.text.tokenizer import SentencePieceTokenizer
from keras_transformer.text.training import train_sentencepiece

__all__ = ["SentencePieceTokenizer", "train_sentencepiece"]
