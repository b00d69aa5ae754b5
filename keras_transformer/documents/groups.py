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


class Attempts:
    """Translates groups of texts, and goes on after a text that fails.

    If a group fails, its halves are tried, and so on. After ten texts in a row that fail, the
    others are left as they are.

    Args:
        translate: Translates texts.
    """

    def __init__(self, translate: Translate):
        self._translate = translate
        self._failures: list[str] = []
        self._in_a_row = self._left = 0
        self._has_some = False
        self._error: Exception | None = None

    def __call__(self, texts: Sequence[str]) -> list[str | None]:
        """Return the translations of texts, None for each that failed.

        Raises:
            Exception: If the first ten texts fail, the error of the last one.
        """
        if self._in_a_row == _TRIED:
            self._left += len(texts)
            return [None] * len(texts)
        try:
            found: list[str | None] = [*self._translate(texts)]
        except Exception as error:  # One text may have caused it.
            if len(texts) > 1:
                middle = len(texts) // 2
                return self(texts[:middle]) + self(texts[middle:])
            self._error, self._in_a_row = error, self._in_a_row + 1
            if self._in_a_row == _TRIED and not self._has_some:
                raise
            self._failures.append(f"{shown(texts[0].strip())}: {error}")
            return [None]
        self._in_a_row, self._has_some = 0, True
        return found

    def end(self) -> list[str]:
        """Return a line for each text that failed, and one for those that were not tried.

        Raises:
            Exception: If all failed, the error of the last one.
        """
        if self._error and not self._has_some:
            raise self._error
        rest = [f"{self._left} more texts: {self._error}"] if self._left else []
        return [*self._failures, *rest]


def translate_all(
    texts: Iterable[str], translate: Translate, begin: Begin
) -> tuple[Mapping[str, str], list[str]]:
    """Return the translations of texts, and what `Attempts.end` returns.

    Raises:
        Exception: If all fail, or the first ones do, the error of the last one.
    """
    distinct = list(dict.fromkeys(texts))
    begin(sum(map(len, distinct)))
    attempts, found = Attempts(translate), dict[str, str]()
    for group in divide(distinct):
        pairs = zip(group, attempts(group), strict=True)
        found.update((text, new) for text, new in pairs if new is not None)
    return found, attempts.end()


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
    if group:
        yield group


def shown(text: str) -> str:
    """Return the start of a text, as a message names it."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ...")
