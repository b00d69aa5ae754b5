"""Scores of translations and of trees."""

from keras_transformer.evaluation.bleu import Scores, score
from keras_transformer.evaluation.brackets import BracketScores, score_brackets
from keras_transformer.evaluation.published import (
    PUBLISHED,
    PublishedBleu,
    published_bleu,
    published_tokenizer,
)

__all__ = [
    "PUBLISHED",
    "BracketScores",
    "PublishedBleu",
    "Scores",
    "published_bleu",
    "published_tokenizer",
    "score",
    "score_brackets",
]
