"""Word documents, whose paragraphs become texts with tags for formatting, links and objects."""

import collections
import copy
import io
import re
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

_NAMESPACE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TAGS = re.compile(r'(<G id="[0-9]+">|</G>|<X id="[0-9]+"/>)')
_TEXT = {f"{_NAMESPACE}{name}" for name in ("rPr", "t", "tab", "br", "noBreakHyphen")}
_EMPTY = ("proofErr", "bookmarkStart", "bookmarkEnd", "commentRangeStart", "commentRangeEnd")
_NO_FORMAT = re.compile(rb"<w:(?:lang|noProof)\b[^<>]*/>|\s?xmlns:\w+=\"[^\"]*\"")
_MOST_BYTES = 64 << 20


class _Part(NamedTuple):
    """Neighbors in a paragraph: text of one format or link, or an object without text."""

    elements: list[Any]
    text: str | None
    format: bytes


def change_word(open_document: Any, content: bytes, change: Callable[[str], str]) -> bytes:
    """Return a .docx file with other texts.

    Args:
        open_document: `docx.Document`.
        content: The file.
        change: Is called with each paragraph that has a letter. Formatting other than that of most
            of it, links, and objects such as images are tags in it.

    Raises:
        ValueError: If the file is too large once it is decompressed.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(each.file_size for each in archive.infolist())
    if size > _MOST_BYTES + 10 * len(content):
        raise ValueError(f"its parts have {size} bytes")
    document = open_document(io.BytesIO(content))
    for part in document.part.package.iter_parts():
        root = getattr(part, "element", None)
        for paragraph in [] if root is None else list(root.iter(f"{_NAMESPACE}p")):
            _change_paragraph(paragraph, change)
    changed = io.BytesIO()
    document.save(changed)
    return changed.getvalue()


def _change_paragraph(paragraph, change):
    parts = _read_parts(paragraph)
    while parts and parts[0].text is None:
        parts.pop(0)
    while parts and parts[-1].text is None:
        parts.pop()
    sizes: collections.Counter[bytes] = collections.Counter()
    for part in parts:
        sizes[part.format] += len(part.text or "")
    usual = max(sizes, key=lambda each: sizes[each], default=b"")
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
        base = next(part for part in parts if part.format == usual)
        _write_parts(parts, base, changed)


def _read_parts(paragraph):
    parts: list[_Part] = []
    field = 0
    for element in paragraph:
        name = element.tag.removeprefix(_NAMESPACE) if isinstance(element.tag, str) else "proofErr"
        if name == "pPr" or name in _EMPTY:
            continue
        was_in_field = field > 0
        for mark in element.iter(f"{_NAMESPACE}fldChar"):  # A field is several runs.
            field += {"begin": 1, "end": -1}.get(mark.get(f"{_NAMESPACE}fldCharType"), 0)
        text, kind = _read_element(element, name)
        if was_in_field or field > 0:
            text, kind = None, b""
        if parts and (was_in_field or (text and parts[-1].text and kind == parts[-1].format)):
            last = parts.pop()
            joined = None if last.text is None or text is None else last.text + text
            parts.append(_Part([*last.elements, element], joined, last.format))
        else:
            parts.append(_Part([element], text, kind))
    return parts


def _read_element(element, name):
    """Return the text of a run or link, or None, and its format."""
    from lxml import etree

    runs = [element] if name == "r" else list(element) if name == "hyperlink" else []
    if not runs or any(each.tag not in _TEXT for run in runs for each in run):
        return None, b""
    if name == "hyperlink":
        return "".join(run.text for run in runs), f"link {id(element)}".encode()
    style = element.find(f"{_NAMESPACE}rPr")
    kind = b"" if style is None else etree.tostring(style, with_tail=False)
    return element.text, re.sub(
        rb"<w:(?:lang|noProof)\b[^<>]*/>|\s?xmlns:\w+=\"[^\"]*\"", b"", kind
    )


def _write_parts(parts, base, text):
    """Replace the elements of parts by those of a text."""
    first = parts[0].elements[0]
    place = first.getparent().index(first)
    new, stack = [], [base]
    placed = set()
    for token in _TAGS.split(text):
        number = int(found[0]) if (found := re.findall('"([0-9]+)"', token)) else -1
        if token == "</G>":
            del stack[max(1, len(stack) - 1) :]
        elif _TAGS.fullmatch(token) and number < len(parts):
            if token.startswith("<X"):
                new += parts[number].elements if number not in placed else []
                placed.add(number)
            else:
                stack.append(parts[number])
        elif token:
            new.append(_with_text(stack[-1].elements[0], token))
    for number, part in enumerate(parts):
        if part.text is None and number not in placed:  # Nothing is lost.
            new += part.elements
    parent = first.getparent()
    for part in parts:
        for element in part.elements:
            parent.remove(element)
    for element in reversed(new):
        parent.insert(place, element)


def _with_text(element, text):
    """Return a copy of a run or link with another text."""
    new = copy.deepcopy(element)
    run = new
    if new.tag == f"{_NAMESPACE}hyperlink":
        run, *others = list(new)
        for each in others:
            new.remove(each)
    run.text = text
    return new
