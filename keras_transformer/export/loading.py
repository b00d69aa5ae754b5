"""Using an exported SavedModel from Python."""

import os
from collections.abc import Callable
from pathlib import Path

import tensorflow as tf


def find_saved_model(path: str | os.PathLike) -> Path | None:
    """Return the SavedModel at a path, or its highest version below it; None if there is none."""
    path = Path(path)
    if (path / "saved_model.pb").exists():
        return path
    versions = [child.parent for child in path.glob("*/saved_model.pb")]
    numbered = [version for version in versions if version.name.isdecimal()]
    return max(numbered, key=lambda version: int(version.name), default=None)


def load_saved_model(path: str | os.PathLike) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a function from string [B] to the translations, string [B], of an exported model.

    Args:
        path: what `export_saved_model` returned, or the directory over it for its last version.

    Raises:
        FileNotFoundError: there is no SavedModel.
    """
    import tensorflow_text  # noqa: F401  registers the tokenizer's ops

    found = find_saved_model(path)
    if found is None:
        raise FileNotFoundError(
            f"There is no SavedModel in {path}: expected saved_model.pb there or in a numbered "
            "directory below. Export one with python -m pipelines.export."
        )
    loaded = tf.saved_model.load(str(found))
    signature = loaded.signatures["serving_default"]

    def translate(text: tf.Tensor) -> tf.Tensor:
        return signature(text=text)["translation"]

    translate.loaded = loaded  # A signature does not keep its variables alive.
    return translate
