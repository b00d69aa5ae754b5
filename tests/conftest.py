"""What every test starts from: quiet TensorFlow, a fixed seed, the default dtype policy."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # Read when TensorFlow is imported, by Keras.

import keras
import pytest


def pytest_configure(config):
    # Keras 3.15's own, with NumPy 2.
    config.addinivalue_line("filterwarnings", "ignore:__array__ implementation:DeprecationWarning")
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # Started, it keeps its threads, whichever test is the first to train.
        tf.config.list_logical_devices()


@pytest.fixture(autouse=True)
def same_start_for_every_test():
    keras.utils.set_random_seed(1)
    policy = keras.config.dtype_policy()
    yield
    keras.config.set_dtype_policy(policy)
