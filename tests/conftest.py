"""The start of every test: quiet TensorFlow, a fixed seed, the same policy and environment."""

import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # read when Keras imports TensorFlow

import pytest

from tests.helpers import shared

# The files that take longest. They start first, so that none is left for one process at the end.
LONG = (
    "tests/test_snippets.py",
    "tests/test_backends.py",
    "tests/training/test_replicas.py",
    "tests/training/test_run.py",
    "tests/training/test_resume.py",
    "tests/training/test_vocabularies.py",
    "tests/benchmarks/test_decoding_benchmark.py",
    "tests/training/test_kills.py",
    "tests/benchmarks/test_training_benchmark.py",
    "tests/training/test_cluster.py",
    "tests/training/test_check.py",
    "tests/training/test_parsing.py",
    "tests/translation/test_compiled_search.py",
    "tests/parity/test_keras_hub.py",
)


def only_quick(config):
    """Return whether the slow tests are left out, so that compiling takes most of the time."""
    return config.option.markexpr == "not slow"


def pytest_collection_modifyitems(config, items):
    rank = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: rank.get(item.nodeid.partition("::")[0], len(LONG)))
    start_tensorflow(optimize_graphs=not only_quick(config))
    gc.freeze()  # The imported modules stay, and each collection would visit all their objects.


def start_tensorflow(optimize_graphs):
    # Imported here, because the process that distributes the tests to others needs no TensorFlow.
    import keras

    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    # Start TensorFlow, so that no test can change the number of threads for later ones.
    tf.config.list_logical_devices()
    # The optimizer of graphs takes a fifth of the time of a tiny function that runs once.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not optimize_graphs})


def pytest_configure(config):
    if only_quick(config):
        # Halves the time of a compilation by XLA, here and in the processes that tests start.
        os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    if hasattr(config.option, "loadscopereorder"):  # Of pytest-xdist, by the number of tests.
        config.option.loadscopereorder = False
    # Raised by Keras 3.15 itself with NumPy 2.
    config.addinivalue_line("filterwarnings", "ignore:__array__ implementation:DeprecationWarning")


@pytest.fixture(scope="session", autouse=True)
def shared_folder(tmp_path_factory):
    """Set the directory for what the processes of a test run share."""
    folder = tmp_path_factory.getbasetemp()
    shared.folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(autouse=True)
def same_start_for_every_test():
    import keras

    keras.utils.set_random_seed(1)
    policy, environment = keras.config.dtype_policy(), dict(os.environ)
    yield
    keras.config.set_dtype_policy(policy)
    if os.environ != environment:  # Commands prepare their process, and others would inherit it.
        os.environ.clear()
        os.environ.update(environment)
