"""Constituency trees: their notation, normalization, and the tokens that a model is trained on."""

from keras_transformer.trees.normalization import normalize_tree
from keras_transformer.trees.sequences import (
    WORD,
    delinearize,
    join_words,
    linearize,
    split_words,
)
from keras_transformer.trees.tree import UNKNOWN_TAG, Tree, escape, parse_tree, unescape

__all__ = [
    "UNKNOWN_TAG",
    "WORD",
    "Tree",
    "delinearize",
    "escape",
    "join_words",
    "linearize",
    "normalize_tree",
    "parse_tree",
    "split_words",
    "unescape",
]
