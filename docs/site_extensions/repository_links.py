"""Make links work both in the repository and on the site.

- A link from a page to a file outside docs/ points to `repo_url`; without one, its text remains.
- Links and pictures of notebooks, which MkDocs leaves alone, point to pages and files of the site.
"""

import posixpath
import re
from typing import Any

_MARKDOWN_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((\.\.?/[^)\s]+)\)")
_HTML_LINK = re.compile(r'\b(href|src)="([^":#]+)"')


def on_page_markdown(markdown: str, *, page: Any, config: Any, **kwargs: Any) -> str:
    """Replace links out of docs/."""
    folder = posixpath.dirname(page.file.src_uri)

    def target(match):
        path = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        if path.startswith("docs/"):
            return match[0]
        if not config.repo_url:
            return match[1]
        return f"[{match[1]}]({config.repo_url.rstrip('/')}/blob/main/{path})"

    return _MARKDOWN_LINK.sub(target, markdown)


def on_page_content(html: str, *, page: Any, files: Any, **kwargs: Any) -> str:
    """Replace links of a notebook to files in docs/ by their addresses on the site."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    folder = posixpath.dirname(page.file.src_uri)

    def target(match):
        file = files.get_file_from_path(posixpath.normpath(posixpath.join(folder, match[2])))
        return f'{match[1]}="{file.url_relative_to(page.file)}"' if file else match[0]

    return _HTML_LINK.sub(target, html)
