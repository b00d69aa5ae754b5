"""Models that other programs trained: Marian's, and those of Hugging Face's `MarianMTModel`."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.pretrained.importing import import_marian

__all__ = ["import_marian"]
