"""Encoded text on disk: written once, in steps that survive a kill, and memory-mapped."""

import collections
import contextlib
import fcntl
import functools
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from keras_transformer.data.cleaning import CleaningRules, log_report
from keras_transformer.data.encoding import (
    EncodedChunk,
    EncodedPairs,
    Map,
    chunked,
    encode_chunk,
)
from keras_transformer.data.filters import Part, TextFilters
from keras_transformer.data.languages import tag_sources
from keras_transformer.data.sources import Corpus
from keras_transformer.utils.checksums import FILE, check_files, record_files
from keras_transformer.utils.files import is_remote, read_json, write_json
from keras_transformer.utils.progress import progress

if TYPE_CHECKING:
    from keras_transformer.text import Tokenizer

_LOGGER = logging.getLogger(__name__)

_FORMAT = 1
_LOCK = "writing.lock"
_DIGITS = 16
_CHUNKS_PER_STEP = 32
"""Chunks between two records, about 260,000 pairs: what a kill may cost."""


def digest(facts: Mapping[str, Any]) -> str:
    """Return a name for what is made of some facts, such as the paths and sizes of text files.

    >>> digest({"text": "train.tsv"}) == digest({"text": "valid.tsv"})
    False
    """
    text = json.dumps({**facts, "format": _FORMAT}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def encode_to_files(
    corpora: Sequence[Corpus],
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    rules: CleaningRules,
    directory: Path,
    validation: Sequence[tuple[str, str]] = (),
    languages: Sequence[Sequence[str]] = (),
    mapped: Map = map,
) -> tuple[EncodedPairs, list[dict[str, Any]]]:
    """Encode text into memory-mapped files, or use the files that are there.

    The caller chooses a directory for this text, these tokenizers and rules, and no others. After a
    kill, the next call continues after the last record, which comes every 260,000 pairs. A call in
    another process waits until the files are complete. Complete files get checksums, which every
    later call verifies.

    Args:
        corpora: The text.
        tokenizers: Of source and target.
        rules: Which pairs to drop.
        directory: Directory of the files: tokens of 2 bytes (4 if the vocabulary has more than
            65,536), where each sentence begins in 8 bytes, record.json, and checksums.
        validation: The validation text, for the filter `in_validation`.
        languages: Those of each corpus; see `encode_pairs`.
        mapped: Applies a function to parts of the text; the files do not depend on it.

    Returns:
        The pairs, one corpus after another, and a report on each corpus: its "name", the pairs
        "read" and "kept", and those "dropped", by reason.

    Raises:
        OSError: If the files cannot be written.
        ValueError: If no pair is left, or the text or a file is damaged.
    """
    if not directory.exists():
        directory.mkdir(parents=True, exist_ok=True)
    files = _Files(directory, tuple(_dtype(tokenizer.vocab_size) for tokenizer in tokenizers))
    record = files.record()
    if record["complete"]:  # The directory need not be writable.
        _LOGGER.info("using the encoded text in %s", directory)
        if not (directory / FILE).exists():  # It was killed before, or is of an earlier version.
            with contextlib.suppress(OSError):
                files.record_checksums()
        check_files(directory, remedy="Delete it, and the text is encoded again")
    else:
        with locked(directory / _LOCK):
            for path in directory.glob("writing-*"):  # Of a process that was killed.
                path.unlink()
            record = files.record()  # Another process may have completed it.
            if not record["complete"]:
                _encode(corpora, tokenizers, rules, files, record, validation, languages, mapped)
    reports = record["corpora"]
    dropped = collections.Counter[str]()
    for report in reports:
        dropped.update(report["dropped"])
    log_report(rules, sum(report["kept"] for report in reports), dropped)
    return files.open(), reports


def _encode(
    corpora: Sequence[Corpus],
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    rules: CleaningRules,
    files: "_Files",
    record: dict[str, Any],
    validation: Sequence[tuple[str, str]],
    languages: Sequence[Sequence[str]],
    mapped: Map,
) -> None:
    """Encode the text that the record lacks, and complete the record."""
    if languages:  # A corpus without its own has those of the model.
        named = zip(corpora, map("-".join, languages), strict=True)
        corpora = [corpus._replace(direction=direction) for corpus, direction in named]
    reports = record["corpora"]
    filters = TextFilters(rules.filters, corpora, validation, mapped)
    is_repeated = np.zeros(0, bool)
    if rules.drop_duplicates:
        _LOGGER.info("looking for duplicates")
        is_repeated = filters.duplicates(corpora)
    if done := sum(report["read"] for report in reports):
        _LOGGER.info("continuing to encode after %s pairs", f"{done:,}")
    first = 0
    with files.appending(record) as append, progress("encoding", "pairs") as advance:
        for number, corpus in enumerate(corpora):
            if number == len(reports):
                reports.append({"name": corpus.name, "read": 0, "kept": 0, "dropped": {}})
            report = reports[number]
            advance(report["read"])
            codes = languages[number] if languages else ()
            encode = functools.partial(_encoded, tokenizers, rules, codes)
            rest = _parts(corpus, number, first, report["read"], filters, is_repeated)
            for count, encoded in enumerate(mapped(encode, rest), start=1):
                append(encoded)
                size = len(encoded) + encoded.dropped.total()
                report["read"] += size
                report["kept"] += len(encoded)
                report["dropped"] = {
                    reason: report["dropped"].get(reason, 0) + dropped
                    for reason, dropped in encoded.dropped.items()
                }
                if count % _CHUNKS_PER_STEP == 0:
                    files.write_record(record)
                advance(size)
            first += report["read"]
            files.write_record(record)
        record["complete"] = True
        files.write_record(record)
    files.record_checksums()


def _parts(
    corpus: Corpus,
    number: int,
    before: int,
    done: int,
    filters: TextFilters,
    is_repeated: np.ndarray,
) -> Iterator[tuple[Part, str, np.ndarray | bool]]:
    """Yield the pairs of a corpus after those that are done, for `_encoded`."""
    first = before + done
    for chunk in chunked(itertools.islice(corpus.pairs(), done, None)):
        part = is_repeated[first : first + len(chunk)] if len(is_repeated) else False
        yield filters.part(chunk, number, first), corpus.tag, part
        first += len(chunk)


def _encoded(
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    rules: CleaningRules,
    languages: Sequence[str],
    given: tuple[Part, str, np.ndarray | bool],
) -> EncodedChunk:
    """Filter, tag and encode a part of the text."""
    part, tag, is_repeated = given
    tagged = list(tag_sources(part.pairs, tag)) if tag else part.pairs
    return encode_chunk(tagged, tokenizers, rules, is_repeated, part.found(), languages)


def _dtype(vocab_size: int) -> np.dtype:
    return np.dtype(np.uint16 if vocab_size <= 2**16 else np.int32)


@dataclass
class _Files:
    """The files of one text. Each is a plain array; the record says how much of it is valid."""

    directory: Path
    dtypes: tuple[np.dtype, ...]

    def __post_init__(self) -> None:
        self._open: list[IO[bytes]] = []
        self._ends = [0, 0]

    @property
    def path(self) -> Path:
        """The path of the record."""
        return self.directory / "record.json"

    def paths(self) -> list[Path]:
        """Return the paths of the source ids and offsets, then of the target ids and offsets."""
        kinds = itertools.product(("source", "target"), ("ids", "offsets"))
        return [self.directory / ".".join(kind) for kind in kinds]

    def sizes(self, record: Mapping[str, Any]) -> list[int]:
        """Return the sizes of the files in bytes, as far as a record says."""
        kept = sum(report["kept"] for report in record["corpora"])
        offsets = (kept + 1) * np.dtype(np.int64).itemsize
        ids = [n * kind.itemsize for n, kind in zip(record["tokens"], self.dtypes, strict=True)]
        return [ids[0], offsets, ids[1], offsets]

    def record(self) -> dict[str, Any]:
        """Return the record, or a new one if there is none that fits the files."""
        new = {"format": _FORMAT, "complete": False, "tokens": [0, 0], "corpora": []}
        if not self.path.exists():
            return new
        try:
            record = read_json(self.path)
            sizes = zip(self.paths(), self.sizes(record), strict=True)
            has_all = all(file.stat().st_size >= size for file, size in sizes)
            if has_all and record["format"] == _FORMAT and isinstance(record["complete"], bool):
                return record
        except (KeyError, TypeError, ValueError, FileNotFoundError):
            pass
        _LOGGER.warning("the encoded text in %s is damaged and made again", self.directory)
        return new

    def write_record(self, record: dict[str, Any]) -> None:
        """Write the record, after what it says is on the disk."""
        for file in self._open:
            file.flush()
            os.fsync(file.fileno())
        record["tokens"] = list(self._ends)
        write_json(self.path, record)

    def record_checksums(self) -> None:
        """Write the checksums of complete files."""
        record_files(self.directory, [path.name for path in (*self.paths(), self.path)])

    @contextmanager
    def appending(self, record: dict[str, Any]) -> Iterator[Callable[[EncodedChunk], None]]:
        """Yield a function that appends pairs to the files, after what the record says."""
        self._ends = list(record["tokens"])
        if not record["corpora"]:
            # They may be mapped elsewhere.
            for path in (self.directory / FILE, self.path, *self.paths()):
                path.unlink(missing_ok=True)
        with ExitStack() as stack:
            self._open = [stack.enter_context(open(path, "ab")) for path in self.paths()]
            for file, size in zip(self._open, self.sizes(record), strict=True):
                file.truncate(size if record["corpora"] else 0)
            if not record["corpora"]:
                for file in self._open[1::2]:
                    file.write(np.zeros(1, np.int64).tobytes())
            try:
                yield self._append
            finally:
                self._open = []

    def _append(self, chunk: EncodedChunk) -> None:
        for side, (ids, counts) in enumerate(chunk.sides):
            ends = self._ends[side] + np.cumsum(counts, dtype=np.int64)
            self._open[2 * side].write(ids.astype(self.dtypes[side]).tobytes())
            self._open[2 * side + 1].write(ends.tobytes())
            self._ends[side] += len(ids)

    def open(self) -> EncodedPairs:
        """Return the pairs over memory-mapped arrays."""
        kinds = [self.dtypes[0], np.int64, self.dtypes[1], np.int64]
        # Plain arrays over the map: indexing np.memmap makes more of these slow objects.
        maps = (
            np.asarray(np.memmap(path, kind, mode="r"))
            for path, kind in zip(self.paths(), kinds, strict=True)
        )
        return EncodedPairs(*maps)


def is_encoded_text(path: Path) -> bool:
    """Return whether a path is a directory that `encode_to_files` made, with a name by `digest`."""
    is_named = len(path.name) == _DIGITS and set(path.name) <= set("0123456789abcdef")
    return is_named and path.is_dir() and (path / _LOCK).exists()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from writing the same files while the block runs.

    An object store has no locks.
    """
    if is_remote(path):
        yield
        return
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _LOGGER.info("waiting for another process that writes to %s", path.parent)
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # A file system without locks.
            _LOGGER.warning("%s has no locks: write there with one process only", path.parent)
        with contextlib.closing(file):
            yield
