"""Sentence pairs from the files of translators: .po, XLIFF, TMX and Qt's .ts."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.documents.files import read_messages

_STORES = {
    ".po": "po.pofile",
    ".tmx": "tmx.tmxfile",
    ".ts": "ts2.tsfile",
    ".xlf": "xliff.Xliff1File",
    ".xliff": "xliff.Xliff1File",
}
"""The class of translate-toolkit that reads each kind of file."""
_ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def is_catalog(path: str | os.PathLike) -> bool:
    """Return whether a file is of a kind that `stream_catalog` reads, by its suffix."""
    return Path(path).suffix.lower() in _STORES


def stream_catalog(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    r"""Yield the translated messages of a file as sentence pairs.

    A line break in a message becomes `\n`, a tab `\t`, and what is inside the tags of XLIFF and TMX
    stays. Of a message with plural forms, the first and the last form of both sides are pairs.
    Messages that are fuzzy, not approved, obsolete or without a translation are left out.

    Args:
        path: A file whose suffix is .po, .xliff, .xlf, .tmx or .ts.

    Yields:
        Pairs `(source, target)`.

    Raises:
        ImportError: If translate-toolkit is missing.
        ValueError: If the file is damaged, has no translated message, or is a TMX of more than two
            languages.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "de.po")
    >>> _ = path.write_text('msgid "Open\\n"\nmsgstr "Auf\\n"\n\nmsgid "Save"\nmsgstr ""\n')
    >>> list(stream_catalog(path))
    [('Open\\n', 'Auf\\n')]
    """
    path, found = Path(path), False
    messages = read_messages(path, _STORES)
    if path.suffix.lower() == ".tmx":
        _check_languages(path, messages)
    for unit in messages.units:
        if not unit.isheader() and not unit.isobsolete() and not _is_unfinished(unit):
            for source, target in _forms(unit):
                if source.strip() and target.strip():
                    found = True
                    yield source.translate(_ESCAPES), target.translate(_ESCAPES)
    if not found:
        raise ValueError(
            f"{path} must have messages with a translation, received none that is finished. Leave "
            "the file out, or remove the marks of fuzzy translations that are right."
        )


def _check_languages(path: Path, memory: Any) -> None:
    """Raise an error if a translation memory has more than two languages."""
    attribute = "{http://www.w3.org/XML/1998/namespace}lang"
    versions = memory.document.iter("{*}tuv")
    languages = {(each.get(attribute) or each.get("lang") or "").lower() for each in versions}
    if len(languages) > 2:
        raise ValueError(
            f"{path} must have two languages, received {', '.join(sorted(languages))}. Export a "
            "memory of two from the program that wrote it."
        )


def _is_unfinished(unit: Any) -> bool:
    """Return whether a translation is marked as fuzzy, or as one to be reviewed."""
    if type(unit).__name__ == "Xliff1Unit":  # There, all that is not approved counts as fuzzy.
        target = unit.get_target_dom()
        state = "" if target is None else target.get("state", "")
        return unit.xmlelement.get("approved") == "no" or state.startswith(("needs", "new"))
    return unit.isfuzzy()


def _forms(unit: Any) -> list[tuple[str, str]]:
    """Return the pairs of a message: one, or two if it has plural forms."""
    sides = [
        [str(form or "") for form in getattr(side, "strings", None) or [side]]
        for side in (unit.source, unit.target)
    ]
    pairs = [(sides[0][0], sides[1][0]), (sides[0][-1], sides[1][-1])]
    return list(dict.fromkeys(pairs))
