"""Word documents, whose paragraphs become texts with tags for formatting, links and objects."""

import collections
import copy
import io
import itertools
import re
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_NAMESPACE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TAGS = re.compile(r'(<G id="[0-9]+">|</G>|<X id="[0-9]+"/>)')
_XMLNS = re.compile(rb"\s?xmlns:\w+=\"[^\"]*\"")
_NO_FORMAT = ("lang", "noProof")
_TEXT = {"t": "", "tab": "\t", "br": "\n", "noBreakHyphen": "-"}
_OTHER = "proofErr"
"""What stands for a comment of XML, which is ignored."""
_IGNORED = ("rPr", "lastRenderedPageBreak", "softHyphen", _OTHER)
_MARKS = (_OTHER, "bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd")
_HOLDERS = ("hyperlink", "ins", "moveTo", "smartTag", "sdt", "sdtContent")
"""What has runs inside: links, inserted or moved text, and controls."""
_MOST_BYTES = 64 << 20


class _Part(NamedTuple):
    """Neighbors in a paragraph: text of one format and holder, or an object without text."""

    elements: list[Any]
    text: str | None
    format: tuple[Any, bytes]


def check_size(content: bytes, most: int | None = None) -> None:
    """Check that a .docx file can be parsed.

    Args:
        content: The file.
        most: The bytes that it may have once it is decompressed.

    Raises:
        ValueError: If it has more.
    """
    most = most or _MOST_BYTES + 10 * len(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(each.file_size for each in archive.infolist())
    except Exception:  # Who reads it says why.
        return
    if size > most:
        raise ValueError(
            f"A .docx file may have {most} bytes once it is decompressed, received {size}. "
            "Divide it."
        )


def change_word(open_document: Any, content: bytes, change: Callable[[str], str]) -> bytes:
    """Return a .docx file with other texts.

    Args:
        open_document: `docx.Document`.
        content: The file.
        change: Is called with each paragraph that has a letter. Formatting other than that of most
            of it, links, and objects such as images are tags in it.
    """
    document = open_document(io.BytesIO(content))
    for part in document.part.package.iter_parts():
        root = getattr(part, "element", None)
        if root is not None and _name(root) != "comments":
            for paragraph in list(root.iter(f"{_NAMESPACE}p")):
                _change_paragraph(paragraph, change)
    changed = io.BytesIO()
    document.save(changed)
    return changed.getvalue()


def _name(element):
    return element.tag.removeprefix(_NAMESPACE) if isinstance(element.tag, str) else _OTHER


def _change_paragraph(paragraph, change):
    parts = _read_parts(paragraph)
    for i in (0, -1):
        while parts and parts[i].text is None and parts[i].format[0] is paragraph:
            parts.pop(i)
    sizes: collections.Counter[tuple[Any, bytes]] = collections.Counter()
    for part in parts:
        sizes[part.format] += len(part.text or "")
    usual = max(sizes, key=lambda each: sizes[each], default=None)
    written = []
    for i, part in enumerate(parts):
        if part.text is None:
            written.append(f'<X id="{i}"/>')
        else:
            written.append(part.text if part.format == usual else f'<G id="{i}">{part.text}</G>')
    text = "".join(written)
    if not any(map(str.isalpha, _TAGS.sub("", text))):
        return
    if (changed := change(text)) != text:
        base = next(x for x in parts if x.format == usual and x.text is not None)
        _write_parts(paragraph, parts, base, changed)


def _read_parts(paragraph):
    parts: list[_Part] = []
    field = 0
    for leaf in _leaves(paragraph):
        was_in_field = field > 0
        for mark in leaf.iter(f"{_NAMESPACE}fldChar"):  # A field is several runs.
            field += {"begin": 1, "end": -1}.get(mark.get(f"{_NAMESPACE}fldCharType"), 0)
        text, style = _read_leaf(leaf)
        if was_in_field or field > 0:
            text, style = None, b""
        kind = leaf.getparent(), style
        if parts and (was_in_field or (text and parts[-1].text and kind == parts[-1].format)):
            last = parts.pop()
            joined = None if last.text is None or text is None else last.text + text
            parts.append(_Part([*last.elements, leaf], joined, last.format))
        else:
            parts.append(_Part([leaf], text, kind))
    return parts


def _leaves(element: Any) -> Iterator[Any]:
    """Yield the runs of a paragraph, each of which is text or an object, and other objects."""
    for each in list(element):
        name = _name(each)
        if name in _HOLDERS:
            yield from _leaves(each)
        elif name == "r":
            yield from _divide(each)
        elif name not in _MARKS and not name.endswith("Pr"):
            yield each


def _divide(run):
    """Divide a run with text and objects, such as page breaks, into several."""
    inside = [each for each in run if _name(each) not in _IGNORED]
    pieces = [list(piece) for _, piece in itertools.groupby(inside, _is_text)]
    for piece in pieces[:-1]:
        new = _shell(run)
        new.extend(piece)
        run.addprevious(new)
        yield new
    yield run


def _shell(element):
    """Return a copy of a run or holder that has its properties alone."""
    new = element.makeelement(element.tag, element.attrib, element.nsmap)
    new.extend([copy.deepcopy(each) for each in element if _name(each).endswith("Pr")])
    return new


def _is_text(element):
    kind = element.get(f"{_NAMESPACE}type", "textWrapping")  # Of a break.
    return _name(element) in _TEXT and kind == "textWrapping"


def _read_leaf(leaf):
    """Return the text of a run, or None for an object, and its format."""
    from lxml import etree

    inside = [each for each in leaf if _name(each) not in _IGNORED]
    if _name(leaf) != "r" or not all(map(_is_text, inside)):
        return None, b""
    style = leaf.find(f"{_NAMESPACE}rPr")
    formats = [] if style is None else [x for x in style if _name(x) not in _NO_FORMAT]
    kind = b"".join(etree.tostring(each, with_tail=False) for each in formats)
    text = "".join(_TEXT[_name(each)] or each.text or "" for each in inside)
    return text, _XMLNS.sub(b"", kind)


def _write_parts(paragraph, parts, base, text):
    """Replace the elements of parts by those of a text."""
    written: list[tuple[Any, Any]] = []  # With what holds each.
    stack, left = [base], {i: part for i, part in enumerate(parts) if part.text is None}
    for token in _TAGS.split(text):
        number = int(found[0]) if (found := re.findall('"([0-9]+)"', token)) else -1
        if token == "</G>":
            del stack[max(1, len(stack) - 1) :]
        elif _TAGS.fullmatch(token) and number < len(parts):
            if token.startswith("<G"):
                stack.append(stack[-1] if parts[number].text is None else parts[number])
            elif part := left.pop(number, None):
                written += [(each.getparent(), each) for each in part.elements]
        elif token:
            run = _shell(stack[-1].elements[0])
            run.text = token
            written.append((stack[-1].format[0], run))
    for part in left.values():  # Nothing is lost.
        written += [(each.getparent(), each) for each in part.elements]
    tops = [_top(paragraph, each) for part in parts for each in part.elements]
    for holder, group in itertools.groupby(written, lambda each: each[0]):
        new = [element for _, element in group]
        while holder is not paragraph:
            shell = _shell(holder)
            shell.extend(new)
            new, holder = [shell], holder.getparent()
        for element in new:
            tops[0].addprevious(element)
    _remove(parts, tops)


def _top(paragraph, element):
    while element.getparent() is not paragraph:
        element = element.getparent()
    return element


def _remove(parts, tops):
    """Remove the runs of parts, and what held them, but not the marks in it."""
    for part in parts:
        for element in part.elements if part.text is not None else []:
            element.getparent().remove(element)
    for top in dict.fromkeys(tops):
        if _name(top) in _HOLDERS and not list(_leaves(top)):
            for mark in list(top.iter(*(f"{_NAMESPACE}{name}" for name in _MARKS))):
                top.addprevious(mark)
            top.getparent().remove(top)
