"""Export to a SavedModel that takes and returns strings."""

import os
import shutil
import uuid
from pathlib import Path

import tensorflow as tf

from keras_transformer.translator import Translator


def export_saved_model(translator: Translator, path: str | os.PathLike) -> Path:
    """Write a translator as the next version of a SavedModel, from text to text.

    Its signature `serving_default` takes `text`, string [B], and returns `translation`, string [B].
    The directory appears under its final name only when it is whole, so that a running model
    server can watch `path`.

    Args:
        translator: what to export, with its search.
        path: the model's directory, such as saved_models/NAME.

    Returns:
        The directory of the new version: path/1, or one more than the highest there is.
    """
    path = Path(path)

    def translate(text):
        return {"translation": translator.translate(text)}

    signature = tf.function(
        translate,
        input_signature=[tf.TensorSpec([None], tf.string, name="text")],
        autograph=False,
    ).get_concrete_function()
    serving = tf.Module()
    # These are TensorFlow's own variables: of the Keras ones that hold them no value is restored.
    serving.weights = signature.variables
    temporary = path / f"writing-{uuid.uuid4().hex}"
    try:
        tf.saved_model.save(serving, str(temporary), signatures={"serving_default": signature})
        return _publish(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, path: Path) -> Path:
    """Rename a directory to the next version, also while other exports do the same."""
    while True:
        versions = [int(child.name) for child in path.iterdir() if child.name.isdecimal()]
        final = path / str(1 + max(versions, default=0))
        try:
            return temporary.rename(final)
        except OSError:
            if not final.exists():  # Otherwise another export was faster.
                raise
