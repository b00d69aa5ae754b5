"""Vocabulary files of Marian and Hugging Face: which piece has which id."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_ENTRY = re.compile(r"(?:\? )?(?P<key>\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|.*?)\s*:\s*(?P<id>\d+)\s*")
_ESCAPES = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_NAMED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_NAMED |= {"e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"}


def read_vocabulary(path: Path) -> list[str]:
    """Return the pieces of a vocabulary in the order of their ids.

    Args:
        path: A .json file of pieces with their ids, a .yml or .yaml file likewise, as Marian writes
            it, or a text file with a piece per line, which may be followed by a tab and a score.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If an entry is malformed, or the ids are not those from 0 on, once each.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. It has the ids of all pieces; restore it.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8: {error}. Restore it.") from error
    if path.suffix == ".json":
        return _by_id(path, _read_json(path, text).items())
    if path.suffix in (".yml", ".yaml"):
        return _by_id(path, _read_yaml(path, text))
    lines = text.removesuffix("\n").split("\n")
    return _by_id(path, ((line.split("\t")[0], i) for i, line in enumerate(lines)))


def _read_json(path: Path, text: str) -> Mapping[str, int]:
    try:
        ids = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is not JSON, or is damaged: {error}. Restore it.") from error
    if not isinstance(ids, dict) or not all(type(i) is int for i in ids.values()):
        raise ValueError(f"{path} must map pieces to integers.")
    return ids


def _read_yaml(path: Path, text: str) -> Iterable[tuple[str, int]]:
    """Yield pieces and ids. YAML itself would read some pieces as numbers, dates or nothing."""
    # A long key has its id on the next line.
    text = re.sub(r"(?m)^(\? .*)\n\s*:", r"\1 :", text)
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line in ("---", "..."):
            continue
        found = _ENTRY.fullmatch(line)
        if found is None:
            raise ValueError(
                f"{path}, entry {number}: must be a piece, a colon and its id, received {line!r}."
            )
        yield _unquote(found["key"]), int(found["id"])


def _unquote(key: str) -> str:
    if len(key) > 1 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    if len(key) > 1 and key[0] == key[-1] == '"':
        return _ESCAPES.sub(_unescape, key[1:-1])
    return key


def _unescape(match: re.Match) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else _NAMED.get(match[4], match[4])


def _by_id(path: Path, entries: Iterable[tuple[str, int]]) -> list[str]:
    pieces: dict[int, str] = {}
    for piece, i in entries:
        if i in pieces:
            raise ValueError(
                f"{path} must give each id once, received {i} for {pieces[i]!r} and {piece!r}."
            )
        pieces[i] = piece
    if missing := sorted(set(range(len(pieces))) - set(pieces))[:3]:
        raise ValueError(
            f"{path} must have the ids 0 to {len(pieces) - 1}; it lacks {missing}. Restore it."
        )
    names = [pieces[i] for i in range(len(pieces))]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path} must have each piece once, received {repeated!r} again.")
    return names
