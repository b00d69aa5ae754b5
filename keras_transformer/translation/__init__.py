"""From text to text with a trained model: tokenizer, encoder, search and back."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.translation.model_step import DecoderStep, ModelStep
from keras_transformer.translation.translator import Translator

__all__ = ["DecoderStep", "ModelStep", "Translator"]
