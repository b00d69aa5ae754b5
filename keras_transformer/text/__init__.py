"""Tokenizers that run in a TensorFlow graph, and functions to train their vocabularies."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.text.base import Tokenizer
from keras_transformer.text.sentencepiece import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.tree_tokenizer import TreeTokenizer
from keras_transformer.text.word_piece import WordPieceTokenizer, train_word_piece
from keras_transformer.text.words import WordTokenizer, train_words

__all__ = [
    "SentencePieceTokenizer",
    "Tokenizer",
    "TreeTokenizer",
    "WordPieceTokenizer",
    "WordTokenizer",
    "train_sentencepiece",
    "train_word_piece",
    "train_words",
]
