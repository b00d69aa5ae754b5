"""Vocabulary files of Hugging Face, Marian and SentencePiece as lists of pieces."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_JSON_ENTRY = re.compile(r'("(?:[^"\\]|\\.)*")\s*:\s*([^\s,}]*)', re.DOTALL)
_YAML_KEY = re.compile(
    r"""(?P<double>"(?:[^"\\]|\\.)*") | (?P<single>'(?:[^']|'')*') | (?P<plain>.*)""",
    re.VERBOSE | re.DOTALL,
)
_YAML_ID = re.compile(r" *:[ \t]+(\S+)[ \t]*")
_ID = re.compile(r"0|[1-9][0-9]{0,8}")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPED = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f"},
    **{"r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\"},
    **{"N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
# A plain scalar of YAML does not begin with these, or holds these.
_NOT_PLAIN = re.compile(r"""[\[\]{},#&*!|>%@`"']|[-?:]\s|.*(?::\s|\s\#)""", re.DOTALL)


class _Entry(NamedTuple):
    piece: str
    id: str
    line: int


class _BadLine(ValueError):
    """A rule that a line breaks: `args` are the number of the line and the message."""


def _unescape(quoted: str) -> str:
    def character(match: re.Match) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape not in _ESCAPED:
            raise ValueError(f"unknown escape \\{escape}")
        return _ESCAPED[escape]

    # JSON writes a character beyond U+FFFF as two surrogates.
    text = _ESCAPE.sub(character, quoted[1:-1])
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _json_entries(text: str) -> Iterator[_Entry]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise _BadLine(error.lineno, f"must be JSON ({error.msg})") from error
    except (RecursionError, ValueError) as error:
        raise _BadLine(1, f"must map pieces to ids ({error})") from error
    if not isinstance(content, dict):
        raise _BadLine(1, f"must map pieces to ids, received a {type(content).__name__}")
    line, end = 1, 0
    for match in _JSON_ENTRY.finditer(text):
        line, end = line + text.count("\n", end, match.start()), match.start()
        yield _Entry(json.loads(match[1]), match[2], line)


def _yaml_key(text: str, number: int) -> str:
    match = _YAML_KEY.fullmatch(text.strip(" "))
    assert match  # Anything is at least plain.
    try:
        if match["double"] is not None:
            return _unescape(match["double"])
    except (OverflowError, ValueError) as error:
        raise _BadLine(number, f"must hold escapes of YAML ({error})") from error
    if match["single"] is not None:
        return match["single"][1:-1].replace("''", "'")
    if not match["plain"] or _NOT_PLAIN.match(match["plain"]):
        raise _BadLine(number, f"must have quotes around {match['plain']!r}")
    return match["plain"]


def _yaml_entries(text: str) -> Iterator[_Entry]:
    """Read lines instead of YAML, whose readers turn keys such as `yes`, `1e3` and `~` to values.

    A line is `PIECE: ID`; a long piece takes two lines, `? PIECE` and `: ID`.
    """
    long_key: str | None = None
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.removesuffix("\r")
        if long_key is not None:
            match = _YAML_ID.fullmatch(line)
            if match is None:
                raise _BadLine(number, f"must be `: ID` after `? PIECE`, received {line[:80]!r}")
            yield _Entry(long_key, match[1], number)
            long_key = None
        elif line.strip(" \t") and line not in ("---", "...") and not line.startswith("#"):
            if line.startswith("? "):
                long_key = _yaml_key(line[2:].rstrip(" \t"), number)
                continue
            # A regular expression for all of a line would take the square of its length.
            text = line.rstrip(" \t")
            last = text.replace("\t", " ").rpartition(" ")[2]
            key = text.removesuffix(last).rstrip(" \t")
            if not key.endswith(":"):
                raise _BadLine(number, f"must be `PIECE: ID`, received {line[:80]!r}")
            yield _Entry(_yaml_key(key[:-1], number), last, number)
    if long_key is not None:
        raise _BadLine(number, f"must be `: ID` for the piece {long_key!r}, received the end")


def _text_entries(text: str) -> Iterator[_Entry]:
    lines = text.removesuffix("\n").split("\n") if text else []
    if all(line.endswith("\r") for line in lines):
        lines = [line[:-1] for line in lines]
    scored = bool(lines) and "\t" in lines[0]  # As SentencePiece writes it.
    for number, line in enumerate(lines, start=1):
        piece = line
        if scored:
            piece, tab, score = line.rpartition("\t")
            try:
                float(score if tab else "")
            except ValueError as error:
                raise _BadLine(number, f"must be a piece, a tab and a score: {line!r}") from error
        if not piece:
            raise _BadLine(number, "must hold a piece, received an empty one")
        yield _Entry(piece, str(number - 1), number)


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _BadLine(line, "must be UTF-8") from error


def _pieces(entries: Iterator[_Entry]) -> list[str]:
    by_id: dict[int, _Entry] = {}
    lines: dict[str, int] = {}
    for piece, text, line in entries:
        if _ID.fullmatch(text) is None:
            raise _BadLine(line, f"must have an integer id from 0, received {text[:80]!r}")
        number = int(text)
        if number in by_id:
            raise _BadLine(
                line, f"must have its own id, received {number} of line {by_id[number].line}"
            )
        if piece in lines:
            raise _BadLine(
                line, f"must have its own piece, received {piece!r} of line {lines[piece]}"
            )
        try:
            piece.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _BadLine(line, f"must hold Unicode characters, received {piece!r}") from error
        by_id[number] = _Entry(piece, text, line)
        lines[piece] = line
    if not by_id:
        raise _BadLine(1, "must hold a piece, but the file has no entries")
    for expected, found in enumerate(sorted(by_id)):
        if found != expected:
            line = by_id[found].line
            raise _BadLine(line, f"must follow id {expected}, which is missing; received {found}")
    return [by_id[number].piece for number in range(len(by_id))]


def read_vocabulary(path: str | os.PathLike) -> list[str]:
    """Return the pieces of a vocabulary file in the order of their ids.

    Args:
        path: A `.json` file of Hugging Face or a `.yml` or `.yaml` file of Marian, which map
            pieces to ids, or any other text file with a piece in each line and, as SentencePiece
            writes it, a tab and a score.

    Returns:
        The pieces: the piece at index 3 has id 3.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not UTF-8, or an id from 0 on is not there exactly once.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "vocab.yml"
    ...     _ = path.write_text('"</s>": 0\\nyes: 2\\n"\\\\xE4": 1\\n', encoding="utf-8")
    ...     read_vocabulary(path)
    ['</s>', 'ä', 'yes']
    """
    path = Path(path)
    data = path.read_bytes()
    try:
        text = _decode(data)
        is_json = path.suffix == ".json"
        if path.suffix in (".yml", ".yaml"):
            is_json = text.lstrip().startswith("{")  # YAML includes JSON.
            return _pieces(_json_entries(text) if is_json else _yaml_entries(text))
        return _pieces(_json_entries(text) if is_json else _text_entries(text))
    except _BadLine as error:
        line, message = error.args
        raise ValueError(f"{path}, line {line}: {message}.") from error


def read_spm(path: Path) -> tuple[bytes, list[str]]:
    """Read a SentencePiece model, and return it with its pieces.

    Raises:
        FileNotFoundError: If it does not exist.
        ValueError: If it is damaged.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as schema

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. It splits text into pieces; restore it.")
    model = path.read_bytes()
    try:
        pieces = [piece.piece for piece in schema.ModelProto.FromString(model).pieces]
    except (DecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a SentencePiece model, or is damaged. Restore it."
        ) from error
    return model, pieces
