"""TensorFlow's sessions and devices, through the C API of its library (`tensorflow/c/c_api.h`).

A server needs no TensorFlow for Python, which takes 130 MB of private memory. Of the two kinds of
sessions of the C API, this is the older one, which knows tensors by name: `TF_SessionRun` would
keep a second copy of the graph, of 51 MB.
"""

import contextlib
import ctypes
import functools
import importlib.util
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import POINTER, c_char, c_char_p, c_int, c_int64, c_size_t, c_void_p
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.serving.errors import invalid, of_number
from keras_transformer.serving.tensors import DTYPES, NUMBERS, config_pb2
from keras_transformer.utils import devices
from keras_transformer.utils.devices import available_cores
from keras_transformer.utils.graph_optimizers import leave_out_slow_optimizers
from keras_transformer.utils.quiet import quiet_tensorflow

_STRING_BYTES = 24  # Of a TF_TString, whose text may lie elsewhere.

_config = config_pb2.ConfigProto(
    allow_soft_placement=True,
    inter_op_parallelism_threads=-1,  # Small operations are not worth another thread.
)
_config.experimental.optimize_for_static_graph = True  # Keeps no copies of the graph.
_config.experimental.disable_output_partition_graphs = True
leave_out_slow_optimizers(_config)

_FREE = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # The type of the result, then those of arguments.
    "NewStatus": (c_void_p,),
    "DeleteStatus": (None, c_void_p),
    "GetCode": (c_int, c_void_p),
    "Message": (c_char_p, c_void_p),
    "LoadLibrary": (c_void_p, c_char_p, c_void_p),
    "NewSessionOptions": (c_void_p,),
    "SetConfig": (None, c_void_p, c_char_p, c_size_t, c_void_p),
    "DeleteSessionOptions": (None, c_void_p),
    "NewDeprecatedSession": (c_void_p, c_void_p, c_void_p),
    "CloseDeprecatedSession": (None, c_void_p, c_void_p),
    "DeleteDeprecatedSession": (None, c_void_p, c_void_p),
    "DeprecatedSessionListDevices": (c_void_p, c_void_p, c_void_p),
    "DeviceListCount": (c_int, c_void_p),
    "DeviceListType": (c_char_p, c_void_p, c_int, c_void_p),
    "DeviceListMemoryBytes": (c_int64, c_void_p, c_int, c_void_p),
    "DeleteDeviceList": (None, c_void_p),
    "ExtendGraph": (None, c_void_p, c_char_p, c_size_t, c_void_p),
    "Run": (
        *(None, c_void_p, c_void_p, POINTER(c_char_p), POINTER(c_void_p), c_int),
        *(POINTER(c_char_p), POINTER(c_void_p), c_int, POINTER(c_char_p), c_int),
        *(c_void_p, c_void_p),
    ),
    "NewTensor": (c_void_p, c_int, POINTER(c_int64), c_int, c_void_p, c_size_t, _FREE, c_void_p),
    "DeleteTensor": (None, c_void_p),
    "TensorType": (c_int, c_void_p),
    "TensorData": (c_void_p, c_void_p),
    "NumDims": (c_int, c_void_p),
    "Dim": (c_int64, c_void_p, c_int),
    "StringInit": (None, c_void_p),
    "StringCopy": (None, c_void_p, c_char_p, c_size_t),
    "StringDealloc": (None, c_void_p),
    "StringGetDataPointer": (c_void_p, c_void_p),
    "StringGetSize": (c_size_t, c_void_p),
}

_kept: dict[int, ctypes.Array[c_char]] = {}
"""The memory of tensors that were made here, by address, until TensorFlow is done with them."""


@functools.cache
def _library() -> Any:
    """Return TensorFlow's library, with the types of its functions."""
    spec = importlib.util.find_spec("tensorflow")
    assert spec and spec.origin, "Messages of its package are imported above."
    path = _files(Path(spec.origin).parent, "libtensorflow_cc.*2*", "tensorflow")[0]  # Or .2.dylib.
    with quiet_tensorflow():
        library = ctypes.CDLL(str(path))
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"TF_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _files(folder: Path, pattern: str, package: str) -> list[Path]:
    """Return the libraries in a folder of a package."""
    if not (found := sorted(folder.glob(pattern))):
        raise ImportError(f"{folder} has no {pattern}. Install {package} with pip.")
    return found


@contextlib.contextmanager
def _status() -> Iterator[int]:
    """Give TensorFlow an object for its error, and raise the error at the end of the block."""
    tf = _library()
    status = tf.TF_NewStatus()
    try:
        yield status
        if number := tf.TF_GetCode(status):
            raise of_number(number, tf.TF_Message(status).decode(errors="replace"))
    finally:
        tf.TF_DeleteStatus(status)


@functools.cache
def register_text_ops() -> None:
    """Register the ops of tokenizers."""
    tf, package = _library(), metadata.distribution("tensorflow-text")
    folder = Path(str(package.locate_file("tensorflow_text/python/ops")))
    for path in _files(folder, "*.so", "tensorflow-text"):
        with _status() as status:
            tf.TF_LoadLibrary(os.fsencode(path), status)


def configure(threads: int = 0, gpu_memory_fraction: float | None = None) -> None:
    """Set what TensorFlow takes from the first session of a process, as `Settings` describes it."""
    _config.intra_op_parallelism_threads = threads
    _config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction or 0


class Session:
    """A graph that TensorFlow runs, with its variables and tables.

    Attributes:
        gpus: The bytes that TensorFlow may take of each GPU.

    Args:
        graph: A `GraphDef`, as bytes.

    Raises:
        ServingError: If TensorFlow cannot run the graph.
    """

    def __init__(self, graph: bytes = b""):
        tf, content = _library(), _config.SerializeToString()
        options = tf.TF_NewSessionOptions()
        try:
            with _status() as status:
                tf.TF_SetConfig(options, content, len(content), status)
            with _status() as status:
                self._session = tf.TF_NewDeprecatedSession(options, status)
        finally:
            tf.TF_DeleteSessionOptions(options)
        # A process that ends need not wait for it.
        weakref.finalize(self, _delete, self._session).atexit = False
        with _status() as status:
            tf.TF_ExtendGraph(self._session, graph, len(graph), status)
        self.gpus = self._list_gpus()

    def _list_gpus(self) -> list[int]:
        tf = _library()
        with _status() as status:
            found = tf.TF_DeprecatedSessionListDevices(self._session, status)
        try:
            with _status() as status:
                return [
                    tf.TF_DeviceListMemoryBytes(found, i, status)
                    for i in range(tf.TF_DeviceListCount(found))
                    if tf.TF_DeviceListType(found, i, status) == b"GPU"
                ]
        finally:
            tf.TF_DeleteDeviceList(found)

    def run(
        self, fetches: Sequence[str], feeds: Mapping[str, np.ndarray], targets: Sequence[str] = ()
    ) -> list[np.ndarray]:
        """Run the graph; other threads may do so at the same time.

        Args:
            fetches: Names of tensors.
            feeds: The values of others, of the types in `DTYPES`.
            targets: Names of operations to run as well.

        Returns:
            The values of `fetches`; strings are bytes.

        Raises:
            ServingError: If an operation fails.
        """
        tf, inputs = _library(), (c_void_p * len(feeds))()
        outputs = (c_void_p * len(fetches))()
        try:
            for i, array in enumerate(feeds.values()):
                inputs[i] = _new_tensor(array)
            with _status() as status:
                sent = _names(feeds), inputs, len(feeds)
                asked = _names(fetches), outputs, len(fetches), _names(targets), len(targets)
                tf.TF_Run(self._session, None, *sent, *asked, None, status)
            return [_read(tensor) for tensor in outputs if tensor]
        finally:
            for tensor in (*inputs, *outputs):
                tf.TF_DeleteTensor(tensor)  # None is ignored.


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


def _delete(session: int) -> None:
    tf = _library()
    with contextlib.suppress(Exception), _status() as status:
        tf.TF_CloseDeprecatedSession(session, status)
    with contextlib.suppress(Exception), _status() as status:
        tf.TF_DeleteDeprecatedSession(session, status)


def _names(names: Iterable[str]) -> ctypes.Array[c_char_p]:
    encoded = [name.encode() for name in names]
    return (c_char_p * len(encoded))(*encoded)


@_FREE
def _free(data: int, size: int, is_text: int | None) -> None:
    """Free a tensor's memory, which a variable may hold for longer than a run."""
    if is_text:
        for at in range(data, data + size, _STRING_BYTES):
            _library().TF_StringDealloc(at)
    _kept.pop(data, None)


def _new_tensor(array: np.ndarray) -> int:
    """Return a tensor with a copy of an array, to be deleted by the caller."""
    tf, is_text = _library(), array.dtype == object
    size = array.size * _STRING_BYTES if is_text else array.nbytes
    memory = (c_char * max(size, 1))()
    data = ctypes.addressof(memory)
    if is_text:
        for at, text in zip(range(data, data + size, _STRING_BYTES), array.flat, strict=True):
            tf.TF_StringInit(at)
            tf.TF_StringCopy(at, text, len(text))
    else:
        whole = np.ascontiguousarray(array)  # Lives until it is copied.
        ctypes.memmove(data, whole.ctypes.data, size)
    _kept[data] = memory
    shape = (c_int64 * array.ndim)(*array.shape)
    return tf.TF_NewTensor(NUMBERS[array.dtype], shape, array.ndim, data, size, _free, int(is_text))


def _read(tensor: int) -> np.ndarray:
    """Return a copy of a tensor."""
    tf = _library()
    shape = [tf.TF_Dim(tensor, i) for i in range(tf.TF_NumDims(tensor))]
    number, data = tf.TF_TensorType(tensor), tf.TF_TensorData(tensor)
    if number not in DTYPES:
        raise invalid(f"An output has type {number} of TensorFlow, which no answer can hold.")
    array = np.empty(shape, DTYPES[number])
    if array.dtype == object:
        for i in range(array.size):
            at = data + i * _STRING_BYTES
            text = tf.TF_StringGetDataPointer(at)
            array.flat[i] = ctypes.string_at(text, tf.TF_StringGetSize(at))
    else:
        ctypes.memmove(array.ctypes.data, data, array.nbytes)
    return array
