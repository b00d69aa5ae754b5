"""Emphasis and links of Markdown as tags, which a translation keeps and nests.

What the parser of Markdown would change is hidden from it: entities, escaped pipes, and the lines
that start a note.
"""

import html
import io
import itertools
import re
from collections.abc import Callable, Container
from typing import Any, NamedTuple

_ATTRIBUTES = r"\{(?::|\s*[#.])[^{}<>\n]*\}"
"""Those of a heading, paragraph or link, such as `{#install .big}`, as a regular expression."""
IMAGE = r"!\[[^\[\]]*\](?:\((?:[^()]|\([^()]*\))*\)(?:\{[^{}<>\n]*\})?|\[[^\[\]]*\])"
"""An image of Markdown, as a regular expression."""
_COMMENT = "<!--(?:[^-]|-[^-])*-->"
_FORMULA = r"\$\$[^$]+\$\$"
MARKS = rf"\[\^[^\[\]\s]+\]|{_COMMENT}|{_FORMULA}|{_ATTRIBUTES}"
"""References to footnotes, comments, formulas and attributes, as a regular expression."""
_FRONT = re.compile(
    r"\ufeff?(?:(?:[ \t]*\n)*(?:\+\+\+[ \t]*\n(?:.*\n)*?\+\+\+|---[ \t]*\n(?:.*\n)*?(?:---|\.\.\.))"
    r"[ \t]*(?:\n(?:[ \t]*\n)*|$))?"
)
"""A byte order mark and front matter of TOML or YAML, if any."""
_LABEL = re.compile(r"\[\^[^\[\]\s]+\]:\s+|\[[ xX]\]\s+|:\s+|")
"""What a footnote, a task or a definition starts with, if a text is one."""
_DIVISION = ":::"
"""What the lines around a division start with, which stay."""
_PREFIX = r"^(?:[ \t>]|[-*+][ \t]|[0-9]{1,9}[.)][ \t])*"
"""What stands before the first line of a block in quotes and lists."""
_FENCED = re.compile(
    rf"(?ms){_PREFIX}(?P<fence>`{{3,}}(?![^\n]*`)|~{{3,}}).*?(?:^[ \t>]*(?P=fence)|\Z)"
)
_DISPLAY = re.compile(
    rf"{_FENCED.pattern}|(?P<prefix>{_PREFIX})"
    r"(?P<formula>\$\$(?:[^$\n]|\$(?!\$)|\n(?![ \t>]*\n))+\$\$(?:[ \t]*\{[^{}\n]*\})?[ \t]*)$"
)
"""A formula that is a block, or code, in which there is none."""
_OTHER = re.compile(r"[ \t]*(?:>|```|~~~|(?:[-*+]|[0-9]{1,9}[.)])[ \t]+(?:\$\$|```|~~~))")
"""What starts a line that is not in the same block."""
_DEFINITION = re.compile(r"(?m)^[ \t>]*\[(?!\^)((?:[^\[\]\\]|\\.)+)\]:")
_BLOCK = re.compile(
    r"[0-9]{1,9}(?=[.)](?:\s|$))"
    r"|(?=#{1,6}(?:\s|$)|[-+*](?:\s|$)|>|```|~~~|(?:[-_*][ \t]*){3,}$)"
)
"""What would start a list, heading, quote, code or line, up to the mark to escape."""
_MARKS = {"**": "B", "__": "S", "~~": "D", "*": "I", "_": "E"}
# Unlike in HTML, names are capitals. With an attribute, a tag is one wherever it is.
_INLINE = re.compile(
    rf"(?P<code>(?<!`)`+[^`]+`+|{_FORMULA})"
    rf"|(?P<tag>{_COMMENT}|<[^<>]*>)"
    rf"|(?P<image>{IMAGE})"
    rf"|\[(?P<text>(?:{IMAGE}|\[[^\[\]]*\](?![(\[])|[^\[\]])+)\]"
    r"(?P<link>\((?:[^()<>]|\([^()<>]*\))*\)(?:\{[^{}<>\n]*\})?|\[[^\[\]<>]*\])?"
    r"|(?<![\w\\])(?P<mark>~~(?=[^\s~])|(?:\*\*|__|\*|_)(?=[^\s*_]))"
    r"(?P<inner>.{1,1000}?)(?<=\S)(?P=mark)(?!\w)",
    re.DOTALL,
)
_TAGS = re.compile(r"(<[BSDIE] is=\"\">|<A href=\"[^<>]*\">|</[ABSDIE]>)")
_LONGEST = 8192
"""Characters of a paragraph whose marks are found; no other thread runs while they are."""

# Unicode's characters for internal use, which are in no text.
_AMPERSAND, _PIPE, _NOTE, _COLON = "\ufdd0", "\ufdd1" * 2, "\ufdd2", "\ufdd3"
"""What stands for `&`, for an escaped `|` in its width, ends the line that starts a note, and is
the `:` of a footnote, which would be a link's definition if its text is one word."""
_SIGNS = {ord(" "): "\ufdd4", ord("\t"): "\ufdd5", ord("|"): "\ufdd6"}
"""What stands for the blanks before a definition, which would become one, and for `|` in text."""
_CODE = "~~~~"
"""What is around a formula, so that it is read as code."""
_ENTITY = re.compile(r"&(?=(?P<name>[A-Za-z][A-Za-z0-9]*|#[0-9]+|#[xX][0-9A-Fa-f]+);)")
_NOTES = (
    (
        re.compile(r"(?m)^(?=.*\n[ \t]*>)(.*>[ \t]*\[!\w+\].*)\n([ \t]*>[ \t>]*)"),
        rf"\1{_NOTE}\n\2\n\2",
    ),
    (
        re.compile(rf"(?m)^([ \t]*(?:!!!|\?\?\?\+?|===)[ \t]+\S.*)(?<!{_NOTE})\n(?=[ \t]{{4}})"),
        rf"\1{_NOTE}\n\n",
    ),
    (
        re.compile(
            r"(?m)^([ \t>]*[^\s>].*)\n"
            rf"(?=([ \t]{{0,3}}(?=\[\^[^\[\]\s]+\]:)|[ \t>]*(?={_DIVISION}|:[ \t]+\S"
            rf"|{_ATTRIBUTES}[ \t]*$)|[ \t]*>[ \t>]*(?==+[ \t]*$)))"
        ),
        rf"\1\n\2\n\2{_NOTE}\n\2\n",
    ),
    (
        re.compile(
            rf"(?m)({_PREFIX}(?:{_DIVISION}.*|{_ATTRIBUTES}[ \t]*)|^[ \t]*>[ \t>]*=+[ \t]*)\n"
            r"(?=([ \t>]*)[^\s>])"
        ),
        rf"\1{_NOTE}\n\2\n",
    ),
    (
        re.compile(r"(?m)^([ \t>]*:)([ \t]+)(?=\S)"),
        lambda found: found[1] + found[2].translate(_SIGNS),
    ),
    (re.compile(r"(?m)^([ \t]{0,3}\[\^[^\[\]\s]+\]):"), rf"\1{_COLON}"),
)
"""`> [!NOTE]`, `!!! note` of other dialects, footnotes, divisions and definitions; lines of
attributes; and those of `=` below a heading in a quote."""
_RULE = re.compile(r"[ \t>]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
"""What the parser takes for the line below the head of a table."""
_HTML = re.compile(r"(?m)^( {0,3}</?[A-Za-z][\w-]*(?:[\s/>].*)?\n(?:.*\S.*(?:\n|\Z))*)")
"""A block of HTML, which ends before a blank line, and in which there is no note."""


class _Opened(NamedTuple):
    """A tag that starts emphasis or a link."""

    tag: str
    place: int
    size: int
    """The length of the text before it."""


def change_markdown(renderer: Any, content: bytes, change: Callable[[str], str]) -> bytes:
    """Return a page of Markdown whose texts are changed.

    Args:
        renderer: The class of translate-toolkit that writes it.
        content: The page, in UTF-8.
        change: Returns what is written for a paragraph, heading or cell with tags of `to_tags`.
    """
    from mistletoe.block_token import Document

    end = "\r\n" if 2 * content.count(b"\r\n") > content.count(b"\n") else "\n"
    text = content.decode().replace("\r\n", "\n")
    rest = _FRONT.sub("", text, count=1)
    front = text.removesuffix(rest)
    names = _find_definitions(text)

    def callback(text, *_):
        text = text.strip()
        if text.endswith(_NOTE) or text.startswith(_DIVISION):
            return text
        text = show(text)
        label = _LABEL.match(text)[0]
        text = text.removeprefix(label)
        return hide(label + _escape_start(from_tags(change(to_tags(text, names))), text))

    # The file of translate-toolkit reads tables before all else, also those in a list or code.
    with renderer(callback, extract_code_blocks=False, no_placeholders=True) as page:
        lines = io.StringIO(hide(rest, notes=True), newline="\n")
        written = page.render(Document(lines))
    return (front + show(written)).replace("\n", end).encode()


def hide(text: str, notes: bool = False) -> str:
    r"""Return Markdown whose escapes, and notes if so, its parser leaves as they are.

    >>> text = r"Use &lt;b&gt; or a \| b, caf&eacute;."
    >>> show(hide(text)) == text, "&lt;" in hide(text)
    (True, False)
    """

    def replace(found):
        character = html.unescape(f"&{found['name']};")
        return "&" if character.isalpha() or character in "'\u2019" else _AMPERSAND

    def fence(found):
        inside = re.sub(r"[^>\t]", " ", found["prefix"] or "")
        lines = (found["formula"] or "").split("\n")[1:]
        is_block = all(x.startswith(inside) and not _OTHER.match(x, len(inside)) for x in lines)
        if found["fence"] or not is_block:
            return found[0]
        formula = f"{found['formula']}{_NOTE}"
        return f"{found['prefix']}{_CODE}{_NOTE}\n{inside}{formula}\n{inside}{_CODE}"

    def mark(part):
        for pattern, rewrite in _NOTES:
            part = pattern.sub(rewrite, part)
        return part

    if notes:
        parts = _HTML.split(_DISPLAY.sub(fence, text))
        parts[::2] = map(mark, parts[::2])
        text = "".join(parts)
    text = re.sub(r"(?<!\\)((?:\\\\)*)\\\|", rf"\1{_PIPE}", text)
    return _ENTITY.sub(replace, _hide_pipes(text) if notes else text)


def _hide_pipes(text):
    """Return Markdown that hides `|` above a line that makes it no head of a table."""
    lines = text.split("\n")
    is_table = False
    for place, (line, below) in enumerate(itertools.pairwise(lines)):
        if "|" not in line:
            is_table = False
        elif not is_table and _RULE.fullmatch(below):
            is_table = bool({"|", ":"} & {*below}) and _count_cells(line) == _count_cells(below)
            if not is_table:
                lines[place] = line.replace("|", _SIGNS[ord("|")])
    return "\n".join(lines)


def _count_cells(line):
    """Return the quotes that a row of a table is in, and its number of cells."""
    prefix = re.match(_PREFIX, line)[0]
    inside = line.removeprefix(prefix).strip().removeprefix("|").removesuffix("|")
    return prefix.count(">"), inside.count("|") + 1


def show(text: str) -> str:
    """Return the Markdown that `hide` returned, or a part or translation of it, as it was."""
    text = re.sub(rf"(?:\n[ \t>]*\n[ \t>]*)?{_NOTE}\n[ \t>]*\n", "\n", text)
    text = re.sub(rf"{_CODE}{_NOTE}\n[ \t>]*(?=\$)|{_NOTE}\n[ \t>]*{_CODE}", "", text)
    for sign, hidden in _SIGNS.items():
        text = text.replace(hidden, chr(sign))
    return text.replace(_AMPERSAND, "&").replace(_PIPE, r"\|").replace(_COLON, ":")


def _find_definitions(text: str) -> set[str]:
    """Return the names of Markdown that a link such as `[name]` may refer to.

    >>> sorted(_find_definitions("[A b]: c.md\\n[^1]: A note.\\n[Keras]: https://keras.io"))
    ['a b', 'keras']
    """
    return {_name(name) for name in _DEFINITION.findall(_FENCED.sub("", text))}


def _name(text):
    return " ".join(text.split()).casefold()


def _escape_start(text: str, source: str) -> str:
    r"""Return the translation of a paragraph that starts no block, unless the source does.

    >>> _escape_start("3. Januar", "January 3"), _escape_start("# eins", "one")
    ('3\\. Januar', '\\# eins')
    """
    found = _BLOCK.match(text)
    if not found or _BLOCK.match(source):
        return text
    return rf"{found[0]}\{text[found.end() :]}"


def to_tags(text: str, names: Container[str] = ()) -> str:
    """Return a paragraph of Markdown with tags in capitals for its emphasis and links.

    One that is very long stays as it is. `names` are those of `_find_definitions`.

    >>> to_tags("A **bold** [link](https://keras.io) and `*code*`.")
    'A <B is="">bold</B> <A href="(https://keras.io)">link</A> and `*code*`.'
    """

    def replace(found):
        if found["text"]:
            inside, link = to_tags(found["text"], names), found["link"]
            if link in (None, "[]"):
                # After ] there is the name of a longer link, and \[ is no link.
                is_other = text[: found.start()].endswith(("\\", "]"))
                is_other |= bool(re.search("[<>]", found["text"]))
                if is_other or _name(found["text"]) not in names:
                    return f"[{inside}]{link or ''}"
                link = f"={found[0]}"
            link = link.replace("&", "&amp;").replace('"', "&quot;")
            return f'<A href="{link}">{inside}</A>'
        if found["mark"]:
            tag = _MARKS[found["mark"]]
            return f'<{tag} is="">{to_tags(found["inner"], names)}</{tag}>'
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
        link = link.replace("&quot;", '"').replace("&amp;", "&")
        if link.startswith("="):  # Its text was the name that it refers to.
            name = link.removeprefix("=").removesuffix("[]")
            is_same = "".join(pieces[start + 1 : end]) == name[1:-1]
            link = link.removeprefix(f"={name}") if is_same else name
        first, last = "[", f"]{link}"
    inside = pieces[start + 1].lstrip()
    blank = pieces[start + 1].removesuffix(inside)
    pieces[start], pieces[start + 1] = blank + first, inside
    inside = pieces[end - 1].rstrip()
    pieces[end], pieces[end - 1] = last + pieces[end - 1].removeprefix(inside), inside
