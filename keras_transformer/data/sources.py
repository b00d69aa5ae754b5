"""Parallel text in files: two aligned files, or one of pairs, also compressed."""

import codecs
import functools
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from keras_transformer.data.catalogs import is_catalog, stream_catalog
from keras_transformer.utils.files import as_path, import_of_corpora

_MAGICS = {"gzip": b"\x1f\x8b", "xz": b"\xfd7zXZ", "zstd": b"\x28\xb5\x2f\xfd"}
_MESSAGES = b"<?xml", b"<!DOCTYPE", b"<TS", b"<tmx", b"<xliff", b"msgid"
"""How a line of a file of messages begins, soon after the start."""
_FIRST_LINES = 1000
_RECORDS = ".jsonl", ".ndjson", ".parquet"


class Corpus(NamedTuple):
    """Parallel text that can be read more than once."""

    name: str
    """Its name in reports."""
    pairs: Callable[[], Iterator[tuple[str, str]]]
    """Starts to read the text."""
    tag: str = ""
    """The tag that its sources get, such as de for >>de<<; none if empty."""
    direction: str = ""
    """Its languages, such as eng_Latn-deu_Latn, if a model of many languages needs them."""

    @property
    def kind(self) -> str:
        """What the same pair of another corpus must share to be the same training example."""
        return f"{self.tag} {self.direction}"


def read_lines(path: str | os.PathLike) -> list[str]:
    r"""Return the lines of a UTF-8 file, plain, gzip, xz or zstd.

    Only \n and \r\n end a line; every other character, including U+2028, is kept. A byte order
    mark is dropped.

    Args:
        path: The file. Compression is detected from its content.

    Returns:
        The lines, without their ends.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not UTF-8 (with the line number), or its compression is damaged.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.en")
    >>> _ = path.write_text("a dog\na cat\n", encoding="utf-8")
    >>> read_lines(path)
    ['a dog', 'a cat']
    """
    return list(stream_lines(path))


def read_pairs(
    source_path: str | os.PathLike, target_path: str | os.PathLike | None = None
) -> list[tuple[str, str]]:
    """Return sentence pairs from two aligned files, or from one TSV file or file of messages.

    A line of a TSV file is a source sentence, a tab and a target sentence. An empty line is a pair
    of empty sentences, as in aligned files. For .po, XLIFF, TMX and Qt's .ts, see
    `stream_catalog`.

    Args:
        source_path: The file of source sentences; without `target_path`, a file of pairs.
        target_path: The file of their translations, line by line.

    Returns:
        Pairs `(source, target)`.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If aligned files differ in their number of lines or one of them has both
            languages, a line of a TSV file does not have exactly one tab, a file is one of JSON
            lines or Parquet, or `read_lines` or `stream_catalog` refuses it.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "pairs.tsv")
    >>> _ = path.write_text("a dog\\tein Hund\\na cat\\teine Katze\\n", encoding="utf-8")
    >>> read_pairs(path)
    [('a dog', 'ein Hund'), ('a cat', 'eine Katze')]
    """
    return list(stream_pairs(source_path, target_path))


def stream_pairs(
    source_path: str | os.PathLike, target_path: str | os.PathLike | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the sentence pairs that `read_pairs` returns, without holding the text in memory.

    It takes the same arguments and raises the same errors, when the reading gets there: files of
    different lengths are noticed at the end of the shorter one.
    """
    for path in (source_path, target_path):
        if path is not None and plain_name(path).lower().endswith(_RECORDS):
            raise ValueError(
                f"{path} must have sentences as lines, or be a file of pairs; received JSON lines "
                "or Parquet. Write its columns to a TSV file."
            )
    if target_path is None:
        if is_catalog(source_path):
            check_rereadable(source_path)
            return stream_catalog(existing_file(source_path))
        return _tab_separated(source_path)
    return _parallel(source_path, target_path)


def _parallel(
    source_path: str | os.PathLike, target_path: str | os.PathLike
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two files whose lines are translations of each other."""
    for path in (source_path, target_path):
        if not as_path(path).is_file():  # A pipe cannot be read twice.
            continue
        has_columns = plain_name(path).lower().endswith(".tsv") and any(
            "\t" in line for line in islice(stream_lines(path), _FIRST_LINES)
        )
        if has_columns or _has_messages(path):
            kind = "tab-separated columns" if has_columns else "a file of messages"
            raise ValueError(
                f"with a target, {path} must have a sentence in each line, received {kind}, which "
                "has both languages. Leave the target out. If each of your files has one language, "
                "write its sentences to a file of lines."
            )
    sources, targets = stream_lines(source_path), stream_lines(target_path)
    for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
        if source is None or target is None:
            longer = number + sum(1 for _ in (targets if source is None else sources))
            counts = (number - 1, longer) if source is None else (longer, number - 1)
            raise ValueError(
                f"parallel files must have the same number of lines, received {counts[0]} in "
                f"{source_path} and {counts[1]} in {target_path}. Check that line n of one "
                "translates line n of the other and that neither was cut off."
            )
        yield source, target


def _tab_separated(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a file of tab-separated sentences."""
    if _has_messages(path):
        raise ValueError(
            f"files of messages must not be compressed, received {path}. Decompress it first."
        )
    for number, line in enumerate(stream_lines(path), start=1):
        columns = line.split("\t") if line else ["", ""]
        if len(columns) != 2:
            advice = (
                "Remove the line or its extra columns."
                if len(columns) > 2
                else "If the translations are in another file, give the target file too "
                "(data.train_target for training)."
            )
            raise ValueError(
                f"{path}, line {number}: a line must be a source sentence, one tab and its "
                f"translation, received {len(columns) - 1} tabs. {advice}"
            )
        yield columns[0], columns[1]


def plain_name(path: str | os.PathLike) -> str:
    """Return the name of a file without the suffix of its compression.

    >>> plain_name("text/all.en.gz"), plain_name("all.en")
    ('all.en', 'all.en')
    """
    return functools.reduce(str.removesuffix, (".gz", ".xz", ".zst"), Path(path).name)


def _has_messages(path: str | os.PathLike) -> bool:
    """Return whether a file, which may be compressed, has messages; .ts may be Tsonga too."""
    if not is_catalog(plain_name(path)):
        return False
    start = islice(stream_bytes(path), _FIRST_LINES)
    return any(line.lstrip().startswith(_MESSAGES) for line in start)


def existing_file(path: str | os.PathLike) -> Path:
    """Return the path of a text file, or raise a FileNotFoundError that says what to do."""
    path = as_path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"{path} must be a text file, but does not exist. Check the path; relative paths start "
            f"at {Path.cwd()}."
        )
    return path


def check_rereadable(*paths: str | os.PathLike) -> None:
    """Raise an error for a path of a pipe or a device, which can be read only once.

    Args:
        *paths: Paths of text that is read more than once. A missing one is left to `existing_file`.
    """
    for path in map(as_path, paths):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise ValueError(
                f"{path} is read more than once and must be a file, received a pipe or a device. "
                "Write its text to a file first."
            )


def stream_lines(path: str | os.PathLike) -> Iterator[str]:
    """Yield the lines of a file; see `read_lines`."""
    for number, line in enumerate(stream_bytes(path), start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            is_wide = number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
            raise ValueError(
                f"{path}, line {number}: text must be UTF-8, received byte "
                f"0x{error.object[error.start]:02x} at position {error.start} of the line. Convert "
                f"the file, for example with iconv -f {'utf-16' if is_wide else 'latin1'} -t utf-8."
            ) from error


def stream_bytes(path: str | os.PathLike) -> Iterator[bytes]:
    """Yield the lines of a file without their ends, UTF-8 or not; see `read_lines`."""
    path = existing_file(path)
    # A pipe can be opened only once, and files of object stores have no peek. Binary files break
    # lines at \n alone, where text mode also breaks at a lone \r.
    with (
        path.open("rb") as opened,
        io.BufferedReader(cast(io.RawIOBase, opened)) as raw,
        _decompressed(raw, kind := _kind(raw)) as file,
    ):
        number = 0
        damages = [EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError]
        damages += [OSError] if kind == "zstd" else []
        try:
            for number, line in enumerate(file, start=1):
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield line.removesuffix(b"\n").removesuffix(b"\r")
        except tuple(damages) as error:
            raise ValueError(
                f"{path} must be a complete {kind} file, received damaged data after line {number} "
                f"({error}). Download or compress it again."
            ) from error


def _kind(file: "io.BufferedReader[Any]") -> str:
    start = file.peek(max(map(len, _MAGICS.values())))
    return next((name for name, magic in _MAGICS.items() if start.startswith(magic)), "text")


def _decompressed(file: IO[bytes], kind: str) -> Any:
    if kind == "zstd":
        return io.BufferedReader(import_of_corpora("pyarrow").CompressedInputStream(file, "zstd"))
    return gzip.open(file) if kind == "gzip" else lzma.open(file) if kind == "xz" else file
