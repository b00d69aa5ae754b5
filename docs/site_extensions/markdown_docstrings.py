"""Show docstrings of this project in Markdown: doctests as code, and "Call arguments" as a list."""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+", re.MULTILINE)
_CALL_ARGUMENTS = re.compile(r"^Call arguments:\n((?: {4}.*\n?|\n)+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}(\w+): ", re.MULTILINE)
_UNNAMED = re.compile(r"^Returns:\n(?! {4}\w+: ) {4}.*(?:\n {4}.*)+", re.MULTILINE)


def to_markdown(docstring: str) -> str:
    """Return a docstring whose doctests and call arguments are Markdown.

    Markdown would read ">>>" as a quotation. Other sections stay, as mkdocstrings knows them. It
    takes each line of a return value for a value of its own, unless the line is indented.

    Args:
        docstring: A clean docstring in the style of Keras.
    """
    text = _CALL_ARGUMENTS.sub(_as_list, docstring)
    text = _UNNAMED.sub(_as_one_value, text)
    if "```" not in text:
        text = _DOCTEST.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)
    return text


def _as_list(section: re.Match) -> str:
    items = _ARGUMENT.sub(r"- **`\1`**: ", section[1].rstrip())
    return f"**Call arguments:**\n\n{re.sub(r'^ {8}', '  ', items, flags=re.MULTILINE)}\n\n"


def _as_one_value(section: re.Match) -> str:
    heading, first, *others = section[0].split("\n")
    return "\n".join([heading, first, *(f"    {line}" for line in others)])


class MarkdownDocstrings(griffe.Extension):
    """Apply `to_markdown` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
