"""The Transformer of "Attention Is All You Need" in Keras: from text files to a served model.

What needs only Keras is imported with this package. What needs TensorFlow (`data`, `decoding`,
`evaluation`, `export`, `plots`, `text`, `training` and `Translator`) is imported when it is first
used, so that models also run on other Keras backends.
"""

import importlib

from keras_transformer import layers, losses, metrics, optimizers, presets, schedules
from keras_transformer.config import TransformerConfig
from keras_transformer.model import Transformer

__version__ = "0.1.0"

_LATER = ("data", "decoding", "evaluation", "export", "plots", "text", "training")

__all__ = [
    "Transformer",
    "TransformerConfig",
    "Translator",
    "layers",
    "losses",
    "metrics",
    "optimizers",
    "presets",
    "schedules",
    *_LATER,
]


def __getattr__(name):
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "Translator":
        return importlib.import_module(f"{__name__}.translator").Translator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
