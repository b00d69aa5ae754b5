"""Links from a page to a file outside docs/ work in the repository; the site shows their text."""

import posixpath
import re
from typing import Any

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **kwargs: Any) -> str:
    """Point links out of docs/ to `repo_url`, or leave their text where the site has none."""
    folder = posixpath.dirname(page.file.src_uri)

    def target(match):
        path = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if path.startswith("docs/"):
            return match[0]
        if not config.repo_url:
            return match[1]
        return f"[{match[1]}]({config.repo_url.rstrip('/')}/blob/main/{path})"

    return _LINK.sub(target, markdown)
