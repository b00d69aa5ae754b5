"""Export for serving, and to CTranslate2."""

from keras_transformer.export.ctranslate2 import export_ctranslate2
from keras_transformer.export.loading import find_saved_model, load_saved_model
from keras_transformer.export.saved_model import export_saved_model, write_graph

__all__ = [
    "export_ctranslate2",
    "export_saved_model",
    "find_saved_model",
    "load_saved_model",
    "write_graph",
]
