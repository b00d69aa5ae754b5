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
_MOST_RANGES = 1000
"""Bookmarks and comments of a paragraph that stay around their text."""


class _Range(NamedTuple):
    """A bookmark or comment, by its marks; None for one in another paragraph."""

    number: int
    start: Any
    end: Any


class _Format(NamedTuple):
    """What neighbors in a paragraph have in common if they are one part."""

    holder: Any
    style: bytes
    ranges: frozenset[_Range]


class _Part(NamedTuple):
    """Neighbors in a paragraph: text of one format, or an object without text."""

    elements: list[Any]
    text: str | None
    format: _Format


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
    around = _around_all(parts)
    for i in (0, -1):
        while parts and parts[i].text is None and _is_apart(parts[i], paragraph, around):
            parts.pop(i)
    sizes: collections.Counter[_Format] = collections.Counter()
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
    leaves = list(_leaves(paragraph))
    for leaf, ranges in zip(leaves, _find_ranges(leaves), strict=True):
        was_in_field = field > 0
        if _name(leaf) in _MARKS:
            if was_in_field:
                parts[-1].elements.append(leaf)
            continue
        for mark in leaf.iter(f"{_NAMESPACE}fldChar"):  # A field is several runs.
            field += {"begin": 1, "end": -1}.get(mark.get(f"{_NAMESPACE}fldCharType"), 0)
        text, style = _read_leaf(leaf)
        if was_in_field or field > 0:
            text, style = None, b""
        kind = _Format(leaf.getparent(), style, ranges)
        if parts and (was_in_field or (text and parts[-1].text and kind == parts[-1].format)):
            last = parts.pop()
            joined = None if last.text is None or text is None else last.text + text
            parts.append(_Part([*last.elements, leaf], joined, last.format))
        else:
            parts.append(_Part([leaf], text, kind))
    return parts


def _find_ranges(leaves: list[Any]) -> list[frozenset[_Range]]:
    """Return the bookmarks and comments around each of what is in a paragraph."""
    starts: dict[tuple[str, str | None], int] = {}
    places: list[tuple[int | None, int | None]] = []
    for i, leaf in enumerate(leaves):
        name = _name(leaf) if _name(leaf) in _MARKS else ""
        if name.endswith("Start"):
            starts[name.removesuffix("Start"), leaf.get(f"{_NAMESPACE}id")] = i
        elif name.endswith("End"):
            start = starts.pop((name.removesuffix("End"), leaf.get(f"{_NAMESPACE}id")), None)
            places.append((start, i))
    places += [(start, None) for start in starts.values()]
    opened, closed = collections.defaultdict(set), collections.defaultdict(set)
    for number, (start, end) in enumerate(places[:_MOST_RANGES]):
        first, last = (None if i is None else leaves[i] for i in (start, end))
        opened[start or 0].add(_Range(number, first, last))
        closed[end].add(_Range(number, first, last))
    now, found = frozenset[_Range](), []
    for i in range(len(leaves)):
        if opened[i] or closed[i]:
            now = (now | opened[i]) - closed[i]
        found.append(now)
    return found


def _around_all(parts):
    """Return the bookmarks and comments that are around all parts."""
    first = parts[0].format.ranges if parts else frozenset()
    return first.intersection(*(part.format.ranges for part in parts))


def _is_apart(part, paragraph, around):
    """Return whether a part at the edge of a paragraph can stay where it is."""
    return part.format.holder is paragraph and part.format.ranges in (frozenset(), around)


def _leaves(element: Any) -> Iterator[Any]:
    """Yield what is in a paragraph: runs of text or of an object, other objects, and marks."""
    for each in list(element):
        name = _name(each)
        if name in _HOLDERS:
            yield from _leaves(each)
        elif name == "r":
            yield from _divide(each)
        elif not name.endswith("Pr"):
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
    # With what holds each.
    written: list[tuple[_Part, list[tuple[Any, Any]]]] = []
    stack, left = [base], {i: part for i, part in enumerate(parts) if part.text is None}
    for token in _TAGS.split(text):
        number = int(found[0]) if (found := re.findall('"([0-9]+)"', token)) else -1
        if token == "</G>":
            del stack[max(1, len(stack) - 1) :]
        elif _TAGS.fullmatch(token) and number < len(parts):
            if token.startswith("<G"):
                stack.append(stack[-1] if parts[number].text is None else parts[number])
            elif part := left.pop(number, None):
                written.append((part, [(each.getparent(), each) for each in part.elements]))
        elif token:
            run = _shell(stack[-1].elements[0])
            run.text = token
            written.append((stack[-1], [(stack[-1].format.holder, run)]))
    for part in left.values():  # Nothing is lost.
        written.append((part, [(each.getparent(), each) for each in part.elements]))
    _add_marks(paragraph, parts, written)
    tops = [_top(paragraph, each) for part in parts for each in part.elements]
    place = paragraph.makeelement("place")
    tops[0].addprevious(place)
    pairs = [pair for _, elements in written for pair in elements]
    for holder, group in itertools.groupby(pairs, lambda pair: pair[0]):
        new = [element for _, element in group]
        while holder is not paragraph:
            shell = _shell(holder)
            shell.extend(new)
            new, holder = [shell], holder.getparent()
        for element in new:
            place.addprevious(element)
    paragraph.remove(place)
    _remove(parts, tops)


def _add_marks(paragraph, parts, written):
    """Add the marks of bookmarks and comments around what is written of their parts, or around all.

    Those that are around all parts stay where they are.
    """
    around = _around_all(parts)
    for each in sorted(frozenset().union(*(part.format.ranges for part in parts))):
        marks = [mark for mark in (each.start, each.end) if mark is not None]
        if each in around and all(mark.getparent() is paragraph for mark in marks):
            continue
        places = [elements for part, elements in written if each in part.format.ranges]
        places = places or [elements for _, elements in written]
        if places and each.start is not None:
            places[0].insert(0, (places[0][0][0], each.start))
        if places and each.end is not None:
            places[-1].append((places[-1][-1][0], each.end))


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
        if _name(top) in _HOLDERS and all(_name(leaf) in _MARKS for leaf in _leaves(top)):
            for mark in list(top.iter(*(f"{_NAMESPACE}{name}" for name in _MARKS))):
                top.addprevious(mark)
            top.getparent().remove(top)
