"""A corpus in shards: files that are read line by line, and answered shard by shard."""

import gzip
import itertools
import lzma
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.data.sources import stream_bytes
from keras_transformer.utils.checksums import check_files, record_files, sample_checksum
from keras_transformer.utils.files import read_json, whole_file, write_json
from keras_transformer.utils.progress import progress

BAD_LINES = "not_utf8.tsv"
"""The file that lists lines that are not UTF-8: file and line number."""
LOCK = "corpus.lock"
"""The file that a run holds a lock on; see `locked`."""
_RECORD = "corpus.json"


class Shard(NamedTuple):
    """Successive lines of a file of a corpus."""

    name: str
    """The file with the answers."""
    source: Path
    """The file of the corpus."""
    first: int
    """Number of lines before it in that file."""
    size: int
    """Number of its lines."""


class ShardedCorpus:
    """The files of a corpus, and a directory with an answer to each of their lines.

    The answers of `news.txt.gz` are in `news-00000-of-00012.txt.gz` and so on, in the order of its
    lines. A shard appears when it is complete, and `SHA256SUMS` has its checksum, so that a run
    that was stopped continues with the shards that are missing. `corpus.json` says what the run
    began with. A line that is not UTF-8 counts as empty and is listed in `not_utf8.tsv`.

    Attributes:
        shards: All shards, in order.
        finished: The names of those that are complete.
        bad_lines: Number of lines that are not UTF-8.

    Args:
        paths: The files: text, gzip or xz.
        directory: Where the answers go.
        lines: Number of lines of a shard; the last of a file has fewer.
        facts: What else the answers depend on.

    Raises:
        FileNotFoundError: If a file does not exist.
        ValueError: If two files have the same name, a file is damaged, or the directory holds
            answers to other text, of another model or with other options.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("one\\ntwo\\nthree\\n")
    >>> corpus = ShardedCorpus([folder / "a.txt"], folder / "upper", lines=2, facts={})
    >>> for shard, lines in corpus.missing():
    ...     corpus.write(shard, [line.upper() for line in lines])
    >>> sorted(path.name for path in (folder / "upper").glob("*.txt"))
    ['a-00000-of-00002.txt', 'a-00001-of-00002.txt']
    >>> (folder / "upper" / "a-00000-of-00002.txt").read_text()
    'ONE\\nTWO\\n'
    """

    def __init__(
        self, paths: Sequence[Path], directory: Path, *, lines: int, facts: Mapping[str, Any]
    ):
        self.directory = directory
        names = [path.name for path in paths]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"Files of a corpus must have different names, received {', '.join(twice[:3])} "
                "more than once. Rename them, or translate each folder to a directory of its own."
            )
        inputs = {path.name: sample_checksum(path) for path in paths}
        self._claim({"inputs": inputs, "lines_per_shard": lines, **facts})
        self.shards: list[Shard] = []
        bad: list[str] = []
        with progress("counting", "lines") as advance:
            for path in paths:
                count = 0
                for count, line in enumerate(stream_bytes(path), start=1):
                    if not line.isascii() and _text(line) is None:
                        bad.append(f"{path.name}\t{count}\n")
                    advance(1)
                self.shards += _divide(path, count, lines)
        self.bad_lines = len(bad)
        if bad:
            with whole_file(directory / BAD_LINES) as temporary:
                temporary.write_text("".join(bad), encoding="utf-8")
        check_files(directory, remedy="Remove it to translate its lines again")
        self.finished = {each.name for each in self.shards if (directory / each.name).exists()}
        record_files(directory, sorted(self.finished))  # A kill may come between file and record.

    def _claim(self, facts: Mapping[str, Any]) -> None:
        """Record what the answers depend on, or compare it with the record."""
        record = self.directory / _RECORD
        if not record.exists():
            if any(path.name != LOCK for path in self.directory.glob("*")):
                raise ValueError(
                    f"{self.directory} must be new, empty, or the directory of the same run; it "
                    f"has other files and no {_RECORD}. Choose another directory."
                )
            self.directory.mkdir(parents=True, exist_ok=True)
            write_json(record, facts)
            return
        before = read_json(record)
        changed = [name for name in facts if facts[name] != before.get(name)]
        if "inputs" in changed:
            now, was = facts["inputs"], before.get("inputs", {})
            files = [name for name in {**was, **now} if now.get(name) != was.get(name)]
            raise ValueError(
                f"{self.directory} holds answers to other text: {', '.join(files[:3])} "
                f"{'differ' if files[1:] else 'differs'}. Give the files that it began with, or "
                "choose another directory."
            )
        if changed:
            was = " and ".join(f"{name} {before.get(name)}" for name in changed)
            now = " and ".join(str(facts[name]) for name in changed)
            raise ValueError(
                f"{self.directory} holds answers of a run with {was}, received {now}. Give what it "
                "began with, or choose another directory."
            )

    def missing(self) -> Iterator[tuple[Shard, list[str]]]:
        """Yield the shards that are not complete, with their lines.

        Raises:
            ValueError: If a file has become shorter, or is damaged.
        """
        for source, group in itertools.groupby(self.shards, key=lambda shard: shard.source):
            shards = list(group)
            if self.finished.issuperset(shard.name for shard in shards):
                continue
            lines = stream_bytes(source)
            for shard in shards:
                part = list(itertools.islice(lines, shard.size))
                if len(part) < shard.size:
                    raise ValueError(
                        f"{source} has changed since its lines were counted. Restore it, and give "
                        "the same command again."
                    )
                if shard.name not in self.finished:
                    yield shard, [_text(line) or "" for line in part]

    def write(self, shard: Shard, answers: Sequence[str]) -> None:
        """Write the answers to a shard's lines, without line breaks, to its file."""
        content = "".join(f"{answer}\n" for answer in answers).encode("utf-8", "surrogatepass")
        with whole_file(self.directory / shard.name) as temporary:
            temporary.write_bytes(_compressed(content, shard.name))
        record_files(self.directory, [shard.name])
        self.finished.add(shard.name)


def _text(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _divide(path: Path, count: int, lines: int) -> Iterator[Shard]:
    """Yield the shards of a file with some lines; an empty file has one."""
    firsts = range(0, max(count, 1), lines)
    stem, dot, suffixes = path.name.partition(".")
    width = max(5, len(str(len(firsts))))
    for number, first in enumerate(firsts):
        name = f"{stem}-{number:0{width}}-of-{len(firsts):0{width}}{dot}{suffixes}"
        yield Shard(name, path, first, min(lines, count - first))


def _compressed(content: bytes, name: str) -> bytes:
    """Return the content of a file with a name; the same bytes each time."""
    if name.endswith(".gz"):
        return gzip.compress(content, mtime=0)
    return lzma.compress(content) if name.endswith(".xz") else content
