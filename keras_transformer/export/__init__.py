"""Export for serving, and to CTranslate2."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.export.ctranslate2 import export_ctranslate2
from keras_transformer.export.loading import LoadedTranslator, load_saved_model
from keras_transformer.export.saved_model import export_saved_model

__all__ = ["LoadedTranslator", "export_ctranslate2", "export_saved_model", "load_saved_model"]
