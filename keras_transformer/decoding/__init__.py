"""Greedy search, beam search and sampling over any step function, with rules and scores."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.penalties import length_penalty
from keras_transformer.decoding.rules import (
    forced_prefix,
    make_rules,
    min_length,
    no_repeat_ngram,
    repetition_penalty,
)
from keras_transformer.decoding.sampling import sample_search
from keras_transformer.decoding.scoring import score_tokens
from keras_transformer.decoding.search import (
    UNFILLED_SCORE,
    Rule,
    SearchOptions,
    SearchResult,
    Select,
    Stages,
    State,
    Step,
    repeat_rows,
    take_rows,
)
from keras_transformer.decoding.styles import STYLES, Style
from keras_transformer.decoding.tree_rules import TreeStep, TreeTokens

__all__ = [
    "STYLES",
    "UNFILLED_SCORE",
    "Rule",
    "SearchOptions",
    "SearchResult",
    "Select",
    "Stages",
    "State",
    "Step",
    "Style",
    "TreeStep",
    "TreeTokens",
    "beam_search",
    "forced_prefix",
    "greedy_search",
    "length_penalty",
    "make_rules",
    "min_length",
    "no_repeat_ngram",
    "repeat_rows",
    "repetition_penalty",
    "sample_search",
    "score_tokens",
    "take_rows",
]
