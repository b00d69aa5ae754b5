"""Formats of corpora: text, JSON lines and Parquet, by the names of their files."""

import gzip
import itertools
import json
import lzma
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from keras_transformer.data.sources import check_rereadable, existing_file, stream_bytes
from keras_transformer.utils.files import import_of_corpora

_COMPRESSIONS = ".gz", ".xz", ".zst"
_JSON_LINES = ".jsonl", ".ndjson"
_LINES_FOR_COLUMN = 100_000
"""Lines of JSON, of which one must have the column of the text."""
_TEXT_TYPES = "string", "large_string", "string_view", "dictionary<values=string"

Answers = Mapping[str, Sequence[Any]]
"""New columns by name; text has the first one only."""


class CorpusFile(Protocol):
    """A file whose rows are read in groups, and written again with answers."""

    @property
    def path(self) -> Path:
        """Its path or address."""

    def groups(self, size: int) -> Iterator[Any]:
        """Yield groups of rows, all of the same size but the last; an empty file has one."""

    def texts(self, rows: Any) -> list[str | None]:
        """Return the text of each row, None for one without."""

    def content(self, rows: Any, answers: Answers) -> bytes:
        """Return the content of a file of some rows with answers, not compressed."""


def has_columns(name: str) -> bool:
    """Return whether a file has columns, by its name.

    >>> has_columns("news.jsonl.gz"), has_columns("news.parquet"), has_columns("news.txt.gz")
    (True, True, False)
    """
    return _plain(name).endswith((*_JSON_LINES, ".parquet"))


def corpus_file(path: str | Path, column: str | None = None, new: Sequence[str] = ()) -> CorpusFile:
    """Return a file of a corpus, without reading it.

    Args:
        path: Its path or address.
        column: The column with the text, for JSON lines and Parquet.
        new: The columns of the answers, which it must not have.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If its format needs a column, or has none, or it is a pipe.
    """
    path = existing_file(path)
    check_rereadable(path)
    if has_columns(path.name) and column is None:
        raise ValueError(
            f"{path} has columns, and one of them is the text. Give its name with --column."
        )
    if column is not None and not has_columns(path.name):
        raise ValueError(
            f"--column is for JSON lines (.jsonl) and Parquet (.parquet), received {path}. Leave "
            "--column out, or translate such files on their own."
        )
    if column is None:
        return _Text(path)
    kind = _Parquet if _plain(path.name).endswith(".parquet") else _JsonLines
    return kind(path, column, tuple(new))


def compressed(content: bytes, name: str) -> bytes:
    """Return the content of a file with a name; the same bytes each time.

    >>> compressed(b"a", "a.txt"), gzip.decompress(compressed(b"a", "a.txt.gz"))
    (b'a', b'a')
    """
    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    if name.endswith(".zst"):
        return import_of_corpora("pyarrow").compress(content, codec="zstd", asbytes=True)
    return lzma.compress(content) if name.endswith(".xz") else content


@dataclass(frozen=True)
class _Text:
    """Text, one a line."""

    path: Path

    def groups(self, size: int) -> Iterator[list[bytes]]:
        return _groups(stream_bytes(self.path), size)

    def texts(self, rows: Sequence[bytes]) -> list[str | None]:
        return [_text(row) for row in rows]

    def content(self, rows: Sequence[bytes], answers: Answers) -> bytes:
        lines = next(iter(answers.values()))
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class _JsonLines:
    """Objects, one a line."""

    path: Path
    column: str
    new: tuple[str, ...]

    def groups(self, size: int) -> Iterator[list[bytes]]:
        self._check_column()
        return _groups(stream_bytes(self.path), size)

    def _check_column(self) -> None:
        names: list[str] | None = None
        for row in map(_object, itertools.islice(stream_bytes(self.path), _LINES_FOR_COLUMN)):
            if self.column in row:
                return
            names = names or list(row)
        if names is not None:
            raise ValueError(
                f"{self.path} must have a column of text, received --column {self.column} for the "
                f"columns {', '.join(names) or 'of no object'}. Give the name of one with strings."
            )

    def texts(self, rows: Sequence[bytes]) -> list[str | None]:
        found: list[str | None] = []
        for row in map(_object, rows):
            _check_new(self, row)
            text = row.get(self.column)
            found.append(text if isinstance(text, str) and _is_whole(text) else None)
        return found

    def content(self, rows: Sequence[bytes], answers: Answers) -> bytes:
        lines = []
        for row, values in zip(rows, zip(*answers.values(), strict=True), strict=True):
            line = json.dumps(dict(zip(answers, values, strict=True)), ensure_ascii=False).encode()
            # In front of its last brace, as large numbers and repeated keys would change.
            lines.append(row.rstrip()[:-1] + b", " + line[1:] if _object(row) else line)
        return b"".join(line + b"\n" for line in lines)


@dataclass(frozen=True)
class _Parquet:
    """A table, of which other columns keep their types."""

    path: Path
    column: str
    new: tuple[str, ...]

    def groups(self, size: int) -> Iterator[Any]:
        arrow, parquet = map(import_of_corpora, ("pyarrow", "pyarrow.parquet"))
        try:
            with self.path.open("rb") as stream:
                file = parquet.ParquetFile(stream)
                self._check(file.schema_arrow)
                rest = file.schema_arrow.empty_table()
                for batch in file.iter_batches(batch_size=size):
                    rest = arrow.concat_tables([rest, arrow.Table.from_batches([batch])])
                    if len(rest) >= size:
                        yield rest[:size]
                        rest = rest[size:]
                if len(rest) or not file.metadata.num_rows:
                    yield rest
        except (arrow.ArrowException, OSError) as error:
            raise ValueError(
                f"{self.path} must be a complete Parquet file that pyarrow reads, received "
                f"{error}. Download or write it again."
            ) from error

    def _check(self, schema: Any) -> None:
        _check_new(self, schema.names)
        types = {field.name: str(field.type) for field in schema}
        if not types.get(self.column, "").startswith(_TEXT_TYPES):
            columns = ", ".join(f"{name} ({kind})" for name, kind in types.items())
            raise ValueError(
                f"{self.path} must have a column of text, received --column {self.column} for the "
                f"columns {columns}. Give the name of one with the type string."
            )

    def texts(self, rows: Any) -> list[str | None]:
        arrow = import_of_corpora("pyarrow")
        values = rows[self.column].cast(arrow.large_string()).cast(arrow.large_binary())
        return [None if value is None else _text(value) for value in values.to_pylist()]

    def content(self, rows: Any, answers: Answers) -> bytes:
        arrow, parquet = map(import_of_corpora, ("pyarrow", "pyarrow.parquet"))
        for name, values in answers.items():
            kind = arrow.float64() if name.startswith("score") else arrow.string()
            kind = arrow.list_(kind) if name.endswith("s") else kind
            rows = rows.append_column(name, arrow.array(values, kind))
        with self.path.open("rb") as stream:
            metadata = parquet.read_metadata(stream)
        codec = metadata.row_group(0).column(0).compression if metadata.num_row_groups else "snappy"
        sink = arrow.BufferOutputStream()
        parquet.write_table(rows, sink, compression=codec.replace("UNCOMPRESSED", "NONE"))
        return sink.getvalue().to_pybytes()


def _groups(lines: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    """Yield lists of lines; without any, an empty one."""
    group = list(itertools.islice(lines, size))
    yield group
    while group := list(itertools.islice(lines, size)):
        yield group


def _text(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _object(line: bytes) -> dict[str, Any]:
    """Return the object of a line; one without columns for a line that is none."""
    try:
        found = json.loads(line.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_whole(text: str) -> bool:
    """Return whether a text has a UTF-8 encoding: JSON can name halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_new(file: "_JsonLines | _Parquet", names: Collection[str]) -> None:
    if taken := [name for name in file.new if name in names]:
        raise ValueError(
            f"{file.path} must not have a column of the answers, received one named "
            f"{', '.join(taken)}. Rename it, so that it is not lost."
        )


def _plain(name: str) -> str:
    """Return the name of a file without its compression."""
    return name.removesuffix(next(filter(name.endswith, _COMPRESSIONS), "")).lower()
