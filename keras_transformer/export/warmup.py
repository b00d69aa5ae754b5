"""Warm-up requests, which a model server runs before it serves a model to its clients."""

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config.decoding import ALL_KINDS
from keras_transformer.text import Tokenizer
from keras_transformer.translation.compiled_search import search_shapes
from keras_transformer.translation.translator import Translator
from keras_transformer.utils.graph_optimizers import leave_out_slow_optimizers
from keras_transformer.utils.memory import trim_memory
from keras_transformer.utils.progress import progress

SIZES = ((1, 8), (8, 8))
"""Rows, and subwords per row including eos, for a search that is not compiled."""
LONG = 64
"""Subwords of one more request for the first signature. A large model takes seconds for it."""
_ONE_ROW = ("inspect",)
"""Signatures whose results take too much memory for requests of many rows."""


class Request(NamedTuple):
    """A request for a signature, with string [B] for each of its inputs."""

    signature: str
    inputs: Mapping[str, Sequence[bytes]]


def warmup_requests(
    translator: Translator, signatures: Mapping[str, Mapping[str, Any]]
) -> list[Request]:
    """Return requests of several sizes for each signature, size by size.

    Args:
        translator: The translator that is exported. The requests of a compiled search have all
            the shapes that it is compiled for.
        signatures: The signatures, as `describe_signatures` describes them.
    """
    longest = translator.decoding.max_source_length
    sizes = [(rows, min(length, longest)) for rows, length in SIZES]
    more = [(1, min(LONG, longest), next(iter(signatures)))]
    if translator.compiled:
        shapes = search_shapes(longest, translator.device)
        lengths = sorted({length for _, length in shapes})
        # The shortest texts that are too long for the shape before.
        shortest = dict(zip(lengths, [1, *(length + 1 for length in lengths)], strict=False))
        sizes, more = [(rows, shortest[length]) for rows, length in shapes], []
    tokenizers = {"text": translator.tokenizer, "translation": translator.target_tokenizer}
    sides = ("source_language", "target_language")
    options = {side: (getattr(translator.decoding, side) or "").encode() for side in sides}
    options |= {"terms": b"", "protect": ALL_KINDS.encode()}

    def value(key, length):
        return options[key] if key in options else _text(tokenizers[key], length)

    return [
        Request(name, {key: rows * [value(key, length)] for key in signatures[name]["inputs"]})
        for rows, length, name in [*((*size, name) for size in sizes for name in signatures), *more]
        if rows == 1 or name not in _ONE_ROW
    ]


def _text(tokenizer: Tokenizer, length: int) -> bytes:
    """Return a word, repeated to the given number of subwords including eos."""
    pieces = tokenizer.id_to_piece(range(tokenizer.vocab_size))
    words = [piece[1:] for piece in pieces if piece.startswith("▁") and len(piece) > 1]
    word = words[-1] if words else "a"
    size = tokenizer.tokenize([word]).values.shape[0]
    return " ".join([word] * max(1, math.ceil((length - 1) / size))).encode()


def replay(saved_model: Path, requests: Sequence[Request]) -> None:
    """Run requests as the server does, in a session, with progress.

    A request that fails here would keep the server from loading the model. TensorFlow Serving runs
    more optimizers of the graph first, which take long for a large model. The tests of this package
    run such requests with them.

    Args:
        saved_model: The directory of the SavedModel.
        requests: The requests, as `warmup_requests` returns them.
    """
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # Hides the warning that sessions are deprecated.
    config = tf.compat.v1.ConfigProto()
    config.experimental.optimize_for_static_graph = True  # Keeps no copies of the graph.
    config.experimental.disable_output_partition_graphs = True
    leave_out_slow_optimizers(config)
    try:
        with (
            tf.compat.v1.Session(graph=tf.Graph(), config=config) as session,
            progress("checking the export", "requests") as advance,
        ):
            loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(saved_model))
            names = {
                name: [
                    {k: v.name for k, v in side.items()} for side in (about.inputs, about.outputs)
                ]
                for name, about in loaded.signature_def.items()
            }
            del loaded  # With the whole graph.
            trim_memory()
            for signature, values in requests:
                inputs, outputs = names[signature]
                session.run(outputs, {inputs[key]: value for key, value in values.items()})
                trim_memory()  # Optimizing the graph takes several times its size.
                advance(1)
    finally:
        logger.setLevel(level)


def write_warmup(path: Path, requests: Sequence[Request]) -> None:
    """Write the requests for the server: a TFRecord of `tensorflow.serving.PredictionLog`.

    The messages are encoded here because the package with their classes is for clients.
    """
    with tf.io.TFRecordWriter(str(path)) as file:
        for request in requests:
            model_spec = _field(3, request.signature.encode())
            inputs = [
                _field(1, key.encode()) + _field(2, tf.make_tensor_proto(v).SerializeToString())
                for key, v in request.inputs.items()
            ]
            predict_request = _field(1, model_spec) + b"".join(_field(2, entry) for entry in inputs)
            predict_log = _field(1, predict_request)
            file.write(_field(6, predict_log))


def _field(number: int, value: bytes) -> bytes:
    """Return a field of a protocol buffer: number and type, length, bytes."""
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low, high = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(high) if high else bytes([low])
