"""KerasHub both ways: a `Translator` as a KerasHub task, saved and loaded as a preset.

Needs the package keras-hub: `pip install 'keras-transformer-mt[keras-hub]'`. Importing this module
registers the classes that `keras_hub.models.Seq2SeqLM.from_preset` looks for.
"""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

import importlib.util

if importlib.util.find_spec("keras_hub") is None:
    raise ImportError(
        "keras_transformer.keras_hub needs the package keras-hub: pip install "
        "'keras-transformer-mt[keras-hub]'"
    )

from keras_transformer.keras_hub.backbone import TransformerBackbone
from keras_transformer.keras_hub.preprocessor import TransformerSeq2SeqLMPreprocessor
from keras_transformer.keras_hub.seq2seq_lm import TransformerSeq2SeqLM
from keras_transformer.keras_hub.tokenizer import TransformerTokenizer

__all__ = [
    "TransformerBackbone",
    "TransformerSeq2SeqLM",
    "TransformerSeq2SeqLMPreprocessor",
    "TransformerTokenizer",
]
