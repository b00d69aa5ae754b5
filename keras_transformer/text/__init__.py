"""Subword tokenizers that run in a TensorFlow graph, and functions to train vocabularies."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.text.base import Tokenizer
from keras_transformer.text.files import (
    find_vocabularies,
    read_tokenizers,
    save_tokenizers,
    vocabulary_paths,
)
from keras_transformer.text.foreign_vocabulary import join_vocabulary
from keras_transformer.text.sentencepiece import SentencePieceTokenizer
from keras_transformer.text.sentencepiece_training import train_sentencepiece
from keras_transformer.text.tree_tokenizer import TreeTokenizer, tree_vocabulary
from keras_transformer.text.word_piece import WordPieceTokenizer
from keras_transformer.text.word_piece_training import train_word_piece
from keras_transformer.text.words import WordTokenizer, train_words

__all__ = [
    "SentencePieceTokenizer",
    "Tokenizer",
    "TreeTokenizer",
    "WordPieceTokenizer",
    "WordTokenizer",
    "find_vocabularies",
    "join_vocabulary",
    "read_tokenizers",
    "save_tokenizers",
    "train_sentencepiece",
    "train_word_piece",
    "train_words",
    "tree_vocabulary",
    "vocabulary_paths",
]
