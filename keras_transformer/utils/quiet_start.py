"""Start TensorFlow without its start-up report, if Keras is about to start it.

Every part of the library that imports Keras imports this module first.
"""

import os
import sys

from keras_transformer.utils.quiet import quiet_tensorflow


def import_tensorflow_quietly() -> None:
    """Import TensorFlow without its lines on instruction sets and missing GPUs."""
    with quiet_tensorflow():
        import tensorflow  # noqa: F401


if "keras" not in sys.modules and os.environ.get("KERAS_BACKEND") in (None, "tensorflow"):
    import_tensorflow_quietly()
