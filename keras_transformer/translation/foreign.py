"""What all files for other programs need of a translator: plain arrays, and tables of positions."""

from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_transformer.layers import LearnedPositionEncoding, SinusoidalPositionEncoding
from keras_transformer.model import Transformer

TABLES = {
    "sinusoidal": SinusoidalPositionEncoding,
    "sines_cosines": SinusoidalPositionEncoding,
    "tensor2tensor": SinusoidalPositionEncoding,
    "learned": LearnedPositionEncoding,
}
"""The layers whose whole effect is a table that is added, by `TransformerConfig.position`."""


def other_position(model: Transformer) -> str:
    """Return the first position encoding of a model that is no table, for a message, or ""."""
    position = model.config.position
    for layer in (model.source_position, model.target_position):
        if type(layer) is not TABLES.get(position):
            return f"{position!r} with a {type(layer).__name__}"
    return ""


def check_is_new(path: Path) -> None:
    """Raise a FileExistsError if a path exists."""
    if path.exists():
        raise FileExistsError(
            f"path must not exist yet, received {path}. Give another path, or remove it."
        )


def array_of(weight: Any) -> np.ndarray:
    """Return a weight of any backend as float32."""
    return keras.ops.convert_to_numpy(weight).astype("float32")
