r"""Properties of Java, of which a translation replaces the values alone.

They are read as `java.util.Properties` does: a line goes on after a `\` at its end, blanks around
the first `=`, `:` or blank are none of the value, and a `\` gives back what it hides.
"""

import contextlib
import json
import re
from collections.abc import Callable

_CONTINUED = r"\\(?:\r\n?|\n)[ \t\f]*"
_BLANKS = rf"(?:{_CONTINUED}|[ \t\f])*"
_LINE = re.compile(
    r"(?P<before>\ufeff?[ \t\f]*"
    rf"(?:[#!][^\r\n]*|(?:{_CONTINUED}|\\[^\r\n]|[^\\\r\n=: \t\f])*{_BLANKS}[=:]?{_BLANKS}))"
    rf"(?P<value>(?:{_CONTINUED}|\\[^\r\n]|[^\\\r\n])*)"
)
_ESCAPE = re.compile(rf"{_CONTINUED}|(?P<codes>(?:\\u[0-9a-fA-F]{{4}})+)|\\(?P<sign>.)", re.DOTALL)
_SIGNS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = {"\\": r"\\", **{sign: rf"\{name}" for name, sign in _SIGNS.items()}}


def change_properties(content: bytes, change: Callable[[str], str]) -> bytes:
    r"""Return properties whose values are changed, in the encoding of their source.

    Args:
        content: The properties.
        change: Returns what is written for a value, which is not empty. A value that it leaves as
            it is stays as it is written; another one is written in one line.

    Raises:
        ValueError: If the content is in UTF-16, or a `\u` in a value is not that of a character.

    >>> change_properties(b"# A note\r\nkey : one \\\r\n  two\r\n", str.upper)
    b'# A note\r\nkey : ONE TWO\r\n'
    """
    encoding = _find_encoding(content)

    def replace(found: re.Match[str]) -> str:
        old = _ESCAPE.sub(_read, found["value"])
        new = change(old) if old else old
        return found["before"] + (found["value"] if new == old else _write(new, encoding))

    return _LINE.sub(replace, content.decode(encoding)).encode(encoding)


def _find_encoding(content: bytes) -> str:
    """Return the encoding of properties, which is Latin-1 for Java before version 9."""
    if b"\0" in content:
        raise ValueError("it has a byte of 0, as UTF-16 does; convert it to UTF-8")
    for encoding in ("ascii", "utf-8"):
        with contextlib.suppress(UnicodeDecodeError):
            content.decode(encoding)
            return encoding
    return "latin-1"


def _read(escape: re.Match[str]) -> str:
    if escape["codes"]:
        return str(json.loads(f'"{escape[0]}"'))  # Which joins pairs of surrogates.
    if escape["sign"] == "u":
        raise ValueError(r"a \u must have four digits, as in \u00e9; write \\u for the letter")
    return _SIGNS.get(escape["sign"], escape["sign"] or "")


def _write(text: str, encoding: str) -> str:
    """Return how a value is written, also if the program that reads it knows no UTF-8."""

    def escape(found: re.Match[str]) -> str:
        try:
            found[0].encode(encoding)
        except UnicodeEncodeError:
            return json.dumps(found[0])[1:-1]
        return _ESCAPES.get(found[0], found[0])

    # Blanks before a value are none of it, nor is a second sign.
    return re.sub("^[ =:]", r"\\\g<0>", re.sub(r"[\\\t\n\r\f]|[^\x00-\x7f]", escape, text))
