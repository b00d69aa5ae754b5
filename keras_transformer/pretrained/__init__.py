"""Models trained by other programs: Marian's own files, and Hugging Face's `MarianMTModel`."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.pretrained.importing import import_marian
from keras_transformer.pretrained.write_hugging_face import save_hugging_face

__all__ = ["import_marian", "save_hugging_face"]
