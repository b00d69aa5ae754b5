"""Requests in parts: how many rows a part has, and how the outputs of parts are joined."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from keras_transformer.config.record import ExportRecord

Arrays = Mapping[str, np.ndarray]

_BYTES_PER_TOKEN = 8  # As a rule, fewer.
_KEPT = 0.7  # How much earlier runs count.


class Pace:
    """How long a signature takes for a number of rows and the bytes of the longest.

    On a CPU, time grows with their product. On a GPU, a row takes nearly the time of a batch, and
    a run may take longer: a shorter one would leave the GPU idle.

    Args:
        on_gpu: Whether the signature runs on a GPU.

    >>> pace = Pace()
    >>> for _ in range(30):
    ...     pace.add(rows=10, longest=10, seconds=0.1)
    >>> round(pace.seconds(20, 10), 2), pace.is_slow(24, 10), pace.is_slow(26, 10)
    (0.2, False, True)
    """

    def __init__(self, on_gpu: bool = False) -> None:
        # What a run takes besides its rows, in rows, and the seconds of a slow run.
        self._fixed, self._most = (128, 1.0) if on_gpu else (0, 0.25)
        # A guess, until something has run.
        self._units, self._seconds = 5e4 if on_gpu else 2000.0, 0.5

    def seconds(self, rows: float, longest: int) -> float:
        """Return how long a run is expected to take."""
        return (self._fixed + rows) * longest * self._seconds / self._units

    def is_slow(self, rows: float, longest: int) -> bool:
        """Return whether a run would keep other requests waiting."""
        return self.seconds(rows, longest) > self._most

    def add(self, rows: int, longest: int, seconds: float) -> None:
        """Learn from a run."""
        self._units = _KEPT * self._units + (self._fixed + rows) * longest
        self._seconds = _KEPT * self._seconds + seconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """What an export of this package needs for a row, and which of its signatures have rows."""

    signatures: frozenset[str]
    """Signatures whose rows do not depend on each other."""
    longest: int
    """Tokens that are read of a text."""
    target: tuple[float, float]
    """Tokens of a translation: a number, and what is added for each token of the text."""
    memory: tuple[float, float]
    """Bytes of the search: its candidates, and what its cache adds for each token."""

    @classmethod
    def read(cls, version: Path) -> "Sizes | None":
        """Return the sizes of a version; None if its record does not say how it was exported.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as version:
        ...     Sizes.read(Path(version))
        """
        try:
            record = ExportRecord.read(version)
            model, decoding = record.model, record.decoding
            beams, longest = decoding["beam_size"], int(decoding["max_source_length"])
            target = float(decoding["extra_length"]), float(decoding.get("length_factor", 1))
            if decoding["max_length"]:
                target = float(decoding["max_length"]), 0.0
            layers = model.get("num_decoder_layers") or model["num_layers"]
            vocabulary = model["target_vocab_size"] or model["vocab_size"]
            memory = 4.0 * beams * 3 * vocabulary, 4.0 * beams * 2 * layers * model["d_model"]
        except (FileNotFoundError, KeyError, TypeError, ValueError):
            return None
        signatures = frozenset(record.signatures)
        return cls(signatures=signatures, longest=longest, target=target, memory=memory)

    @property
    def most_bytes(self) -> int:
        """The bytes that are read of a text, as a rule."""
        return self.longest * _BYTES_PER_TOKEN

    def of_row(self, length: int) -> tuple[int, float]:
        """Return the most tokens of a text of a given size and its translation, and the memory."""
        source = min(length + 1, self.longest)
        target = self.target[0] + self.target[1] * source
        return math.ceil(max(source, target)), self.memory[0] + self.memory[1] * target


def lengths(inputs: Arrays) -> np.ndarray:
    """Return the length of each row of a request: the bytes of its longest string.

    >>> lengths({"text": np.array([b"ab", b""], object), "x": np.zeros([2, 3])}).tolist()
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
