"""Emphasis and links of Markdown as tags, which a translation keeps and nests."""

import re

_MARKS = {"**": "B", "__": "S", "*": "I", "_": "E"}
# Unlike in HTML, names are capitals. With an attribute, a tag is one wherever it is.
_INLINE = re.compile(
    r"(?P<code>`+[^`]+`+)"
    r"|(?P<tag><[^<>]*>)"
    r"|!\[[^\[\]]*\](?P<image>\([^()]*\))"
    r"|\[(?P<text>[^\[\]]+)\](?P<link>\([^()<>]*\)|\[[^\[\]<>]*\])"
    r"|(?<![\w\\])(?P<mark>\*\*|__|\*|_)(?=[^\s*_])(?P<inner>.+?)(?<=\S)(?P=mark)(?!\w)",
    re.DOTALL,
)
_TAGS = re.compile(
    r"<(?P<tag>[BSIE]) is=\"\">(?P<before>\s*)(?P<inner>.*?)(?P<after>\s*)</(?P=tag)>"
    r"|<A href=\"(?P<link>[^<>]*)\">(?P<before_text>\s*)(?P<text>.*?)(?P<after_text>\s*)</A>",
    re.DOTALL,
)


def to_tags(text: str) -> str:
    """Return a paragraph of Markdown with tags in capitals for its emphasis and links.

    >>> to_tags("A **bold** [link](https://keras.io) and `*code*`.")
    'A <B is="">bold</B> <A href="(https://keras.io)">link</A> and `*code*`.'
    """

    def replace(found):
        if found["link"]:
            link = found["link"].replace('"', "&quot;")
            return f'<A href="{link}">{to_tags(found["text"])}</A>'
        if found["mark"]:
            tag = _MARKS[found["mark"]]
            return f'<{tag} is="">{to_tags(found["inner"])}</{tag}>'
        return found[0]

    return _INLINE.sub(replace, text)


def from_tags(text: str) -> str:
    """Return a paragraph of Markdown for one that `to_tags` returned, or its translation.

    White space at the edges of emphasis, which would end it, is moved out.

    >>> from_tags('Ein <A href="(https://keras.io)"> <B is="">fetter</B> Link</A>.')
    'Ein  [**fetter** Link](https://keras.io).'
    """
    marks = {tag: mark for mark, tag in _MARKS.items()}

    def replace(found):
        if found["tag"]:
            mark, inner = marks[found["tag"]], from_tags(found["inner"])
            inner = f"{mark}{inner}{mark}" if inner else ""
            return f"{found['before']}{inner}{found['after']}"
        link = found["link"].replace("&quot;", '"')
        inner = f"[{from_tags(found['text'])}]{link}"
        return f"{found['before_text']}{inner}{found['after_text']}"

    return _TAGS.sub(replace, text)
