"""User symbols: parts of text that are single tokens, such as placeholders."""

import collections
import logging
import re
from collections.abc import Iterable, Sequence

from keras_transformer.config.data import PATTERN_PREFIX, SYMBOL_KINDS, can_be_symbol
from keras_transformer.text.patterns import PATTERNS

_LOGGER = logging.getLogger(__name__)

_LONGEST = 32
_FEWEST = 2


def choose_symbols(lines: Iterable[str], choices: Sequence[str], most: int) -> dict[str, int]:
    """Return the user symbols for a text, and how often each occurs in it.

    A symbol or regular expression of `choices` that the text does not have is named in the log.

    Args:
        lines: The text.
        choices: Names of patterns, regular expressions and symbols; see `DataConfig.user_symbols`.
        most: Largest number of matches of the patterns that become symbols. They occur at least
            twice and have at most 32 characters, none of them white space.

    Returns:
        The number of occurrences by symbol: first those that `choices` names, then the matches,
        the most frequent first.

    >>> choose_symbols(["%s of %s, %d", "~Save %s"], ["~", "printf"], most=100)
    {'~': 1, '%s': 3}
    """
    in_order = sorted(choices, key=lambda choice: choice.startswith(PATTERN_PREFIX))
    patterns = {choice: each for choice in in_order if (each := _pattern(choice)) is not None}
    joined = "|".join(f"(?:{each})" for each in patterns.values())
    is_pattern = re.compile(joined) if patterns else None
    named = {choice: 0 for choice in choices if choice not in patterns}
    found: collections.Counter[str] = collections.Counter()
    unmatched = [re.compile(patterns[each]) for each in patterns if each not in SYMBOL_KINDS]
    for line in lines:
        for symbol in named:
            named[symbol] += line.count(symbol)
        if is_pattern:
            found.update(match.group() for match in is_pattern.finditer(line))
        unmatched = [pattern for pattern in unmatched if not pattern.search(line)]
    missing = [symbol for symbol, count in named.items() if not count]
    missing += [PATTERN_PREFIX + pattern.pattern for pattern in unmatched]
    if missing:
        _LOGGER.warning("the text has none of these user symbols: %s", ", ".join(missing))
    matches = {
        symbol: count
        for symbol, count in found.items()
        if symbol not in named
        and count >= _FEWEST
        and len(symbol) <= _LONGEST
        and can_be_symbol(symbol)
    }
    return named | dict(collections.Counter(matches).most_common(most))


def stands_for_symbols(choice: str) -> bool:
    """Return whether a choice is the name of a pattern or a regular expression, and no symbol."""
    return _pattern(choice) is not None


def _pattern(choice: str) -> str | None:
    """Return the regular expression that a choice stands for, None for a symbol."""
    if choice.startswith(PATTERN_PREFIX):
        return choice.removeprefix(PATTERN_PREFIX)
    return PATTERNS[choice] if choice in SYMBOL_KINDS else None
