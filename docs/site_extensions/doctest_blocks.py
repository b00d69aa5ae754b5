"""Shows the doctests of docstrings as code: Markdown would read ">>>" as a quotation."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!\s*$).*\n?)*)+", re.MULTILINE)


def fence_doctests(text: str) -> str:
    """Put each group of doctest lines at the left margin into a fenced block.

    >>> print(fence_doctests("Text.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
    Text.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    More.
    """
    if "```" in text:
        return text
    return _EXAMPLE.sub(lambda match: f"```pycon\n{match[0].rstrip()}\n```\n", text)


class DoctestBlocks(griffe.Extension):
    """Apply `fence_doctests` to every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fence_doctests(obj.docstring.value)
