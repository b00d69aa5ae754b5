"""Rules that a SentencePiece model applies to text, in the form of SentencePiece's tables."""

import functools
import sys
import unicodedata

_Rules = dict[str, str]

# SentencePiece writes a space as "▁". A text that has this character itself comes back because it
# has another name in between.
_MARK, _ESCAPE, _ESCAPED_MARK = "▁", "\ue000", "\ue000\ue001"
_ESCAPES = {_MARK: _ESCAPED_MARK, _ESCAPE: 2 * _ESCAPE}


def rule_tables(normalization: str) -> tuple[str, str]:
    """Return what is replaced before text is split, and after it is joined.

    Args:
        normalization: "nfc" or "identity".

    Returns:
        Two tables in the format of SentencePiece.

    >>> rule_tables("identity")[1].splitlines()
    ['E000 E001\\t2581', 'E000 E000\\tE000']
    """
    rules = _compositions() if normalization == "nfc" else {}
    return _table(rules | _ESCAPES), _table({escaped: text for text, escaped in _ESCAPES.items()})


def _table(rules: _Rules) -> str:
    return "".join(
        "\t".join(" ".join(f"{ord(c):04X}" for c in text) for text in rule) + "\n"
        for rule in rules.items()
    )


@functools.cache
def _compositions() -> _Rules:
    """Return the NFC form of all sequences of characters that become a single one."""
    by_decomposition: dict[str, list[str]] = {}
    for character in map(chr, range(sys.maxunicode + 1)):
        decomposed = unicodedata.normalize("NFD", character)
        if decomposed != character:
            by_decomposition.setdefault(decomposed, []).append(character)
    rules = {}
    for decomposed in by_decomposition:
        composed = unicodedata.normalize("NFC", decomposed)
        for text in _equivalents(decomposed, by_decomposition):
            if text != composed:
                rules[text] = composed
    return rules


def _equivalents(text: str, by_decomposition: dict[str, list[str]]) -> set[str]:
    """Return the texts that are canonically equivalent to a few decomposed characters."""
    found, todo = {text}, [text]
    while todo:
        text = todo.pop()
        new = []
        for start in range(len(text)):
            for end in range(start + 1, len(text) + 1):
                part = unicodedata.normalize("NFD", text[start:end])
                same = by_decomposition.get(part, ())
                new += [text[:start] + character + text[end:] for character in same]
        for n in range(len(text) - 1):
            classes = [unicodedata.combining(character) for character in text[n : n + 2]]
            if all(classes) and classes[0] != classes[1]:
                new.append(text[:n] + text[n + 1] + text[n] + text[n + 2 :])
        todo += set(new) - found
        found.update(new)
    return found
