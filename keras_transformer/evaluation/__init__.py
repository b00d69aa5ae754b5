"""How good translations are."""

from keras_transformer.evaluation.bleu import Scores, score

__all__ = ["Scores", "score"]
