"""Figures of training runs, attention weights, position encodings and trees."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.plots.attention import attention_grid, attention_map, sentence_attention
from keras_transformer.plots.curves import training_curves
from keras_transformer.plots.style import save_figure
from keras_transformer.plots.tree import tree_figure

__all__ = [
    "attention_grid",
    "attention_map",
    "save_figure",
    "sentence_attention",
    "training_curves",
    "tree_figure",
]
