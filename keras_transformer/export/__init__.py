"""Export for serving, and to CTranslate2.

What needs TensorFlow is imported on first use: `pipelines.serve` reads a record without it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from keras_transformer.config.record import ExportRecord
from keras_transformer.utils.versions import find_saved_model, find_served_version

if TYPE_CHECKING:
    from keras_transformer.export.ctranslate2 import export_ctranslate2
    from keras_transformer.export.loading import LoadedTranslator, load_saved_model
    from keras_transformer.export.saved_model import export_saved_model, write_graph

__all__ = [
    "ExportRecord",
    "LoadedTranslator",
    "export_ctranslate2",
    "export_saved_model",
    "find_saved_model",
    "find_served_version",
    "load_saved_model",
    "write_graph",
]

_HOMES = {
    "LoadedTranslator": "loading",
    "export_ctranslate2": "ctranslate2",
    "export_saved_model": "saved_model",
    "load_saved_model": "loading",
    "write_graph": "saved_model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    importlib.import_module("keras_transformer.utils.quiet_start")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
