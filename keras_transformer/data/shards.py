"""A corpus in shards: files that are read line by line, and answered shard by shard."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from keras_transformer.data.formats import Answers, CorpusFile, compressed, has_columns
from keras_transformer.utils.checksums import (
    check_files,
    read_checksums,
    record_files,
    sample_checksum,
)
from keras_transformer.utils.files import is_remote, read_json, whole_file, write_json
from keras_transformer.utils.progress import progress

BAD_LINES = "bad_lines.tsv"
"""The file that lists lines without a text: file and line number."""
LOCK = "corpus.lock"
"""The file that a run holds a lock on; see `locked`."""
_RECORD = "corpus.json"


class Shard(NamedTuple):
    """Successive lines of a file of a corpus."""

    name: str
    """The file with the answers."""
    source: CorpusFile
    """The file of the corpus."""
    size: int
    """Number of its lines."""
    rows: Any = None
    """What the file has of them, while they are answered; text needs none."""


class ShardedCorpus:
    """The files of a corpus, and a directory with an answer to each of their lines.

    The answers of `news.txt.gz` are in `news-00000-of-00012.txt.gz` and so on, in the order of its
    lines. A shard appears when it is complete, and `SHA256SUMS` has its checksum, so that a run
    that was stopped continues with the shards that are missing. `corpus.json` says what the run
    began with. A line without a text, such as one that is not UTF-8, counts as empty and is listed
    in `bad_lines.tsv`. In an object store, a shard without a checksum is made again.

    Attributes:
        shards: All shards, in order.
        finished: The names of those that are complete.
        bad_lines: Number of lines without a text.

    Args:
        files: The files; see `corpus_file`.
        directory: Where the answers go.
        lines: Number of lines of a shard; the last of a file has fewer.
        facts: What else the answers depend on.

    Raises:
        ValueError: If two files have the same name, a file is damaged, or the directory holds
            answers to other text, of another model or with other options.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.txt").write_text("one\\ntwo\\nthree\\n")
    >>> from keras_transformer.data.formats import corpus_file
    >>> files = [corpus_file(folder / "a.txt")]
    >>> corpus = ShardedCorpus(files, folder / "upper", lines=2, facts={})
    >>> for shard, lines in corpus.missing():
    ...     corpus.write(shard, {"upper": [line.upper() for line in lines]})
    >>> sorted(path.name for path in (folder / "upper").glob("*.txt"))
    ['a-00000-of-00002.txt', 'a-00001-of-00002.txt']
    >>> (folder / "upper" / "a-00000-of-00002.txt").read_text()
    'ONE\\nTWO\\n'
    """

    def __init__(
        self,
        files: Sequence[CorpusFile],
        directory: Path,
        *,
        lines: int,
        facts: Mapping[str, Any],
    ):
        self.directory = directory
        self._lines = lines
        names = [file.path.name for file in files]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"Files of a corpus must have different names, received {', '.join(twice[:3])} "
                "more than once. Rename them, or translate each folder to a directory of its own."
            )
        inputs = {file.path.name: sample_checksum(file.path) for file in files}
        facts = {"inputs": inputs, "lines_per_shard": lines, **facts}
        self._compare(facts)
        self.shards: list[Shard] = []
        bad: list[str] = []
        with progress("counting", "lines") as advance:
            for file in files:
                sizes: list[int] = []
                for rows in file.groups(lines):
                    texts = enumerate(file.texts(rows), start=1 + sum(sizes))
                    bad += [f"{file.path.name}\t{n}\n" for n, text in texts if text is None]
                    sizes.append(len(rows))
                    advance(len(rows))
                self.shards += _divide(file, sizes)
        if not (directory / _RECORD).exists():
            directory.mkdir(parents=True, exist_ok=True)
            write_json(directory / _RECORD, facts)
        for path in directory.glob("writing-*"):  # Of a process that was killed.
            path.unlink()
        self.bad_lines = len(bad)
        if bad:
            with whole_file(directory / BAD_LINES) as temporary:
                temporary.write_text("".join(bad), encoding="utf-8")
        check_files(directory, remedy="Remove it to translate its lines again")
        recorded = read_checksums(directory)
        there = {path.name for path in directory.glob("*-of-*")}
        self.finished = {shard.name for shard in self.shards if shard.name in there}
        if is_remote(directory):
            self.finished.intersection_update(recorded)
        else:  # They are complete, and a kill may come between file and record.
            record_files(directory, sorted(self.finished.difference(recorded)))

    def _compare(self, facts: Mapping[str, Any]) -> None:
        """Compare what the answers depend on with the record, if there is one."""
        check_directory(self.directory)
        record = self.directory / _RECORD
        if not record.exists():
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
        for file, group in itertools.groupby(self.shards, key=lambda shard: shard.source):
            shards = list(group)
            if self.finished.issuperset(shard.name for shard in shards):
                continue
            groups = file.groups(self._lines)
            for shard in shards:
                rows = next(groups, ())
                if len(rows) != shard.size:
                    raise ValueError(
                        f"{file.path} has changed since its lines were counted. Restore it, and "
                        "give the same command again."
                    )
                if shard.name not in self.finished:
                    kept = shard._replace(rows=rows if has_columns(file.path.name) else None)
                    yield kept, [text or "" for text in file.texts(rows)]

    def write(self, shard: Shard, answers: Answers) -> None:
        """Write the answers to a shard of `missing` to its file.

        Args:
            shard: The shard.
            answers: New columns by name, each with a value for each line; text has only the first,
                whose values are lines.
        """
        content = shard.source.content(shard.rows, answers)
        with whole_file(self.directory / shard.name) as temporary:
            temporary.write_bytes(compressed(content, shard.name))
        record_files(self.directory, [shard.name])
        self.finished.add(shard.name)


def check_directory(directory: Path) -> None:
    """Check that a directory is new, empty or the one of a corpus.

    Raises:
        ValueError: If it has other files.
    """
    names = {path.name for path in directory.glob("*")}
    if _RECORD not in names and names - {LOCK}:
        raise ValueError(
            f"{directory} must be new, empty, or the directory of the same run; it has other files "
            f"and no {_RECORD}. Choose another directory."
        )


def _divide(file: CorpusFile, sizes: Sequence[int]) -> Iterator[Shard]:
    """Yield the shards of a file with groups of some sizes."""
    stem, dot, suffixes = file.path.name.partition(".")
    width = max(5, len(str(len(sizes))))
    for number, size in enumerate(sizes):
        name = f"{stem}-{number:0{width}}-of-{len(sizes):0{width}}{dot}{suffixes}"
        yield Shard(name, file, size)
