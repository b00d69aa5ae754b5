"""The weights of an exported SavedModel, as a Keras model."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.config.record import ExportRecord
from keras_transformer.model import Transformer

_PARTS = {
    *(f"{side}_embedding" for side in ("source", "target", "output")),
    *("source_position", "target_position", "encoder", "decoder"),
}
"""The layers of a `Transformer` that have weights."""


def read_exported_model(version: Path, config: TransformerConfig) -> Transformer:
    """Return a model in float32 with the weights of a SavedModel.

    Args:
        version: The directory of the SavedModel, of this version or of 0.1.
        config: The sizes of the model.

    Raises:
        ValueError: If the SavedModel is damaged or has other weights.
    """
    import tensorflow_text  # noqa: F401  Registers the tokenizer's ops.

    try:
        weights = tf.saved_model.load(str(version)).weights
        values = {weight_place(weight.name.removesuffix(":0")): weight for weight in weights}
        model = Transformer(config, dtype="float32")
        model.set_weights([_value(weight_place(weight.path), values) for weight in model.weights])
    except (tf.errors.OpError, AttributeError, KeyError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"The SavedModel in {version} is damaged, or its weights are not those of its "
            f"{ExportRecord.FILE}: {reason}. Restore it, or export it again."
        ) from error
    return model


def weight_place(path: str) -> str:
    """Return a weight's path inside its model, without the model's own name, if it has that."""
    first, _, rest = path.partition("/")
    return path if first in _PARTS else rest


def _value(path: str, values: Mapping[str, tf.Variable]) -> np.ndarray:
    """Return a weight's value, computed from int8 values and their scale if it has those."""
    if path in values:
        return values[path].numpy()
    layer, _, name = path.rpartition("/")
    stem = f"{layer}/{layer.rpartition('/')[2]}_adapter/{name}"
    return values[f"{stem}_int8"].numpy() * values[f"{stem}_scale"].numpy()
