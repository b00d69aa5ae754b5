"""Sentence pairs from the files of translators: .po, XLIFF, TMX and Qt's .ts."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.documents.files import read_messages
from keras_transformer.documents.xliff import is_kept

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
    stays. Of a message with plural forms, the first and the last form of both sides are pairs. The
    sources of TMX are in the language that its header names as srclang, or else in the first one.
    Messages that are fuzzy, not approved, obsolete, without a translation or not to be translated
    are left out.

    Args:
        path: A file whose suffix is .po, .xliff, .xlf, .tmx or .ts.

    Yields:
        Pairs `(source, target)`.

    Raises:
        ImportError: If translate-toolkit is missing.
        ValueError: If the file is damaged, has no translated message, or has more than two
            languages, or is a TMX whose srclang is none of them.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "de.po")
    >>> _ = path.write_text('msgid "Open\\n"\nmsgstr "Auf\\n"\n\nmsgid "Save"\nmsgstr ""\n')
    >>> list(stream_catalog(path))
    [('Open\\n', 'Auf\\n')]
    """
    path, found = Path(path), False
    messages = read_messages(path, _STORES[path.suffix.lower()])
    if path.suffix.lower() == ".tmx":
        _choose_languages(path, messages)
    elif path.suffix.lower() != ".po":
        _check_languages(path, messages)
    for unit in messages.units:
        if not (unit.isheader() or unit.isobsolete() or _is_unfinished(unit) or is_kept(unit)):
            for source, target in _forms(unit):
                if source.strip() and target.strip():
                    found = True
                    yield source.translate(_ESCAPES), target.translate(_ESCAPES)
    if not found:
        raise ValueError(
            f"{path} must have messages with a translation, received none that is finished. Leave "
            "the file out, or remove the marks of fuzzy translations that are right."
        )


def _choose_languages(path: Path, memory: Any) -> None:
    """Set which of the two languages of a translation memory is that of the sources."""
    attribute = "{http://www.w3.org/XML/1998/namespace}lang"
    versions = list(memory.document.iter("{*}tuv"))
    for each in versions:  # TMX 1.1 has lang.
        each.set(attribute, _language(each.get(attribute) or each.get("lang")))
    languages = list(dict.fromkeys(each.get(attribute) for each in versions))
    shown = ", ".join(sorted(languages))
    if len(languages) > 2:
        raise ValueError(
            f"{path} must have two languages, received {shown}. Export a memory of two from the "
            "program that wrote it."
        )
    named = _language(memory.sourcelanguage)
    # An en of the header may be the en-us of the text.
    matching = [name for name in languages if named in (name, "", "*all*")] or [
        name for name in languages if name.partition("-")[0] == named.partition("-")[0]
    ]
    if languages and not matching:
        raise ValueError(
            f"{path} must have one of its languages as srclang, received {named} for {shown}. "
            "Correct it in the header."
        )
    source = next(iter(matching), None)
    memory.setsourcelanguage(source)
    memory.settargetlanguage(next((name for name in languages if name != source), None))


def _check_languages(path: Path, messages: Any) -> None:
    """Check that the files inside of an XLIFF have the same two languages."""
    files = list(messages.document.iter("{*}file"))
    for side in ("source", "target"):
        names = {_language(each.get(f"{side}-language")) for each in files} - {""}
        if len(names) > 1:
            raise ValueError(
                f"{path} must have one {side}-language in all of its files, received "
                f"{', '.join(sorted(names))}. Export a file for each pair of languages from the "
                "program that wrote it."
            )


def _language(name: str | None) -> str:
    return (name or "").lower().replace("_", "-")


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
