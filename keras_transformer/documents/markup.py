"""HTML, of which a translation keeps the tags and entities, and gets no others."""

import collections
import html
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

WHOLE_TAG = r"""<[^<>"']*(?:(?:"[^"]*"|'[^']*')[^<>"']*){0,64}>"""
"""A tag, as a regular expression. Other signs may be quoted in it. Without a limit, the time that
some texts take would be quadratic."""
TAG = rf"{WHOLE_TAG}|<[^<>]*>"
"""A tag, also one whose quotes have no end."""
_MARKUP = re.compile(rf"{TAG}|&(?:[A-Za-z][A-Za-z0-9]*|#[0-9]+|#[xX][0-9A-Fa-f]+);|[<>&]")
_END = re.compile("</[^<>]*>")
_ATTRIBUTE = re.compile(r"\[[a-z-]+\]$")
"""The end of a path such as `p[1][title]`."""
_IN_TAG = re.compile(r"""(?P<name>^<[^\s/>]*)|(?P<value>"[^"]*"|'[^']*')|\s+""")
_UNSAFE = re.compile(r"[<>]|[^\S ]|\s(?=\s)")
"""What a paragraph changes in the value of an attribute, or would end a tag there."""
_IGNORED = b' data-translate-ignore="keras-transformer"'
_LAST = b"<hr>"
"""What a page is read with at its end, to see whether that is lost."""
_BLOCK = r"(?:p|li|d[dt]|t[dh]|div|h[1-6]|summary)\b"
_INLINE = r"(?:a|b|em|i|span|strong|u)\b"
_CODE_ALONE = re.compile(
    rf"(<{_BLOCK}[^<>]*>\s*(?:<{_INLINE}[^<>]*>\s*)*<code)\b"
    rf"(?=[^<>]*>[^<]*</code>\s*(?:</{_INLINE}\s*>\s*)*</{_BLOCK})".encode(),
    re.IGNORECASE,
)
"""The code that is all of an element, whose tags translate-toolkit leaves out of the text."""
_CODE = re.compile("<[?!%]")
"""What starts code of PHP and the like, or a declaration."""
_ENDS = {"comment": len("-->"), "decl": len(">"), "cdecl": len("]>")}
"""The length of the end that translate-toolkit gives to comments and declarations; it writes
`<!x>`, which is a comment too, as `<!--x-->`."""
_HIDDEN = re.compile(r'(?:<X id="[0-9]+"/>\s*)+')
"""What stands for comments and for elements that are kept, if there is nothing else."""


def keep_markup(text: str, source: str, tags: Mapping[str, str] | None = None) -> str:
    """Return a translation of HTML with the tags and entities of its source, and no others.

    Args:
        text: The translation. Other `<`, `>` and `&` in it are escaped, and so are tags and
            entities that come more often than in the source.
        source: The source, which stays as it is.
        tags: What to write for tags, if not themselves.

    >>> keep_markup("<i>R&D</i> <b>x</b>", "<b>x</b>")
    '&lt;i&gt;R&amp;D&lt;/i&gt; <b>x</b>'
    """
    left = collections.Counter(_MARKUP.findall(source))
    escape = str if text == source else html.escape

    def write(found: re.Match[str]) -> str:
        token = found[0]
        if len(token) > 1 and left[token]:
            left[token] -= 1
            return (tags or {}).get(token, token)
        return escape(token[0]) + _MARKUP.sub(write, token[1:])  # Entities may be in it.

    return _MARKUP.sub(write, text)


def change_html(store: Any, content: bytes, change: Callable[[str], str]) -> bytes:
    """Return a page whose texts are changed.

    Args:
        store: The class of translate-toolkit that reads it.
        content: The page.
        change: Returns what is written for a text: that of an attribute, or HTML.

    Raises:
        ValueError: If elements at its end do not have theirs.
    """
    page = _page(store, change)
    page.parse(_CODE_ALONE.sub(rb"\1" + _IGNORED, content) + _LAST)
    changed = page.filesrc.encode(page.encoding, "xmlcharrefreplace").replace(_IGNORED, b"")
    if not changed.endswith(_LAST):  # translate-toolkit drops what follows.
        raise ValueError("each element must have its end, such as </p>; write it at the last ones")
    return changed.removesuffix(_LAST)


def _is_kept(attributes: Iterable[tuple[str, str | None]]) -> bool:
    """Return whether the attributes of an element say that it is not to be translated."""
    values = {name: value or "" for name, value in attributes}
    is_no = values.get("translate", "").strip().lower() == "no"
    return is_no or "notranslate" in values.get("class", "").split()


def _page(store, change):
    """Return what reads a page, and writes its texts changed and all else as it was."""

    class Page(_source(store)):
        def __init__(self):
            super().__init__()
            self._depth = None  # Of what is around an element that is kept.
            self._kept = []

        def translate_value(self, text, docpath="", **_):
            is_kept = docpath.endswith(("[lang]", "[value]")) or "/pre[" in f"/{docpath}"
            is_kept |= bool(_CODE.search(text) or _HIDDEN.fullmatch(text))
            new = text if is_kept else change(text)
            return new if _ATTRIBUTE.search(docpath) else keep_markup(new, text, self.tags)

        def handle_starttag(self, tag, attrs):
            self.auto_close_empty_element()
            if tag in self.CDATA_CONTENT_ELEMENTS:  # Scripts and styles.
                attrs = [*attrs, ("data-translate-ignore", None)]
            is_empty = tag in self.EMPTY_HTML_ELEMENTS
            if self._depth is None and _is_kept(attrs) and not is_empty:
                if self.starts_translation_unit(tag):
                    self.suspend_translation_unit_for_ignored_content()
                self._depth = len(self.tag_path)
            super().handle_starttag(tag, attrs)

        def handle_endtag(self, tag):
            super().handle_endtag(tag)
            if self._depth is not None and len(self.tag_path) <= self._depth:
                self._depth = None
                if self._kept:
                    super().append_markup(self.hide("".join(self._kept), "data"))
                    self._kept = []
                else:
                    self.resume_translation_unit_after_ignored_content()

        def is_extraction_ignored(self):
            return self._depth is not None or super().is_extraction_ignored()

        def translate_attributes(self, tag, attrs):
            self.attributes = attrs
            if tag in self.CDATA_CONTENT_ELEMENTS or self._depth is not None or _is_kept(attrs):
                return attrs
            return super().translate_attributes(tag, attrs)

        def append_markup(self, markup):
            markup = self.restore(markup)
            if self._depth is not None and self.tu_location:  # Inside a sentence.
                self._kept.append(markup["html_content"])
            else:
                super().append_markup(markup)

    return Page()


def _source(store):
    """Return a class that writes the markup of a page as it was."""

    class Source(store):
        WHITESPACE_RE = re.compile(r"[ \t\n\r\f]+")  # Of HTML, where no other blanks are joined.
        TRANSLATABLE_ELEMENTS = [*store.TRANSLATABLE_ELEMENTS, "summary", "legend"]
        TRANSLATABLE_ATTRIBUTES = [*store.TRANSLATABLE_ATTRIBUTES, "aria-label", "placeholder"]

        def __init__(self):
            super().__init__()
            self.tags = {}
            self.attributes = []
            self._hidden = {}
            self._text = ""
            self._starts = []

        def do_encoding(self, htmlsrc):
            self._text = super().do_encoding(htmlsrc)
            self._starts = [0, *(end.end() for end in re.finditer("\n", self._text))]
            return self._text

        def _place(self):
            line, column = self.getpos()
            return self._starts[line - 1] + column

        def create_start_tag(self, tag, attrs=None, startend=False):
            if attrs == self.attributes:
                return self.get_starttag_text()
            pairs = zip(attrs, self.attributes, strict=True)
            written = [
                (name, value and html.escape(value) if value == old else value)
                for (name, value), (_, old) in pairs
            ]
            return super().create_start_tag(tag, written, startend)

        escape_attribute_value = staticmethod(html.escape)

        def hide(self, written, kind="startendtag"):
            shown = self._hidden.setdefault(written, f'<X id="{len(self._hidden)}"/>')
            self.tags[shown] = written
            return {"type": kind, "html_content": written, "untranslated_html": shown}

        def restore(self, markup):
            kind = markup["type"]
            if kind in _ENDS:
                place = self._place()
                is_other = kind == "comment" and not self._text.startswith("<!--", place)
                size = len(markup["html_content"]) - _ENDS[kind] - len("--") * is_other
                return self.hide(self._text[place : self._text.index(">", place + size) + 1])
            if kind == "endtag":
                shown = markup["html_content"]
                if found := _END.match(self._text, self._place()):
                    markup["html_content"] = found[0]
            elif kind in ("starttag", "startendtag"):
                shown = _IN_TAG.sub(_show, markup["untranslated_html"])
            else:
                return markup
            markup["untranslated_html"] = shown
            if self._depth is None:  # The same tag may be in a kept element.
                self.tags[shown] = markup["html_content"]
            return markup

        def handle_charref(self, name):
            self.handle_entityref(f"#{name}")

        def handle_entityref(self, name):
            is_whole = self._text.startswith(";", self._place() + 1 + len(name))
            text = f"&{name};" if is_whole else f"&{name}"
            read = html.unescape(text)
            is_text = self.tu_location and not self.is_extraction_ignored()
            if is_text and read != text and "pre" not in self.tag_path:
                text = html.escape(read, quote=False)
            self.handle_data(text)

    return Source


def _show(found):
    """Return a part of a tag as a paragraph has it, which would change white space."""
    if found["name"]:
        return found["name"].lower()
    return _UNSAFE.sub(lambda sign: f"&#{ord(sign[0])};", found["value"] or " ")
