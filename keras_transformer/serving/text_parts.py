"""Texts in parts: what is translated, and the line breaks and tags between."""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from keras_transformer.documents.markup import TAG, WHOLE_TAG, keep_markup
from keras_transformer.serving.errors import invalid

_MOST_BREAKS = 1 << 16
_MOST_HTML = 1 << 18
"""Characters; expressions read as many in some 20 ms, in which nothing else runs."""
_LONG = 1 << 16
"""Characters of a text whose letters are not looked for."""
_TOKEN = re.compile(f"(<!--|-->|{TAG})")
_WHOLE_TAG = re.compile(WHOLE_TAG)
_TO_THE_END = " "
"""What no tag starts with."""
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"&#(?=[0-9]{8})0*([0-9]+)")
_NO_CHARACTER = 0x110000
_NAME = re.compile(r"</?([a-z][a-z0-9]*)", re.IGNORECASE)
_INLINE = frozenset(
    "a abbr b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small "
    "span strong sub sup time tt u var".split()
)
"""Tags inside a sentence; others end it."""
_KEPT = frozenset("pre script style textarea".split())


class Part(NamedTuple):
    """A part of a text."""

    text: str
    is_row: bool = False
    """Whether it is translated."""
    source: str | None = None
    """What has the tags and entities that its translation may have, if that becomes HTML."""


def check_texts(texts: Sequence[str], is_html: bool) -> None:
    """Check that the texts of a request do not have too many parts.

    Raises:
        ServingError: If they have.
    """
    if is_html:
        longest = max(map(len, texts), default=0)
        _check(longest, f"a text may have {_MOST_HTML} characters of HTML", _MOST_HTML)
        count = sum(text.count("<") + text.count(">") for text in texts)
        _check(count, f"all texts together may have {_MOST_BREAKS} < and > of tags")
    else:
        count = sum(text.count("\n") for text in texts)
        _check(count, f"all texts together may have {_MOST_BREAKS} line breaks")


def text_parts(text: str) -> list[Part]:
    """Return a text in lines; those without letters are kept.

    >>> [part.text for part in text_parts("A dog.\\n\\n  - Two men\\n") if part.is_row]
    ['A dog.', '- Two men']
    """
    first, *others = map(_line_parts, text.split("\n"))
    return [*first, *(part for line in others for part in (Part("\n"), *line))]


def html_parts(text: str, is_whole: bool) -> list[Part]:
    """Return HTML in parts; comments, scripts, styles and preformatted text are kept.

    Args:
        text: The HTML.
        is_whole: Whether a sentence is one part, with the tags in it. Otherwise each text between
            two tags is one.

    >>> [part.text for part in html_parts("<p>A <b>big</b> dog.</p>", True) if part.is_row]
    ['A <b>big</b> dog.']
    >>> [part.text for part in html_parts("<p>A <b>big</b> dog.</p>", False) if part.is_row]
    ['A', 'big', 'dog.']
    """
    return list(_html_parts(text, is_whole))


def join_parts(texts: Sequence[Sequence[Part]], translations: Iterable[str]) -> list[str]:
    """Return texts whose parts are translated.

    Args:
        texts: Their parts.
        translations: The translations of those that are rows, in their order.

    >>> join_parts([text_parts("a\\nb")], ["A", "B"])
    ['A\\nB']
    """
    left = iter(translations)

    def finish(part: Part) -> str:
        text = next(left) if part.is_row else part.text
        return text if part.source is None else keep_markup(text, part.source)

    return ["".join(map(finish, parts)) for parts in texts]


def _html_parts(text: str, is_whole: bool) -> Iterator[Part]:
    sentence: list[tuple[bool, str]] = []
    end = ""  # What ends text that is kept.
    for place, token in enumerate(_TOKEN.split(text)):
        is_tag = place % 2 == 1
        match = _NAME.match(token) if is_tag else None
        name = match[1].lower() if match else ""
        if end:
            yield Part(token)
            end = "" if is_tag and token.lower().startswith(end) else end
        elif token.startswith("<") and token != "<!--" and not _WHOLE_TAG.fullmatch(token):
            # What follows may be inside a quoted value.
            yield from _sentence_parts(sentence, is_whole)
            sentence, end = [], _TO_THE_END
            yield Part(token)
        elif not is_tag or name in _INLINE:
            sentence.append((is_tag, token))
        else:
            yield from _sentence_parts(sentence, is_whole)
            sentence = []
            yield Part(token)
            opens = name in _KEPT and not token.startswith("</")
            end = f"</{name}" if opens else "-->" if token == "<!--" else ""
    yield from _sentence_parts(sentence, is_whole)


def _sentence_parts(sentence: Sequence[tuple[bool, str]], is_whole: bool) -> Iterator[Part]:
    """Yield the parts of a sentence, whose tokens are tags or not."""
    if is_whole and any(_has_letter(_plain(token)) for is_tag, token in sentence if not is_tag):
        for part in _line_parts("".join(token for _, token in sentence), _markup):
            yield part._replace(source=part.text if part.is_row else None)
        return
    for is_tag, token in sentence:
        yield from [Part(token)] if is_tag else _line_parts(token, _plain, "")


def _line_parts(
    line: str, clean: Callable[[str], str] = str, source: str | None = None
) -> list[Part]:
    """Return a line without the white space around it, and that."""
    core = line.strip()
    text = clean(core)
    if not _has_letter(text):
        return [Part(line)]
    before, _, after = line.partition(core)
    return [Part(before), Part(text, True, source), Part(after)]


def _plain(text: str) -> str:
    """Return HTML without tags as plain text."""
    return _SPACE.sub(" ", html.unescape(_NUMBER.sub(_short_number, text)))


def _short_number(match: re.Match[str]) -> str:
    """Return the number of a character in few digits: `int` refuses thousands of them."""
    return f"&#{match[1] if len(match[1]) < 8 else _NO_CHARACTER}"


def _markup(text: str) -> str:
    """Return HTML whose only entities are those that it needs."""
    tokens = enumerate(_TOKEN.split(text))
    return "".join(
        token if place % 2 else html.escape(_plain(token), quote=False) for place, token in tokens
    )


def _has_letter(text: str) -> bool:
    return len(text) > _LONG or any(map(str.isalpha, text))


def _check(count: int, rule: str, most: int = _MOST_BREAKS) -> None:
    if count > most:
        raise invalid(f"Invalid request: {rule}, received {count}. Send less.")
