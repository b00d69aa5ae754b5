"""Greedy and beam search over any step function, and the scores they give."""

from keras_transformer.decoding.beam import beam_search
from keras_transformer.decoding.greedy import greedy_search
from keras_transformer.decoding.penalties import length_penalty
from keras_transformer.decoding.scoring import score_tokens
from keras_transformer.decoding.search import SearchResult, State, Step, repeat_rows

__all__ = [
    "SearchResult",
    "State",
    "Step",
    "beam_search",
    "greedy_search",
    "length_penalty",
    "repeat_rows",
    "score_tokens",
]
