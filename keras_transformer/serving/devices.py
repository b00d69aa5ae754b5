"""The GPUs of a server, as TensorFlow's library finds them."""

import contextlib
import ctypes
import functools

from keras_transformer.serving.session import Session
from keras_transformer.utils import devices
from keras_transformer.utils.devices import available_cores


@functools.cache
def has_gpu() -> bool:
    """Return whether TensorFlow computes on a GPU."""
    return bool(Session().gpus)


def device_name() -> str:
    """Return where models run: `the CPU`, or the first GPU, as `GPU:0 (NVIDIA H200)`."""
    return f"GPU:0 ({_gpu_name()})" if has_gpu() else "the CPU"


def _gpu_name() -> str:
    name = ctypes.create_string_buffer(b"unknown", 256)
    with contextlib.suppress(OSError):  # It is not that of NVIDIA.
        cuda, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), 0)
        cuda.cuDeviceGetName(name, len(name), device)
    return name.value.decode()


def usual_batch_size() -> int:
    """Return the sentences of a batch."""
    return devices.usual_batch_size(has_gpu())


def usual_runs() -> int:
    """Return how many runs a server has at a time.

    On a CPU, that is one per core. On a GPU, one run reads and writes text while the other one
    computes; each further one would only take memory.
    """
    return 2 if has_gpu() else available_cores()
