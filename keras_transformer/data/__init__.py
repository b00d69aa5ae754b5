"""Parallel text, trees, and the padded batches of token ids that a model trains on."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.data.batching import bucket_boundaries, plan_batches
from keras_transformer.data.bpe_dropout import SubwordDropout
from keras_transformer.data.encoding import EncodedPairs, encode_pairs
from keras_transformer.data.pipeline import TokenBatches
from keras_transformer.data.shapes import choose_widths
from keras_transformer.data.sources import (
    read_lines,
    read_pairs,
    read_parallel,
    read_tsv,
    stream_pairs,
)
from keras_transformer.data.tfds import read_tfds
from keras_transformer.data.tree_substitution import substitute_subtrees
from keras_transformer.data.trees import (
    TreeProblem,
    read_trees,
    stream_tree_pairs,
    stream_trees,
    tree_files,
    tree_pair,
)
from keras_transformer.data.word_dropout import WordDropout

__all__ = [
    "EncodedPairs",
    "SubwordDropout",
    "TokenBatches",
    "TreeProblem",
    "WordDropout",
    "bucket_boundaries",
    "choose_widths",
    "encode_pairs",
    "plan_batches",
    "read_lines",
    "read_pairs",
    "read_parallel",
    "read_tfds",
    "read_trees",
    "read_tsv",
    "stream_pairs",
    "stream_tree_pairs",
    "stream_trees",
    "substitute_subtrees",
    "tree_files",
    "tree_pair",
]
