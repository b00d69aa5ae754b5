"""Requests in parts: how many rows a part has, and how the outputs of parts are joined."""

import dataclasses
import logging
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config.record import ExportRecord
from keras_transformer.serving.errors import invalid
from keras_transformer.utils.errors import one_line

log = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]

DOCUMENT = "translate_document"
"""The signature that divides a text into sentences, and is not run in parts."""
_BYTES_PER_TOKEN = 8  # As a rule, fewer.
_BYTES_PER_VALUE = 16  # Of an output, with its copies.
_KEPT = 0.7  # How much earlier runs count.
_MOST_STRETCH = 1.5  # How much longer than other parts the last one may take.
_DOCUMENT_TEXTS = 4  # How many of the longest that the model reads a document may have.
_DOCUMENT_SENTENCES = 64  # That it runs at a time.
_PIECE_BYTES = 200  # Of a sentence that is too long.
_SENTENCE_END = re.compile(
    rb"(?:[.!?]|\xe2\x80\xa6)[^\sA-Za-z0-9]{0,8}\s+(?![\sa-z])"
    rb"|\xe3\x80\x82|\xef\xbd\xa1|\xef\xbc[\x81\x9f]|[\n\r]|\xe2\x80[\xa8\xa9]"
)
"""Of texts in UTF-8; an estimate of what `translate_document` does."""


class Pace:
    """How long a signature takes for a number of rows and the bytes of the longest.

    On a CPU, time grows with their product. On a GPU, a row takes nearly the time of a batch, and
    a run may take longer: a shorter one would leave the GPU idle.

    Args:
        on_gpu: Whether the signature runs on a GPU.

    >>> pace = Pace()
    >>> for _ in range(30):
    ...     pace.add(rows=10, longest_bytes=10, seconds=0.1)
    >>> round(pace.seconds(20, 10), 2), pace.is_slow(24, 10), pace.is_slow(26, 10)
    (0.2, False, True)
    """

    def __init__(self, on_gpu: bool = False) -> None:
        # What a run takes besides its rows, in rows, and the seconds of a slow run.
        self._fixed, self._most = (128, 1.0) if on_gpu else (0, 0.25)
        # Rows times bytes, and what they took: a guess, until something has run.
        self._units, self._seconds = 5e4 if on_gpu else 2000.0, 0.5

    def seconds(self, rows: float, longest_bytes: int) -> float:
        """Return how long a run is expected to take."""
        return (self._fixed + rows) * longest_bytes * self._seconds / self._units

    def is_slow(self, rows: float, longest_bytes: int) -> bool:
        """Return whether a run would keep other requests waiting."""
        return self.seconds(rows, longest_bytes) > self._most

    def add(self, rows: int, longest_bytes: int, seconds: float) -> None:
        """Learn from a run."""
        self._units = _KEPT * self._units + (self._fixed + rows) * longest_bytes
        self._seconds = _KEPT * self._seconds + seconds


@dataclasses.dataclass(frozen=True)
class RowNeeds:
    """What an export of this package needs for a row, and which of its signatures have rows."""

    signatures: frozenset[str] = frozenset()
    """Signatures whose rows do not depend on each other; none of other models."""
    most_tokens: int = 1 << 32
    """Tokens that are read of a text."""
    target_tokens: tuple[float, float] = 0.0, 0.0
    """Tokens of a translation: a number, and what is added for each token of the text."""
    search_bytes: tuple[float, float] = 0.0, 0.0
    """Bytes of the search: its candidates, and what its cache adds for each token."""

    @classmethod
    def read(cls, version: Path) -> "RowNeeds":
        """Return the needs of a version; the defaults if no record says how it was exported.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as version:
        ...     RowNeeds.read(Path(version)).signatures
        frozenset()
        """
        try:
            record = ExportRecord.read(version)
            model, decoding = record.model, record.decoding
            beams, most_tokens = decoding["beam_size"], int(decoding["max_source_length"])
            target = float(decoding["extra_length"]), float(decoding.get("length_factor", 1))
            if decoding["max_length"]:
                target = float(decoding["max_length"]), 0.0
            layers = model.get("num_decoder_layers") or model["num_layers"]
            vocabulary = model["target_vocab_size"] or model["vocab_size"]
            memory = 4.0 * beams * 3 * vocabulary, 4.0 * beams * 2 * layers * model["d_model"]
        except FileNotFoundError:  # The model is not from this package.
            return cls()
        except (KeyError, TypeError, ValueError) as error:
            log.warning(
                "%s does not say how large the model is (%s): its requests run as a whole and "
                "without a limit of memory; export it again",
                version / ExportRecord.FILE,
                one_line(error),
            )
            return cls()
        return cls(frozenset(record.signatures), most_tokens, target, memory)

    def of_text(self, text_bytes: int) -> tuple[int, float]:
        """Return the most tokens of a text and its translation, and the memory of the search."""
        source = min(text_bytes + 1, self.most_tokens)
        target = self.target_tokens[0] + self.target_tokens[1] * source
        return math.ceil(max(source, target)), self.search_bytes[0] + self.search_bytes[1] * target


class Estimate:
    """What the rows of a signature take, and so, how many of them a part has.

    Attributes:
        most_bytes: The bytes of the longest text that it reads to its end, as a rule.
        heads: The layers times heads of the attention that it returns, or 1.
        pace: How fast it is.

    Args:
        signature: Its name.
        about: Its description, a `SignatureDef`.
        needs: What a row needs.
        on_gpu: Whether it runs on a GPU.
    """

    def __init__(self, signature: str, about: Any, needs: RowNeeds, on_gpu: bool = False):
        self._signature, self._needs, self.pace = signature, needs, Pace(on_gpu)
        self._is_document = signature == DOCUMENT
        texts = _DOCUMENT_TEXTS if self._is_document else 1
        self.most_bytes = texts * needs.most_tokens * _BYTES_PER_TOKEN
        self._shapes = [[d.size for d in info.tensor_shape.dim] for info in about.outputs.values()]
        # [B, layers, H, T, S]; the other sizes are -1.
        weights = (each for each in self._shapes if len(each) == 5 and each[3] == each[4] == -1)
        self.heads = max((math.prod(max(n, 1) for n in each) for each in weights), default=1)

    def read_bytes(self, inputs: Arrays) -> np.ndarray:
        """Return the bytes that are read of each row.

        Raises:
            ServingError: If a document is so long that it would keep others waiting.
        """
        found = row_bytes(inputs)
        if self._is_document and (longest_bytes := max(found, default=0)) > self.most_bytes:
            raise invalid(
                f"A text of {self._signature} may have {self.most_bytes} bytes, received "
                f"{longest_bytes}. Break it between sentences."
            )
        return np.minimum(found, self.most_bytes)

    def is_row_wise(self, inputs: Arrays) -> bool:
        """Return whether the rows of a request may be run apart, as those of our exports.

        Rows of other models may depend on each other.
        """
        rows = {len(array) for array in inputs.values() if array.ndim == 1}
        return self._signature in self._needs.signatures and len(rows) == 1

    def sentences(self, text: bytes) -> tuple[int, int]:
        """Return about how many sentences a document has, and the bytes of the longest."""
        sizes = [len(sentence) for sentence in _SENTENCE_END.split(text)]
        pieces = (size // _PIECE_BYTES for size in sizes if size > self._needs.most_tokens)
        return len(sizes) + sum(pieces), max(sizes)

    def memory(self, longest_bytes: int, rows: int = 1) -> int:
        """Return the most bytes of memory that rows of a row-wise signature take.

        Args:
            longest_bytes: The bytes of the longest row; of documents, of their longest sentence.
            rows: How many there are; of documents, their sentences.
        """
        rows = min(rows, _DOCUMENT_SENTENCES) if self._is_document else rows
        tokens, search_bytes = self._needs.of_text(longest_bytes)
        values = sum(
            math.prod(tokens if size < 0 else size for size in shape[1:]) for shape in self._shapes
        )
        return rows * (int(search_bytes) + _BYTES_PER_VALUE * values)

    def next_rows(
        self, inputs: Arrays, read_bytes: np.ndarray, most_rows: int, most_memory: int
    ) -> int:
        """Return how many rows the next part has.

        Args:
            inputs: The rows that are left.
            read_bytes: The bytes that are read of each of them.
            most_rows: The rows that it may have.
            most_memory: The bytes of memory that it may take.

        Raises:
            ServingError: If even one row needs too much memory.
        """
        # A small part after a large one would take longer than both together.
        is_last = not self.pace.is_slow(len(read_bytes) / _MOST_STRETCH, max(read_bytes))
        stretch = _MOST_STRETCH if is_last else 1
        longest_bytes = 0
        searched = searched_bytes = 0  # Of a document, its sentences, and the longest of them.
        for row, size in enumerate(read_bytes[:most_rows].tolist()):
            longest_bytes = max(longest_bytes, size)
            count, size = self.sentences(inputs["text"][row]) if self._is_document else (1, size)
            searched, searched_bytes = searched + count, max(searched_bytes, size)
            memory = self.memory(searched_bytes, searched)
            is_slow = self.pace.is_slow((row + 1) / stretch, longest_bytes)
            if row and (is_slow or memory > most_memory):
                return row
            if memory > most_memory:
                raise invalid(
                    f"A text of {longest_bytes} bytes may need {memory >> 20} MiB for "
                    f"{self._signature}, and a request may take {most_memory >> 20} MiB here. Send "
                    "a shorter text."
                )
        return min(len(read_bytes), most_rows)


def row_bytes(inputs: Arrays) -> np.ndarray:
    """Return the bytes of each row of a request: those of its longest string.

    >>> row_bytes({"text": np.array([b"ab", b""], object), "x": np.zeros([2, 3])}).tolist()
    [3, 3]
    """
    rows = max((len(array) for array in inputs.values() if array.ndim), default=1)
    longest = np.ones(rows, int)
    for array in inputs.values():
        if array.ndim != 1 or array.dtype != object:
            longest = np.maximum(longest, array.size // max(rows, 1))
        elif len(array) == rows:
            longest = np.maximum(longest, [len(text) for text in array])
    return longest


def join(parts: Sequence[Arrays]) -> dict[str, np.ndarray]:
    """Return the outputs of a request from those of its parts.

    Rows of an export are padded to the longest of their batch, with "" or 0, and so they are here.

    >>> join([{"x": np.ones([1, 1])}, {"x": np.ones([1, 2])}])["x"].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    if len(parts) == 1:
        return dict(parts[0])
    return {name: _join([part[name] for part in parts]) for name in parts[0]}


def _join(arrays: Sequence[np.ndarray]) -> np.ndarray:
    shape = np.max([array.shape for array in arrays], axis=0)
    shape[0] = sum(map(len, arrays))
    padding = b"" if arrays[0].dtype == object else 0
    joined, start = np.full(shape, padding, arrays[0].dtype), 0
    for array in arrays:
        end = start + len(array)
        joined[(slice(start, end), *map(slice, array.shape[1:]))] = array
        start = end
    return joined
