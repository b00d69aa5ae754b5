"""Greedy search, beam search and sampling over any step function, with rules and scores."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.generation import generate
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.rules import make_rules
from keras_transformer.decoding.sampling import sample_search
from keras_transformer.decoding.search import (
    Rule,
    SearchOptions,
    SearchResult,
    Step,
    repeat_rows,
    take_rows,
)
from keras_transformer.decoding.styles import score_tokens
from keras_transformer.decoding.tree_rules import TreeStep, TreeTokens

__all__ = [
    "Rule",
    "SearchOptions",
    "SearchResult",
    "Step",
    "TreeStep",
    "TreeTokens",
    "beam_search",
    "generate",
    "greedy_search",
    "make_rules",
    "repeat_rows",
    "sample_search",
    "score_tokens",
    "take_rows",
]
