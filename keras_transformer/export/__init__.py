"""Export for serving."""

from keras_transformer.export.loading import find_saved_model, load_saved_model
from keras_transformer.export.saved_model import export_saved_model

__all__ = ["export_saved_model", "find_saved_model", "load_saved_model"]
