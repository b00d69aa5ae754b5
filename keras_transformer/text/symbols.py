"""User symbols: parts of text that are single tokens, such as placeholders."""

import collections
import re
from collections.abc import Iterable, Sequence

from keras_transformer.config.data import PATTERN_PREFIX, SYMBOL_KINDS, can_be_symbol
from keras_transformer.text.patterns import PATTERNS

_LONGEST = 32
_FEWEST = 2


def choose_symbols(lines: Iterable[str], choices: Sequence[str], most: int) -> dict[str, int]:
    """Return the user symbols for a text, and how often each occurs in it.

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
    patterns = [PATTERNS[choice] for choice in choices if choice in SYMBOL_KINDS]
    patterns += [
        choice.removeprefix(PATTERN_PREFIX)
        for choice in choices
        if choice.startswith(PATTERN_PREFIX)
    ]
    is_pattern = re.compile("|".join(f"(?:{each})" for each in patterns)) if patterns else None
    named = {
        choice: 0
        for choice in choices
        if choice not in SYMBOL_KINDS and not choice.startswith(PATTERN_PREFIX)
    }
    found: collections.Counter[str] = collections.Counter()
    for line in lines:
        for symbol in named:
            named[symbol] += line.count(symbol)
        if is_pattern:
            found.update(match.group() for match in is_pattern.finditer(line))
    matches = {
        symbol: count
        for symbol, count in found.items()
        if symbol not in named
        and count >= _FEWEST
        and len(symbol) <= _LONGEST
        and can_be_symbol(symbol)
    }
    return named | dict(collections.Counter(matches).most_common(most))
