"""Properties of Java: values and encodings, compared with what Java reads."""

import random

import pytest

from keras_transformer.documents.properties import change_properties
from tests.helpers.documents import each, kept_texts, texts_of, translated


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        ("ascii", r"\u00e9\u0448\ud83d\ude00"),
        ("latin-1", "\xe9" + r"\u0448\ud83d\ude00"),
        ("utf-8", "\xe9\u0448\U0001f600"),
    ],
)
def test_properties_keep_their_encoding(encoding, expected, tmp_path):
    content = "# A note.\na=Caf\xe9\n" if encoding != "ascii" else "a=Cafe\n"
    [text] = kept_texts(tmp_path, ".properties", content.encode(encoding))
    assert text == content.partition("=")[2].strip()
    new = each(lambda _: "\xe9\u0448\U0001f600")
    found, _ = translated(tmp_path, ".properties", content.encode(encoding), new)
    assert found.decode(encoding) == content.replace(text, expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a=Hello\n".encode("utf-16"), "it has a byte of 0, as UTF-16 does; convert it to UTF-8"),
        (rb"a=C:\users", r"or is damaged: a \\u must have four digits, as in"),
    ],
)
def test_properties_that_java_does_not_read_are_refused(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        texts_of(tmp_path, ".properties", content)


def read_properties(text):
    """Return the keys and values that `java.util.Properties.load` reads, sign by sign."""
    lines, line, place = [], "", 0
    while place < len(text):  # The lines of its LineReader, without comments and line breaks.
        while place < len(text) and text[place] in " \t\f":
            place += 1
        start = place
        while place < len(text) and text[place] not in "\r\n":
            place += 1
        part = text[start:place]
        place += 2 if text[place : place + 2] == "\r\n" else 1
        if not line and part[:1] in ("", "#", "!"):
            continue
        is_continued = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        # A lone backslash goes on with a line that may be no comment.
        line += (part[:-1] or "\0") if is_continued else part
        if not is_continued or place >= len(text):
            lines.append(line.replace("\0", ""))
            line = ""
    found = []
    for line in lines:
        end = 0
        while end < len(line) and line[end] not in "=: \t\f":
            end += 2 if line[end] == "\\" else 1
        start = end
        while start < len(line) and line[start] in " \t\f":
            start += 1
        start += line[start : start + 1] in ("=", ":")
        while start < len(line) and line[start] in " \t\f":
            start += 1
        found.append((line[:end], unescape_java(line[start:])))
    return found


def unescape_java(text):
    units, place = [], 0
    while place < len(text):
        sign, size = text[place], 1
        if sign == "\\":
            sign, size = text[place + 1 : place + 2], 2
            if sign == "u":
                sign, size = chr(int(text[place + 2 : place + 6], 16)), 6
            else:
                sign = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(sign, sign)
        units.append(sign)
        place += size
    return "".join(units).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def test_values_of_properties_are_those_that_java_reads():
    choose = random.Random(0)
    signs = ["a", "b", "=", ":", " ", "\t", "\\", "\\\\", "\n", "\r\n", "\r", "#", "!", "\f", "\\ "]
    signs += [r"\u00e9", r"\uD83D\uDE00", r"\n", "\u0448", "key=", "\\\n ", "\n\n"]
    for _ in range(3000):
        content = "".join(choose.choices(signs, k=choose.randrange(16)))
        assert change_properties(content.encode(), str) == content.encode()
        new = "".join(choose.choices([*signs, "\u00e9", "\U0001f600"], k=5))
        found = change_properties(content.encode(), new.__add__).decode()
        expected = [(key, value and new + value) for key, value in read_properties(content)]
        assert read_properties(found) == expected, content


def test_only_values_of_properties_change(tmp_path):
    content = (
        "\ufeff# A note.\r\n\r\n  key : One\r\nlead=\\ of \\\r\n\tit\r\nicon=\\uD83D\\uDE00\r\n\r\n"
        "empty=\r\nsp\tA\r\n! C:\\users\r\n"
    )
    kept_texts(tmp_path, ".properties", content)
    found, _ = translated(tmp_path, ".properties", content, each(str.upper))
    assert found == content.replace("One", "ONE").replace("of \\\r\n\tit", "OF IT")
