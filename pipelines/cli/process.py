"""The process of a command: its log, and how it imports TensorFlow."""

import logging
import os
import resource
import sys


def start_log() -> None:
    """Send the library's log to standard error."""
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("keras_transformer").setLevel(logging.INFO)


def take_gpu_memory_as_needed() -> None:
    """Let TensorFlow take a GPU's memory as it needs it, unless the environment decides.

    By default it takes all of it at once. It reads the variable at its first use of a GPU.
    """
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")


def free_unused_memory() -> None:
    """Let TensorFlow and the C library free the memory that they would keep.

    That can be as much as the model. Training and batches are slower with this.
    TF_ONEDNN_USE_SYSTEM_ALLOCATOR of the environment takes precedence; TensorFlow reads it when it
    first allocates.
    """
    from keras_transformer.utils.memory import map_arrays

    map_arrays()
    os.environ.setdefault("TF_ONEDNN_USE_SYSTEM_ALLOCATOR", "true")


def import_tensorflow(training: bool = False) -> None:
    """Import TensorFlow without its start-up report, unless it is imported already.

    Also calls `prepare_tensorflow`.

    Args:
        training: Whether the command trains. On processors without AVX-512, TensorFlow does not
            use oneDNN's kernels by default; training is faster with them, and decoding a single
            sentence is slower. TF_ENABLE_ONEDNN_OPTS of the environment takes precedence.
    """
    if "tensorflow" not in sys.modules and training:  # It reads the variable on import.
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    prepare_tensorflow()
    from keras_transformer.utils.quiet_start import import_tensorflow_quietly

    import_tensorflow_quietly()


def prepare_tensorflow() -> None:
    """Call `take_gpu_memory_as_needed`, and warn of a limited address space."""
    if "tensorflow" not in sys.modules:
        take_gpu_memory_as_needed()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:  # Where it is reached, TensorFlow may abort the process.
        message = "the address space is limited to %.1f GB; if the process aborts, raise ulimit -v"
        logging.getLogger("keras_transformer").warning(message, limit / 1e9)
