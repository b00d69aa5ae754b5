"""Parallel text, trees, and the padded batches of token ids that a model trains on."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.data.encoding import EncodedPairs, encode_pairs
from keras_transformer.data.pipeline import TokenBatches
from keras_transformer.data.sources import read_lines, read_pairs
from keras_transformer.data.tfds import read_tfds
from keras_transformer.data.trees import read_trees, substitute_subtrees
from keras_transformer.data.variation import SubwordDropout, WordDropout

__all__ = [
    "EncodedPairs",
    "SubwordDropout",
    "TokenBatches",
    "WordDropout",
    "encode_pairs",
    "read_lines",
    "read_pairs",
    "read_tfds",
    "read_trees",
    "substitute_subtrees",
]
