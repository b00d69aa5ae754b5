"""Models of other programs: Hugging Face's NLLB, M2M100, mBART-50 and Marian, and Marian's own."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

from keras_transformer.pretrained.importing import import_marian as import_marian
from keras_transformer.pretrained.importing import import_model
from keras_transformer.pretrained.write_hugging_face import save_hugging_face

__all__ = ["import_model", "save_hugging_face"]
