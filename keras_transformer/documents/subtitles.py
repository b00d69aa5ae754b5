"""Subtitles, SubRip's and WebVTT's, of which only the lines of text in each cue change."""

import codecs
import re
from collections.abc import Callable

_NOTES = "♩♪♫♬"
CUE_TAG = rf"<(?:[vc]\.|(?:v|lang)\s)[^<>]*>|<[0-9:.]+>|\{{\\[^{{}}]+\}}|[{_NOTES}]"
r"""Tags such as `<v Anna>`, `<c.red>`, `<00:05.000>` and `{\an8}`, and notes of songs, as a regular
expression."""
_START = re.compile(rf"(?:\{{\\[^{{}}]+\}}|[{_NOTES}\s])*")
_END = _NOTES + " \t\r\n"
"""What stays before and after the text of a cue."""
_TIME = r"-?(?:\d+:)+\d+(?:[.,]\d+)?"
_TIMES = re.compile(rf"\ufeff?[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}")
"""The line that starts a cue, which may have settings after the times."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BREAK = re.compile(r"[\r\n]+")
_WESTERN = frozenset("äöüßéèêëàâçùûîïôœæñ¿¡áíóúåøãõìò’‘“”„…–—«»°½¼²³€£©®´·\xa0")
"""Signs of texts in Western languages, in lowercase."""
_MOST_WESTERN = 0.9
"""The share of them among signs that are none of ASCII, with which a text is one of those."""
_HUNGARIAN = frozenset("áéíóöúüõû")
"""The letters of Hungarian in cp1250, read in cp1252."""
_POLISH = re.compile("[³£](?=[a-z])|(?<=[a-z])¿|ñ(?![aeiouáéíóúü])")
"""Letters of Polish, likewise, where no Western language has their signs."""
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def change_subtitles(content: bytes, change: Callable[[str], str]) -> bytes:
    r"""Return subtitles with changed texts, and all else byte for byte.

    Args:
        content: A file of SubRip or WebVTT.
        change: Is given the lines of each cue as one text, and returns the new ones.

    Returns:
        The file, in UTF-8 if its encoding lacks characters of the new texts.

    Raises:
        ValueError: If it has no cue, or its encoding is not known.

    >>> change_subtitles(b"1\r\n00:00:01,000 --> 00:00:02,000 X1:9\r\nA dog.", str.upper)
    b'1\r\n00:00:01,000 --> 00:00:02,000 X1:9\r\nA DOG.'
    """
    encoding = _find_encoding(content)
    lines = _LINE.findall(content.decode(encoding)) or [""]
    is_webvtt = lines[0].lstrip("\ufeff").startswith("WEBVTT")
    if not is_webvtt and not any(map(_TIMES.match, lines)):
        raise ValueError("it has no line of times, such as 00:00:01,000 --> 00:00:02,000")
    found = "".join(_change_lines(lines, is_webvtt, change))
    if found == "".join(lines):  # Some encodings have several codes for a character.
        return content
    try:
        return found.encode(encoding)
    except UnicodeEncodeError:
        return found.encode()


def _find_encoding(content):
    for mark, name in _MARKS.items():
        if content.startswith(mark):
            return name
    try:
        content.decode()
        return "utf-8"
    except UnicodeDecodeError:
        import charset_normalizer

        results = charset_normalizer.from_bytes(content)
        if best := results.best():
            # It often takes cp1250 or another one for cp1252.
            names = {
                name for each in results for name in (each.encoding, *each.could_be_from_charset)
            }
            return "cp1252" if "cp1252" in names and _is_western(content) else best.encoding
        raise ValueError("its encoding is not known; convert it to UTF-8") from None


def _is_western(content):
    text = content.decode("cp1252", "replace").lower()
    signs = [sign for sign in text if not sign.isascii()]
    letters = set(filter(str.isalpha, signs))
    if _POLISH.search(text) or (letters & {"õ", "û"} and letters <= _HUNGARIAN):
        return False
    return sum(map(_WESTERN.__contains__, signs)) >= _MOST_WESTERN * len(signs)


def _change_lines(lines, is_webvtt, change):
    text = []
    is_inside = False
    for place, line in enumerate(lines):
        has_times = _TIMES.match(line)
        next_has_times = place + 1 < len(lines) and _TIMES.match(lines[place + 1])
        is_number = next_has_times and line.strip().isdecimal()
        if line.strip() and not has_times and not is_number and is_inside:
            text.append(line)
            continue
        yield from _change_text(text, change, _end(lines[0]))
        text = []
        yield line
        # After an empty line, SubRip may go on; in WebVTT, there are identifiers, notes and styles.
        is_inside = bool(has_times) or (is_inside and not is_webvtt)
    yield from _change_text(text, change, _end(lines[0]))


def _change_text(lines, change, end):
    """Yield the text of a cue, which an empty line would end."""
    if not lines:
        return
    cue = "\n".join(line.rstrip("\r\n") for line in lines)
    before = _START.match(cue)[0]
    old = cue.removeprefix(before).rstrip(_END)
    after = cue[len(before) + len(old) :]
    new = before + (change(old).strip("\r\n") if old else "") + after
    if new == cue:
        yield from lines
        return
    yield end.join(line for line in _BREAK.split(new) if line.strip()) + _end(lines[-1])


def _end(line):
    return line.removeprefix(line.rstrip("\r\n"))
