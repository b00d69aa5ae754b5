"""Messages next to their translations: filled in, marked and checked by translate-toolkit."""

import importlib
import re
from typing import Any

from keras_transformer.documents.groups import Begin, Translate, shown
from keras_transformer.documents.messages import translate_forms
from keras_transformer.documents.xliff import (
    has_elements,
    is_kept,
    read_targets,
    read_texts,
    write_texts,
)

_MOST_FORMS = 6
"""Forms of a plural, which Arabic has; a file may say a billion."""
_CHECK = "(pofilter) "
"""What a comment that names a check starts with."""
_REPEATED = re.compile(r"(.+?)(?:, \1)+")
"""The reason of a check that several forms of a plural fail."""


def load_checker(language: str | None = None) -> Any:
    """Return the checks of translate-toolkit's pofilter, without that of spelling.

    Args:
        language: The code of the target language, which some checks depend on.

    Raises:
        ImportError: If translate-toolkit is missing.
    """
    try:
        checks = importlib.import_module("translate.filters.checks")
    except ImportError as error:
        raise ImportError("Checks need `pip install 'keras-transformer-mt[documents]'`.") from error
    config = checks.CheckerConfig(targetlanguage=language)
    return checks.StandardChecker(config, excludefilters=["spellcheck"])


def translate_messages(
    store: Any, translate: Translate, only_missing: bool, checker: Any, begin: Begin
) -> list[str]:
    """Fill in the translations of messages, and return a line for each that stays as it was.

    Args:
        store: The messages, as translate-toolkit reads them.
        translate: Translates texts.
        only_missing: Whether messages that have a translation keep it.
        checker: What `load_checker` returns; None for no checks.
        begin: Is called before the first text is translated.
    """
    units = [unit for unit in store.units if unit.istranslatable() and not is_kept(unit)]
    if only_missing:
        units = [unit for unit in units if not all(_targets(unit))]
    texts = [text for unit in units for text in _strings(unit)]
    found, failures = translate_forms(texts, translate, begin)
    for unit in units:
        texts = _strings(unit)
        if not texts or not found.keys() >= set(texts):
            continue
        forms = [found[text] for text in texts]
        try:
            if has_elements(unit):
                write_texts(unit, forms, only_missing)
            elif len(forms) > 1:
                count = _plural_forms(store)
                forms = [forms[0], *forms[1:] * count][:count] if count > 1 else forms[-1:]
                kept = _targets(unit) if only_missing else []
                kept += [""] * (count - len(kept))
                unit.target = [old or new for old, new in zip(kept, forms, strict=False)]
            else:
                _set_text(unit, forms[0])
            _mark(unit)
            if checker:
                _note_checks(unit, checker)
        except (SyntaxError, _CheckError) as error:  # The first is that of XML.
            failures.append(f"{shown(texts[0])}: {error}")
    return failures


class _CheckError(Exception):
    """A check of translate-toolkit has an error."""


def _note_checks(unit: Any, checker: Any) -> None:
    """Write the checks that a message fails into its comments, instead of those of an earlier run.

    Raises:
        _CheckError: If a check has an error.
    """
    newline = getattr(unit, "newline", "\n")
    notes = unit.getnotes("translator").split(newline)
    others = [note for note in notes if not note.startswith(_CHECK)]
    if len(others) < len(notes):
        unit.removenotes("translator")
        unit.addnote(newline.join(others), "translator")
    try:
        failed = checker.run_filters(unit)
    except ValueError as error:
        raise _CheckError(f"its checks failed: {error.__cause__ or error}") from error
    for name, reason in failed.items():
        reason = " ".join(reason.split())
        repeated = _REPEATED.fullmatch(reason)
        unit.adderror(name, repeated[1] if repeated else reason)


def _set_text(unit: Any, text: str) -> None:
    if (old := getattr(unit, "target_dom", None)) is not None:
        for each in list(old):  # translate-toolkit would keep them.
            old.remove(each)
    unit.target = text


def _mark(unit: Any) -> None:
    """Mark a message, and those of its plural forms, as one to be reviewed."""
    unit.markfuzzy()
    for each in (unit, *getattr(unit, "units", ())):
        if getattr(each, "rootNode", None) == "trans-unit":  # XLIFF 1.
            each.markapproved(False)
            if each.target_dom is not None:
                each.target_dom.set("state", "needs-review-translation")


def _targets(unit: Any) -> list[str]:
    """Return the forms that a message has in the target language, which may be empty."""
    node = getattr(unit, "target_dom", None)
    if node is not None and len(node) > 0:
        return read_targets(unit)
    return [str(form or "") for form in getattr(unit.target, "strings", [unit.target])] or [""]


def _strings(unit: Any) -> list[str]:
    """Return the text of a message, its singular and plural, or those that have elements inside."""
    if has_elements(unit):
        return read_texts(unit)
    forms = getattr(unit.source, "strings", [unit.source])
    return [str(text) for text in forms if isinstance(text, str)]


def _plural_forms(store: Any) -> int:
    """Return how many forms a message with a plural has in the target language."""
    count = getattr(store, "getheaderplural", lambda: (None,))()[0]
    return min(int(count), _MOST_FORMS) if count and count.isdigit() else 2
