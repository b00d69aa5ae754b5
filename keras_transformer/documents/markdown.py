"""Emphasis and links of Markdown as tags, which a translation keeps and nests.

What the parser of Markdown would change is hidden from it: entities, escaped pipes, and the lines
that start a note.
"""

import html
import re
from typing import NamedTuple

IMAGE = r"!\[[^\[\]]*\]\((?:[^()]|\([^()]*\))*\)"
"""An image of Markdown, as a regular expression."""
_MARKS = {"**": "B", "__": "S", "*": "I", "_": "E"}
# Unlike in HTML, names are capitals. With an attribute, a tag is one wherever it is.
_INLINE = re.compile(
    r"(?P<code>(?<!`)`+[^`]+`+)"
    r"|(?P<tag><[^<>]*>)"
    rf"|(?P<image>{IMAGE})"
    rf"|\[(?P<text>(?:{IMAGE}|[^\[\]])+)\]"
    r"(?P<link>\((?:[^()<>]|\([^()<>]*\))*\)|\[[^\[\]<>]*\])"
    r"|(?<![\w\\])(?P<mark>\*\*|__|\*|_)(?=[^\s*_])(?P<inner>.{1,1000}?)(?<=\S)(?P=mark)(?!\w)",
    re.DOTALL,
)
_TAGS = re.compile(r"(<[BSIE] is=\"\">|<A href=\"[^<>]*\">|</[ABSIE]>)")
_LONGEST = 8192
"""Characters of a paragraph whose marks are found; no other thread runs while they are."""

# Unicode's characters for internal use, which are in no text.
_AMPERSAND, _PIPE, NOTE = "\ufdd0", "\ufdd1" * 2, "\ufdd2"
"""What stands for `&`, for an escaped `|` in its width, and ends the line that starts a note."""
_ENTITY = re.compile(r"&(?=(?P<name>[A-Za-z][A-Za-z0-9]*|#[0-9]+|#[xX][0-9A-Fa-f]+);)")
_NOTES = (
    (
        re.compile(r"(?m)^(?=.*\n[ \t]*>)(.*>[ \t]*\[!\w+\].*)\n([ \t]*>[ \t>]*)"),
        rf"\1{NOTE}\n\2\n\2",
    ),
    (re.compile(r"(?m)^([ \t]*(?:!!!|\?\?\?\+?|===)[ \t]+\S.*)\n(?=[ \t]{4})"), rf"\1{NOTE}\n\n"),
)
"""`> [!NOTE]`, and `!!! note` of other dialects, whose text is indented."""


class _Opened(NamedTuple):
    """A tag that starts emphasis or a link."""

    tag: str
    place: int
    size: int
    """The length of the text before it."""


def hide(text: str, notes: bool = False) -> str:
    r"""Return Markdown whose escapes, and notes if so, its parser leaves as they are.

    >>> text = r"Use &lt;b&gt; or a \| b, caf&eacute;."
    >>> show(hide(text)) == text, "&lt;" in hide(text)
    (True, False)
    """

    def replace(found):
        character = html.unescape(f"&{found['name']};")
        return "&" if character.isalpha() or character in "'\u2019" else _AMPERSAND

    for pattern, rewrite in _NOTES if notes else ():
        text = pattern.sub(rewrite, text)
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\\|", rf"\1{_PIPE}", text)
    return _ENTITY.sub(replace, text)


def show(text: str) -> str:
    """Return the Markdown that `hide` returned, or a part or translation of it, as it was."""
    text = re.sub(rf"{NOTE}\n[ \t>]*\n", "\n", text)
    return text.replace(_AMPERSAND, "&").replace(_PIPE, r"\|")


def to_tags(text: str) -> str:
    """Return a paragraph of Markdown with tags in capitals for its emphasis and links.

    One that is very long stays as it is.

    >>> to_tags("A **bold** [link](https://keras.io) and `*code*`.")
    'A <B is="">bold</B> <A href="(https://keras.io)">link</A> and `*code*`.'
    """

    def replace(found):
        if found["link"]:
            link = found["link"].replace("&", "&amp;").replace('"', "&quot;")
            return f'<A href="{link}">{to_tags(found["text"])}</A>'
        if found["mark"]:
            tag = _MARKS[found["mark"]]
            return f'<{tag} is="">{to_tags(found["inner"])}</{tag}>'
        return found[0]

    return text if len(text) > _LONGEST else _INLINE.sub(replace, text)


def from_tags(text: str) -> str:
    """Return a paragraph of Markdown for one that `to_tags` returned, or its translation.

    White space at the edges of emphasis, which would end it, is moved out.

    >>> from_tags('Ein <A href="(https://keras.io)"> <B is="">fetter</B> Link</A>.')
    'Ein  [**fetter** Link](https://keras.io).'
    """
    marks = {tag: mark for mark, tag in _MARKS.items()}
    pieces = _TAGS.split(text)
    opened: list[_Opened] = []
    counts = dict.fromkeys([*marks, "A"], 0)
    size = 0
    for place, piece in enumerate(pieces):
        if place % 2 == 0:
            size += len(piece.strip())
        elif not piece.startswith("</"):
            opened.append(_Opened(piece[1], place, size))
            counts[piece[1]] += 1
        elif counts[piece[2]]:
            while (last := opened.pop()).tag != piece[2]:  # Without an end, it stays as it is.
                counts[last.tag] -= 1
            counts[last.tag] -= 1
            _write_marks(pieces, last.place, place, marks.get(last.tag), size == last.size)
            size += last.tag == "A"
    return "".join(pieces)


def _write_marks(pieces, start, end, mark, is_empty):
    """Replace two tags by a mark or, without one, by those of a link."""
    first, last = ("", "") if is_empty else (mark, mark)
    if mark is None:
        link = pieces[start].removeprefix('<A href="').removesuffix('">')
        first, last = "[", "]" + link.replace("&quot;", '"').replace("&amp;", "&")
    inside = pieces[start + 1].lstrip()
    blank = pieces[start + 1].removesuffix(inside)
    pieces[start], pieces[start + 1] = blank + first, inside
    inside = pieces[end - 1].rstrip()
    pieces[end], pieces[end - 1] = last + pieces[end - 1].removeprefix(inside), inside
