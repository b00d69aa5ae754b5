"""Texts that are translated some at a time, where one that fails does not hold up the others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Translate = Callable[[Sequence[str]], list[str]]
"""Translates texts of any length; see `Translator.documents`."""
Begin = Callable[[int], object]
"""Is called with the number of characters to translate, before the first of them."""

_AT_A_TIME = 1 << 20
"""Characters that are translated at a time, if a text has no more."""
_SHOWN = 60
_TRIED = 10
"""Texts after which a failure of all is taken for that of the rest."""


def translate_all(
    texts: Iterable[str], translate: Translate, begin: Begin
) -> tuple[Mapping[str, str], list[str]]:
    """Return the translations of texts, and a line for each that failed.

    Raises:
        Exception: If all fail, or the first ones do, the error of the last one.
    """
    distinct = list(dict.fromkeys(texts))
    begin(sum(map(len, distinct)))
    found: dict[str, str] = {}
    failures: list[str] = []
    for group in divide(distinct):
        try:
            found.update(zip(group, translate(group), strict=True))
            continue
        except Exception:  # One text may have caused it.
            if len(distinct) < 2:
                raise
        for text in group:
            try:
                (found[text],) = translate([text])
            except Exception as error:
                failures.append(f"{shown(text)}: {error}")
                if not found and len(failures) >= min(len(distinct), _TRIED):
                    raise
    return found, failures


def divide(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in groups that are translated at a time.

    >>> list(divide(["a", "b"]))
    [['a', 'b']]
    """
    group: list[str] = []
    size = 0
    for text in texts:
        size += len(text)
        if group and size > _AT_A_TIME:
            yield group
            group, size = [], len(text)
        group.append(text)
    yield group


def shown(text: str) -> str:
    """Return the start of a text, as a message names it."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ...")


def translate_lines(lines: Sequence[str], translate: Translate, failures: list[str]) -> str:
    """Return the translation of the lines of a text, and name those that fail in `failures`.

    If the text fails, its halves are tried, and so on.
    """
    text = "".join(lines)
    try:
        return translate([text])[0]
    except Exception as error:
        if len(lines) < 2:
            failures.append(f"{shown(text.strip())}: {error}")
            return text
    parts = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    return "".join(translate_lines(part, translate, failures) for part in parts)
