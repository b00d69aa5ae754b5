"""Sentence pairs from the files of translators: .po, XLIFF, TMX and Qt's .ts."""

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_STORES = {
    ".po": "po.pofile",
    ".tmx": "tmx.tmxfile",
    ".ts": "ts2.tsfile",
    ".xlf": "xliff.Xliff1File",
    ".xliff": "xliff.Xliff1File",
}
"""The class of translate-toolkit that reads each kind of file."""
_XLIFF_2 = re.compile(rb"""<xliff\b[^>]*\sversion=["']2""")
_ESCAPES = str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"})


def has_messages(path: str | os.PathLike) -> bool:
    """Return whether a file is of a kind that `stream_messages` reads, by its suffix."""
    return Path(path).suffix.lower() in _STORES


def stream_messages(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
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
    >>> list(stream_messages(path))
    [('Open\\n', 'Auf\\n')]
    """
    path, found = Path(path), False
    for unit in _read(path).units:
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


def _read(path: Path) -> Any:
    module, kind = _STORES[path.suffix.lower()].split(".")
    content = path.read_bytes()
    if module == "xliff" and _XLIFF_2.search(content):
        module, kind = "xliff2", "Xliff2File"
    try:
        reader = getattr(importlib.import_module(f"translate.storage.{module}"), kind)
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs `pip install 'keras-transformer-mt[documents]'`."
        ) from error
    try:
        messages = reader.parsestring(content)
    except Exception as error:  # Each parser has its own.
        raise ValueError(
            f"{path} is not a {path.suffix} file, or is damaged: {error}. Restore or rename it."
        ) from error
    if module == "tmx":
        _check_languages(path, messages)
    return messages


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
