"""JSON, of which a translation replaces the strings alone."""

import json
import re
from collections.abc import Callable

_TOKEN = re.compile(r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")(?P<colon>\s*:)?|[{}\[\]]')


def change_json(content: bytes, change: Callable[[str], str], kept: str | None = None) -> bytes:
    """Return JSON with changed strings, and all else as it is written.

    Args:
        content: The JSON, in an encoding of Unicode.
        change: Returns what is written for a string, which is not empty.
        kept: How a key of the whole begins whose strings stay.

    Raises:
        ValueError: If it is damaged.

    >>> change_json(b'{"title": "A dog", "n":1}', str.upper)
    b'{"title": "A DOG", "n":1}'
    """
    encoding = json.detect_encoding(content)
    text = content.decode(encoding)
    json.loads(text)  # Raises an error if it is damaged.
    depth, is_kept = 0, False

    def replace(token):
        nonlocal depth, is_kept
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if token["colon"] and depth == 1:
            is_kept = kept is not None and json.loads(token["string"]).startswith(kept)
        if token["colon"] or is_kept or len(token[0]) <= len('""'):
            return token[0]
        old = json.loads(token[0])
        new = change(old)
        # Half of a pair of surrogates has no encoding.
        is_ascii = any("\ud800" <= each <= "\udfff" for each in new)
        return token[0] if new == old else json.dumps(new, ensure_ascii=is_ascii)

    return _TOKEN.sub(replace, text).encode(encoding)
