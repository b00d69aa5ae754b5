"""The Transformer of "Attention Is All You Need" in Keras, from text to a served model.

Everything is imported on first use, so `import keras_transformer` is instant. Models, layers,
losses, metrics, optimizers and schedules run on any Keras backend; `data`, `decoding`,
`evaluation`, `export`, `plots`, `text`, `training`, `translation` and `Translator` need TensorFlow.

>>> import keras_transformer
>>> keras_transformer.presets.get_preset("base").model.num_layers
6
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer import (
        config,
        data,
        decoding,
        evaluation,
        export,
        layers,
        losses,
        metrics,
        optimizers,
        plots,
        presets,
        schedules,
        text,
        training,
        translation,
        trees,
    )
    from keras_transformer.config import TransformerConfig
    from keras_transformer.model import Transformer
    from keras_transformer.translation import Translator

__version__ = "0.2.0"

__all__ = [
    "Transformer",
    "TransformerConfig",
    "Translator",
    "config",
    "data",
    "decoding",
    "evaluation",
    "export",
    "layers",
    "losses",
    "metrics",
    "optimizers",
    "plots",
    "presets",
    "schedules",
    "text",
    "training",
    "translation",
    "trees",
]

_HOMES = {"Transformer": "model", "TransformerConfig": "config", "Translator": "translation"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOMES.get(name, name)}")
    return getattr(module, name) if name in _HOMES else module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
