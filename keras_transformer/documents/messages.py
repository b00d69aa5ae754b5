"""Messages of ICU with several forms, such as a plural, whose forms are translated one by one."""

import re
from collections.abc import Mapping, Sequence

from keras_transformer.documents.groups import Begin, Translate, shown, translate_all

_HEAD = re.compile(
    r"\{\s*[\w.-]+\s*,\s*(?:plural|selectordinal|select)\s*,(?:\s*offset:\s*\d+)?", re.ASCII
)
_FORM = re.compile(r"\s*(?:=\d+|[\w-]+)\s*\{")
# Two apostrophes are one; a single one before syntax starts text that is none.
_QUOTED = re.compile("''|'[{}#](?:[^']|'')*'?")
_APOSTROPHE = re.compile("(?<!')'(?=[{}#])")
_DOUBLED = re.compile("(?<!')''(?=[{}#])")
_ALONE = re.compile("(?<!')'(?!')")
_ARGUMENT = re.compile(r"(?<![{$#])\{\s*\w+\s*[,}]")  # No {{name}} or ${name}.
_MOST_DEPTH = 20
_NUMBER = "{icu_number}"
"""The placeholder that stands for the `#` of a plural form while it is translated."""


def read_message(text: str) -> list[str] | None:
    """Divide a message that has forms.

    Args:
        text: A message of ICU, or any other text.

    Returns:
        Syntax and text in turn, which joined are the message; None if it has no forms. If its
        syntax is not understood, all of it is syntax.

    >>> read_message("You have {n, plural, one {# file} other {# files}}.")
    ['', 'You have ', '{n, plural, one {', '# file', '} other {', '# files', '}}', '.', '']
    >>> read_message("Copied {n} files.") is None
    True
    >>> read_message("{n, plural, one {# file}")
    ['{n, plural, one {# file}']
    """
    if not _HEAD.search(text):
        return None
    parts = [""]
    if _read_text(text, 0, parts, 0) != len(text):
        return [text]
    return parts


def write_message(parts: Sequence[str], found: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the message of parts, with the translations of its texts that are found.

    White space at the edges of a text stays, and so does a text whose translation would break the
    message; these texts come second.

    >>> write_message(["", "You have ", "{n, plural, one {", "# file", "}}", "", ""], {})
    ('You have {n, plural, one {# file}}', [])
    """
    changed, rejected = list(parts), []
    for i in range(1, len(parts), 2):
        text = parts[i]
        translation = found.get(text, text)
        if not _QUOTED.search(text):  # As in l'{name}.
            translation = _APOSTROPHE.sub("''", translation)
        before = text[: len(text) - len(text.lstrip())]
        after = text[len(text.rstrip()) :] if text.strip() else ""
        if _syntax(translation) == _syntax(text) and _is_balanced(translation):
            changed[i] = f"{before}{translation.strip()}{after}"
        else:
            rejected.append(text)
    return "".join(changed), rejected


def translate_forms(
    texts: Sequence[str], translate: Translate, begin: Begin
) -> tuple[Mapping[str, str], list[str]]:
    """Return the same as `translate_all`, for messages that may have forms inside, one by one."""
    messages = {text: parts for text in texts if (parts := read_message(text))}
    inside = {part: None for parts in messages.values() for part in parts[1::2] if part.strip()}
    hidden = {part for part in inside if "#" in part and _NUMBER not in part}

    def translate_numbers(texts):
        found = translate([x.replace("#", _NUMBER) if x in hidden else x for x in texts])
        pairs = zip(texts, found, strict=True)
        return [new.replace(_NUMBER, "#") if text in hidden else new for text, new in pairs]

    others = [text for text in texts if text not in messages]
    found, failures = translate_all([*others, *inside], translate_numbers, begin)
    written = {}
    for text, parts in messages.items():
        if len(parts) == 1:
            failures.append(f"{shown(text)}: its syntax is not understood")
            continue
        written[text], rejected = write_message(parts, found)
        failures += [f"{shown(x)}: its translation changes braces or #" for x in rejected]
    return {**found, **written}, list(dict.fromkeys(failures))


def double_apostrophes(text: str, translation: str) -> str:
    """Return the translation of a message without forms, whose apostrophes quote no argument.

    Those of ICU quote before a brace alone. Java's, whose arguments are numbers, quote anywhere:
    there, each is doubled, unless the message has one that is not.

    >>> double_apostrophes("Delete {name}", "C'est l'{name}")
    "C'est l''{name}"
    >>> double_apostrophes("Delete {0}", "C'est l'{0}")
    "C''est l''{0}"
    """
    if not (found := _ARGUMENT.search(text)) or _APOSTROPHE.search(text):
        return translation
    is_java = found[0].strip("{ ")[0].isdigit() and not _ALONE.search(text)
    return (_ALONE if is_java else _APOSTROPHE).sub("''", translation)


def single_apostrophes(text: str, translation: str) -> str:
    """Return a translation of `write_message` for a program that takes apostrophes as they are.

    It stays as it is if the message has apostrophes that quote, which such a program may be told to
    read.

    >>> single_apostrophes("{n, plural, other {the {a}}}", "{n, plural, other {l''{a}}}")
    "{n, plural, other {l'{a}}}"
    """
    return translation if _QUOTED.search(text) else _DOUBLED.sub("'", translation)


def _syntax(text):
    """Return the braces and signs of a number in a text, in any order."""
    return sorted(re.findall("[{}#]", _QUOTED.sub("", text)))


def _is_balanced(text):
    depths = [0]
    for brace in re.findall("[{}]", _QUOTED.sub("", text)):
        depths.append(depths[-1] + (1 if brace == "{" else -1))
    return min(depths) == 0 == depths[-1]


def _read_text(text, start, parts, depth):
    """Append the text from `start` to the end, or to the brace that closes it; return where."""
    place = begin = start
    level = 0
    while place < len(text):
        if (head := _HEAD.match(text, place)) and not level and depth < _MOST_DEPTH:
            parts += [text[begin:place], ""]
            place = begin = _read_forms(text, head, parts, depth)
            if place < 0:
                return -1
            continue
        if quoted := _QUOTED.match(text, place):
            place = quoted.end()
            continue
        level += {"{": 1, "}": -1}.get(text[place], 0)
        if level < 0:
            break
        place += 1
    parts += [text[begin:place], ""]
    return place if level <= 0 else -1


def _read_forms(text, head, parts, depth):
    """Append the forms after a head; return the place after them, or -1 if they do not end."""
    parts[-1] += head[0]
    place = head.end()
    while form := _FORM.match(text, place):
        parts[-1] += form[0]
        place = _read_text(text, form.end(), parts, depth + 1)
        if place < 0 or place >= len(text):
            return -1
        parts[-1] += "}"
        place += 1
    end = re.compile(r"\s*\}").match(text, place)
    if not end:
        return -1
    parts[-1] += end[0]
    return end.end()
