"""One version of a model: loading it, and calling its signatures."""

import contextlib
import itertools
import os
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.parts import Estimate, RowNeeds
from keras_transformer.serving.session import Session, register_text_ops
from keras_transformer.serving.tensors import (
    DTYPES,
    check_names,
    prediction_log_pb2,
    read_tensor,
    saved_model_pb2,
    type_name,
)
from keras_transformer.utils.checksums import check_files
from keras_transformer.utils.errors import one_line
from keras_transformer.utils.memory import trim_memory
from keras_transformer.utils.versions import GRAPH

DEFAULT = "serving_default"
_WARMUP = "assets.extra/tf_serving_warmup_requests"
_INIT = "__saved_model_init_op"
_INIT_OPS = ("saved_model_main_op", "legacy_init_op")  # Collections of TensorFlow 1.


class Model:
    """A loaded SavedModel.

    Attributes:
        signature_defs: The description of each signature, a `SignatureDef`.
        gpu_memory: The bytes that all models may take on the GPU that runs it; None on a CPU.
        estimates: What the rows of each signature take.
        warmup_seconds: How long the warm-up requests took.

    Args:
        version: The version directory.

    Raises:
        ValueError: If a file is damaged.
        ServingError: If a warm-up request fails.
    """

    def __init__(self, version: Path):
        register_text_ops()
        check_files(version)
        with _whole(version / GRAPH):
            saved = saved_model_pb2.SavedModel.FromString((version / GRAPH).read_bytes())
            meta = _served_graph(version, saved)
            self._session = _load(version, meta)
        # Copies, because a part of a message keeps the whole.
        self.signature_defs = {
            name: type(about).FromString(about.SerializeToString())
            for name, about in meta.signature_def.items()
        }
        del saved, meta
        trim_memory()
        gpus = self._session.gpus
        self.gpu_memory = min(gpus, default=None)
        needs = RowNeeds.read(version)
        self.estimates = {
            name: Estimate(name, about, needs, on_gpu=bool(gpus))
            for name, about in self.signature_defs.items()
        }
        self.warmup_seconds = self._warm_up(version / _WARMUP)

    def _warm_up(self, path: Path) -> float:
        started = time.monotonic()
        with _whole(path):
            requests = list(self._read_requests(path)) if path.exists() else []
        for signature, inputs in requests:
            self.run(signature, inputs)
        return time.monotonic() - started

    def _read_requests(self, path: Path) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
        for record in _records(path.read_bytes()):
            log = prediction_log_pb2.PredictionLog.FromString(record)
            request = log.predict_log.request
            inputs = {name: read_tensor(name, proto) for name, proto in request.inputs.items()}
            signature = request.model_spec.signature_name or DEFAULT
            if signature not in self:
                raise ServingError(Code.NOT_FOUND, f"the model has no signature {signature}")
            check_names(inputs, self.dtypes(signature))
            yield signature, self.fit(signature, inputs)

    def __contains__(self, signature: str) -> bool:
        return signature in self.signature_defs and not signature.startswith("__")

    def dtypes(self, signature: str) -> dict[str, np.dtype]:
        """Return the type of each input of a signature.

        Raises:
            ServingError: If no request can hold an input.
        """
        inputs = self.signature_defs[signature].inputs
        for name, info in inputs.items():
            if info.dtype not in DTYPES:
                raise invalid(f"Input {name} has type {info.dtype}, which no request can hold.")
        return {name: DTYPES[info.dtype] for name, info in inputs.items()}

    def outputs(self, signature: str) -> set[str]:
        """Return the names of a signature's outputs."""
        return set(self.signature_defs[signature].outputs)

    def fit(
        self, signature: str, inputs: Mapping[str, np.ndarray], flatten: bool = True
    ) -> dict[str, np.ndarray]:
        """Return inputs in the shapes that a signature takes.

        Args:
            signature: The signature's name.
            inputs: Its inputs.
            flatten: Whether a scalar or a matrix may replace a vector, as in TensorFlow Serving
                without batching.

        Raises:
            ServingError: If an input has another type or shape.
        """
        fitted = {}
        dtypes = self.dtypes(signature)
        for name, info in self.signature_defs[signature].inputs.items():
            array = inputs[name]
            if array.dtype != dtypes[name]:
                wanted, received = type_name(dtypes[name]), type_name(array.dtype)
                raise invalid(f"Input {name} must be {wanted}, received {received}.")
            shape = tuple(dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim)
            if not (info.tensor_shape.unknown_rank or _fits(array.shape, shape)):
                if not (flatten and len(shape) == 1):
                    raise invalid(
                        f"Input {name} must have shape {shape}, received {list(array.shape)}."
                        if array.ndim or flatten
                        else "Batching Run() input tensors must have at least one dimension"
                    )
                array = array.reshape(-1)
            fitted[name] = array
        return fitted

    def run(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the outputs of a signature for inputs that fit; strings are bytes.

        Raises:
            ServingError: If the model fails.
        """
        about = self.signature_defs[signature]
        feeds = {info.name: inputs[name] for name, info in about.inputs.items()}
        fetches = {name: info.name for name, info in sorted(about.outputs.items())}
        values = self._session.run(list(fetches.values()), feeds)
        return dict(zip(fetches, values, strict=True))


def _served_graph(version: Path, saved: Any) -> Any:
    """Return the graph that TensorFlow Serving takes."""
    tags = [sorted(meta.meta_info_def.tags) for meta in saved.meta_graphs]
    if tags and ["serve"] not in tags:
        raise ValueError(
            f"{version / GRAPH} must have a graph with the tag serve, received {tags}. Export it "
            "with that tag."
        )
    return saved.meta_graphs[tags.index(["serve"]) if tags else 0]


def _load(version: Path, meta: Any) -> Session:
    """Return a session with a graph and its variables, as TensorFlow Serving has it."""
    functions = (function.node_def for function in meta.graph_def.library.function)
    for node in itertools.chain(meta.graph_def.node, *functions):
        node.attr.pop("_output_shapes", None)  # TensorFlow infers them.
    session = Session(meta.graph_def.SerializeToString())
    saver, variables = meta.saver_def, version / "variables/variables"
    if variables.with_suffix(".index").exists():
        _restore(session, saver.restore_op_name, {saver.filename_tensor_name: variables})
    init = [name for key in _INIT_OPS for name in meta.collection_def[key].node_list.value]
    if _INIT in meta.signature_def:
        init.append(meta.signature_def[_INIT].outputs[_INIT].name)
    if init:  # Fills tables from files.
        assets = {
            asset.tensor_info.name: version / "assets" / asset.filename
            for asset in meta.asset_file_def
        }
        for name in init:
            _restore(session, name, assets)
    return session


def _restore(session: Session, operation: str, paths: Mapping[str, Path]) -> None:
    """Run an operation of a graph that reads files."""
    feeds = {name: np.array(os.fsencode(path), object) for name, path in paths.items()}
    session.run([], feeds, [operation.partition(":")[0]])


def _fits(received: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    """Return whether a shape is the one that an input takes, in which None is any size."""
    return len(received) == len(shape) and all(
        size in (None, given) for given, size in zip(received, shape, strict=True)
    )


def _records(content: bytes) -> Iterator[bytes]:
    """Yield the records of a file in TFRecord's format.

    Checksums are not compared: a request that is not the one that was written warms up too.
    """
    at = 0
    while at < len(content):
        (size,) = struct.unpack_from("<Q", content.ljust(at + 8, b"\0"), at)
        start, end = at + 12, at + 12 + size
        at = end + 4
        if at > len(content):
            raise ServingError(Code.DATA_LOSS, "its last record is cut short")
        yield content[start:end]


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Name a file whose content is not what an export writes."""
    try:
        yield
    except (DecodeError, IndexError, ServingError) as error:
        reason = "it has no graph" if isinstance(error, IndexError) else one_line(error)
        raise ValueError(
            f"{path} is damaged: {reason.removesuffix('.')}. Restore it, or export the model again."
        ) from error
