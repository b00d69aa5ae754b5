"""Files of text, software messages, pages and subtitles, whose texts are translated in place."""

import contextlib
import functools
import importlib.util
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from keras_transformer.documents.groups import (
    Attempts,
    Begin,
    Translate,
    divide,
    shown,
    translate_all,
)
from keras_transformer.documents.markdown import (
    DIVISION,
    FRONT,
    IMAGE,
    LABEL,
    MARKS,
    NOTE,
    escape_start,
    find_definitions,
    from_tags,
    hide,
    show,
    to_tags,
)
from keras_transformer.documents.markup import change_html
from keras_transformer.documents.messages import (
    double_apostrophes,
    read_message,
    single_apostrophes,
    write_message,
)
from keras_transformer.documents.properties import change_properties
from keras_transformer.documents.subtitles import CUE_TAG, change_subtitles
from keras_transformer.documents.word import change_word, check_size
from keras_transformer.documents.xliff import (
    has_elements,
    is_kept,
    read_targets,
    read_texts,
    write_texts,
)

_STORES: Mapping[str, str | None] = {
    ".po": "po.pofile",
    ".pot": "po.pofile",
    ".xliff": "xliff.Xliff1File",
    ".xlf": "xliff.Xliff1File",
    ".json": None,
    ".arb": None,
    ".properties": None,
    ".srt": None,
    ".vtt": None,
    ".html": "html.htmlfile",
    ".htm": "html.htmlfile",
    ".md": "markdown.TranslatingMarkdownRenderer",
    ".docx": "docx",
}
"""What reads each kind of file: a class of translate-toolkit, python-docx, or this package."""
SUFFIXES = (".txt", *_STORES)
"""What `translate_file` reads."""
_PACKAGES = {".md": ("translate", "mistletoe"), ".docx": ("docx",)}
"""What other kinds than those of translate-toolkit alone need."""
_GETTEXT = (".po", ".pot")
"""Files whose comments may name the checks that a translation fails."""
_BILINGUAL = (*_GETTEXT, ".xliff", ".xlf")
"""Files that hold a message next to its translation."""
_XML = (".xliff", ".xlf", ".docx")
_MESSAGES = (".json", ".arb", ".properties")
"""Files of messages alone, which may have forms inside."""
_JSON_TOKEN = re.compile(r'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")(?P<colon>\s*:)?|[{}\[\]]')
_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, which a vocabulary of bytes may write."""
_NUMBER = "{icu_number}"
"""The placeholder that stands for the `#` of a plural form while it is translated."""
_XLIFF_2 = re.compile(rb"""<xliff\s[^>]*\bversion\s*=\s*["']2""")
_HEAD = 10_000
"""Bytes in which a file says its version."""
_MOST_FORMS = 6
"""Forms of a plural, which Arabic has; a file may say a billion."""
_CHECK = "(pofilter) "
"""What a comment that names a check starts with."""
_REPEATED = re.compile(r"(.+?)(?:, \1)+")
"""The reason of a check that several forms of a plural fail."""

_NOT_TRANSLATED = (
    r"""<\w[^<>]*\s(?i:translate\s*=\s*["']?no\b|class\s*=\s*["']?(?:[^"'<>]*\s)?notranslate\b)"""
    r"[^<>]*>[^<]*</[^<>]*>"
)
"""An element that HTML says is not to be translated, without others inside."""
KEPT = (
    rf"all re:`[^`]+`|<code\b[^<>]*>(?:[^<]|<[^/]|</[^c])*</code>|{_NOT_TRANSLATED}"
    rf"|{IMAGE}|{MARKS}|\\\||{CUE_TAG}"
)
"""What is kept in all but plain text, as `DecodingConfig.protect`.

With code, what has `translate="no"`, images, footnotes, comments, formulas and attributes of
Markdown, `\\|` and the tags of subtitles that are none of HTML.
"""


def check_suffix(path: Path, only_missing: bool = False, checks: bool = False) -> None:
    """Check that a file can be translated, before a model is loaded.

    Raises:
        ValueError: If it is of another kind, or `only_missing` or `checks` does not apply to it.
        ImportError: If a package is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"A document must be one of {' '.join(SUFFIXES)}, received {path}. Convert it, or "
            "rename a plain text to .txt."
        )
    for option, able in {
        "only_missing": _BILINGUAL if only_missing else SUFFIXES,
        "checks": _GETTEXT if checks else SUFFIXES,
    }.items():
        if path.suffix.lower() not in able:
            raise ValueError(
                f"{option} needs one of {' '.join(able)}, received {path}. Leave it out."
            )
    _store(path)


def readable_suffixes() -> list[str]:
    """Return those of `SUFFIXES` whose packages are installed, without importing a package."""

    def is_installed(package: str) -> bool:
        spec = importlib.util.find_spec(package)
        return spec is not None and spec.origin is not None  # A folder of that name has none.

    return [
        suffix
        for suffix in SUFFIXES
        if _STORES.get(suffix) is None
        or all(map(is_installed, _PACKAGES.get(suffix, ("translate",))))
    ]


def _store(path: Path, stores: Mapping[str, str | None] = _STORES) -> Any:
    """Return the class that reads a file, or None if no other package does."""
    if (name := stores.get(path.suffix.lower())) is None:
        return None
    try:
        return _load(name)
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs `pip install 'keras-transformer-mt[documents]'`."
        ) from error


def _load(name: str) -> Any:
    if name == "docx":
        return importlib.import_module(name).Document
    module, _, kind = name.partition(".")
    return getattr(importlib.import_module(f"translate.storage.{module}"), kind)


def translate_file(
    path: Path,
    output: BinaryIO,
    translate: Translate,
    only_missing: bool = False,
    checks: bool = False,
    begin: Begin = lambda size: None,
) -> list[str]:
    """Translate a file, and keep its structure, keys, comments and markup.

    Args:
        path: The file, whose suffix is one of `SUFFIXES`. A plain text is read, translated and
            written part by part.
        output: Where to write the translated file.
        translate: Translates texts, some at a time.
        only_missing: Whether messages that have a translation keep it.
        checks: Whether a comment names each check of `load_checker` that a new translation fails.
        begin: Is called before the first text is translated.

    Returns:
        A line for each text that stays as it was, because its translation failed, or whose checks
        failed with an error.

    Raises:
        ValueError: If the file is damaged or too large, or an option does not apply to it.
    """
    check_suffix(path, only_missing, checks)
    store, suffix = _store(path), path.suffix.lower()
    if suffix == ".txt":
        return _translate_plain(path, output, translate, begin)
    if suffix in _XML:
        translate = functools.partial(_translate_for_xml, translate)
    if suffix == ".properties":
        translate = functools.partial(_translate_for_arguments, translate)
    if suffix == ".docx":
        check_size(path.read_bytes())
    if change := _PAGES.get(suffix):  # Written while they are read.
        change = functools.partial(change, store) if store else change
        return _translate_page(path, output, change, translate, begin)
    messages = read_messages(path)
    checker = load_checker(messages.gettargetlanguage()) if checks else None
    failures = _translate_messages(messages, translate, only_missing, checker, begin)
    output.write(bytes(messages))
    return failures


def read_messages(path: Path, stores: Mapping[str, str | None] = _STORES) -> Any:
    """Return the messages of a file, as translate-toolkit reads them.

    Args:
        path: The file.
        stores: The class of translate-toolkit for each suffix.

    Raises:
        ImportError: If a package is missing.
        ValueError: If the file is damaged.
    """
    store = _store(path, stores)
    with _reading(path):
        if path.suffix.lower() in _XML and _XLIFF_2.search(path.read_bytes()[:_HEAD]):
            store = _load("xliff2.Xliff2File")
        messages = store.parsefile(str(path))
        if indent := getattr(messages, "XMLindent", None):  # Blanks between segments are text.
            messages.XMLindent = {**indent, "leaves": {*indent.get("leaves", ()), "seg-source"}}
        return messages


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # Each parser has its own.
        mend = "Restore or rename it."
        if path.suffix.lower() in _GETTEXT and isinstance(error, UnicodeError):
            mend = "Convert it with `msgconv -t utf-8`, or restore it."
        raise ValueError(
            f"{path} is not a {path.suffix} file, or is damaged: {error}. {mend}"
        ) from error


def _translate_plain(path, output, translate, begin):
    with _reading(path), _open(path) as file:
        begin(sum(map(len, file)))
    attempts = Attempts(translate)
    with _open(path) as file:
        if file.read(1) == "\ufeff":
            output.write("\ufeff".encode())
        else:
            file.seek(0)
        for lines in divide(file):
            pairs = zip(lines, attempts(lines), strict=True)
            output.write("".join(old if new is None else new for old, new in pairs).encode())
    return attempts.end()


def _open(path):
    return path.open(encoding="utf-8", newline="\n")


def _translate_for_xml(translate, texts):
    return [_NOT_XML.sub("", text) for text in translate(texts)]


def _translate_for_arguments(translate, texts):
    return [*map(double_apostrophes, texts, translate(texts))]


def _translate_page(path, output, parse, translate, begin):
    content, texts = path.read_bytes(), []
    with _reading(path):
        parse(content, lambda text: texts.append(text) or text)
    suffix = path.suffix.lower()
    translate_texts = _translate_forms if suffix in _MESSAGES else translate_all
    # A file without forms may be one of other software, and Flutter takes apostrophes as they are.
    if suffix == ".json" and any(map(read_message, texts)):
        translate = functools.partial(_translate_for_arguments, translate)
    found, failures = translate_texts(texts, translate, begin)
    if suffix == ".arb":
        found = {text: single_apostrophes(text, new) for text, new in found.items()}
    output.write(parse(content, lambda text: found.get(text, text)))
    return failures


def _change_markdown(renderer, content, change):
    from mistletoe.block_token import Document

    end = "\r\n" if 2 * content.count(b"\r\n") > content.count(b"\n") else "\n"
    text = content.decode().replace("\r\n", "\n")
    front = FRONT.match(text)[0]
    names = find_definitions(text)

    def callback(text, *_):
        text = text.strip()
        if not text or text.endswith(NOTE) or text.startswith(DIVISION):
            return text
        text = show(text)
        label = LABEL.match(text)[0]
        text = text.removeprefix(label)
        return hide(label + escape_start(from_tags(change(to_tags(text, names))), text))

    # The file of translate-toolkit reads tables before all else, also those in a list or code.
    with renderer(callback, extract_code_blocks=False, no_placeholders=True) as page:
        lines = io.StringIO(hide(text.removeprefix(front), notes=True), newline="\n")
        written = page.render(Document(lines))
    return (front + show(written)).replace("\n", end).encode()


def _change_json(content, change, kept=None):
    """Return JSON with changed strings, and all else as it is written; keep keys as `kept`."""
    encoding = json.detect_encoding(content)
    text = content.decode(encoding)
    json.loads(text)  # Raises an error if it is damaged.
    depth, is_kept = 0, False

    def replace(token):
        nonlocal depth, is_kept
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token[0], 0)
        if token["colon"] and depth == 1:
            is_kept = kept is not None and json.loads(token["string"]).startswith(kept)
        if token["colon"] or is_kept or len(token[0]) <= len('""'):
            return token[0]
        old = json.loads(token[0])
        new = change(old)
        # Half of a pair of surrogates has no encoding.
        is_ascii = any("\ud800" <= each <= "\udfff" for each in new)
        return token[0] if new == old else json.dumps(new, ensure_ascii=is_ascii)

    return _JSON_TOKEN.sub(replace, text).encode(encoding)


_PAGES: Mapping[str, Callable[..., bytes]] = {
    ".html": change_html,
    ".htm": change_html,
    ".md": _change_markdown,
    ".docx": change_word,
    ".json": _change_json,
    ".arb": functools.partial(_change_json, kept="@"),
    ".properties": change_properties,
    ".srt": change_subtitles,
    ".vtt": change_subtitles,
}


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


def _translate_messages(store, translate, only_missing, checker, begin):
    units = [unit for unit in store.units if unit.istranslatable() and not is_kept(unit)]
    if only_missing:
        units = [unit for unit in units if not all(_targets(unit))]
    texts = [text for unit in units for text in _strings(unit)]
    found, failures = _translate_forms(texts, translate, begin)
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


def _translate_forms(
    texts: Sequence[str], translate: Translate, begin: Begin
) -> tuple[Mapping[str, str], list[str]]:
    """Return the same as `translate_all`, for messages that may have forms inside."""
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
