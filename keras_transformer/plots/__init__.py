"""Figures of training runs, attention weights, position encodings and trees."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.plots.attention import attention_grid, attention_map
from keras_transformer.plots.curves import last_step, learning_rate_curve, training_curves
from keras_transformer.plots.lines import attention_lines
from keras_transformer.plots.positions import position_map
from keras_transformer.plots.sentence import SentenceAttention, sentence_attention
from keras_transformer.plots.steps import step_curves
from keras_transformer.plots.style import save_figure
from keras_transformer.plots.tree import tree_figure

__all__ = [
    "SentenceAttention",
    "attention_grid",
    "attention_lines",
    "attention_map",
    "last_step",
    "learning_rate_curve",
    "position_map",
    "save_figure",
    "sentence_attention",
    "step_curves",
    "training_curves",
    "tree_figure",
]
