"""Start TensorFlow without its report, if Keras is about to start it.

Every part of the library that imports Keras imports this module first.
"""

import os
import sys

from keras_transformer.utils.quiet import import_tensorflow_quietly

if "keras" not in sys.modules and os.environ.get("KERAS_BACKEND") in (None, "tensorflow"):
    import_tensorflow_quietly()
