"""Files of text, software messages, pages and subtitles, whose texts are translated in place."""

import contextlib
import functools
import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from keras_transformer.documents.bilingual import load_checker, translate_messages
from keras_transformer.documents.groups import Attempts, Begin, Translate, divide, translate_all
from keras_transformer.documents.json_strings import change_json
from keras_transformer.documents.markdown import IMAGE, MARKS, change_markdown
from keras_transformer.documents.markup import change_html
from keras_transformer.documents.messages import (
    double_apostrophes,
    read_message,
    single_apostrophes,
    translate_forms,
)
from keras_transformer.documents.properties import change_properties
from keras_transformer.documents.subtitles import CUE_TAG, change_subtitles
from keras_transformer.documents.word import change_word, check_size


class _Format(NamedTuple):
    """What reads and writes a kind of file."""

    reader: str = ""
    """A class of translate-toolkit, or docx for python-docx's; "" if this package reads the file.
    """
    change: Callable[..., bytes] | None = None
    """Returns a page with changed texts, given its reader, if it has one, and the page."""
    packages: tuple[str, ...] = ("translate",)
    """What its reader needs."""


_FORMATS: Mapping[str, _Format] = {
    ".txt": _Format(),
    ".po": _Format("po.pofile"),
    ".pot": _Format("po.pofile"),
    ".xliff": _Format("xliff.Xliff1File"),
    ".xlf": _Format("xliff.Xliff1File"),
    ".json": _Format(change=change_json),
    ".arb": _Format(change=functools.partial(change_json, kept="@")),
    ".properties": _Format(change=change_properties),
    ".srt": _Format(change=change_subtitles),
    ".vtt": _Format(change=change_subtitles),
    ".html": _Format("html.htmlfile", change_html),
    ".htm": _Format("html.htmlfile", change_html),
    ".md": _Format(
        "markdown.TranslatingMarkdownRenderer", change_markdown, ("translate", "mistletoe")
    ),
    ".docx": _Format("docx", change_word, ("docx",)),
}
SUFFIXES = tuple(_FORMATS)
"""What `translate_file` reads."""
_GETTEXT = (".po", ".pot")
"""Files whose comments may name the checks that a translation fails."""
_BILINGUAL = (*_GETTEXT, ".xliff", ".xlf")
"""Files that hold a message next to its translation."""
_XML = (".xliff", ".xlf", ".docx")
_MESSAGES = (".json", ".arb", ".properties")
"""Files of messages alone, which may have forms inside."""
_NOT_XML = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, which a vocabulary of bytes may write."""
_XLIFF_2 = re.compile(rb"""<xliff\s[^>]*\bversion\s*=\s*["']2""")
_HEAD = 10_000
"""Bytes in which a file says its version."""
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
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"A document must be one of {' '.join(SUFFIXES)}, received {path}. Convert it, or "
            "rename a plain text to .txt."
        )
    options = ("only_missing", only_missing, _BILINGUAL), ("checks", checks, _GETTEXT)
    for option, is_on, able in options:
        if is_on and suffix not in able:
            raise ValueError(
                f"{option} needs one of {' '.join(able)}, received {path}. Leave it out."
            )
    _load(path, _FORMATS[suffix].reader)


def readable_suffixes() -> list[str]:
    """Return those of `SUFFIXES` whose packages are installed, without importing a package."""

    def is_installed(package: str) -> bool:
        spec = importlib.util.find_spec(package)
        return spec is not None and spec.origin is not None  # A folder of that name has none.

    return [
        suffix
        for suffix, kind in _FORMATS.items()
        if not kind.reader or all(map(is_installed, kind.packages))
    ]


def _load(path: Path, name: str) -> Any:
    """Return the class that reads a file by its name in `_Format`."""
    if not name:
        return None
    module, _, kind = name.partition(".")
    try:
        if name == "docx":
            return importlib.import_module(name).Document
        return getattr(importlib.import_module(f"translate.storage.{module}"), kind)
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs `pip install 'keras-transformer-mt[documents]'`."
        ) from error


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
    suffix = path.suffix.lower()
    name, change, _ = _FORMATS[suffix]
    if suffix == ".txt":
        return _translate_plain(path, output, translate, begin)
    if suffix in _XML:
        translate = functools.partial(_translate_for_xml, translate)
    if suffix == ".properties":
        translate = functools.partial(_translate_for_arguments, translate)
    if suffix == ".docx":
        check_size(path.read_bytes())
    if change:  # Written while they are read.
        change = functools.partial(change, _load(path, name)) if name else change
        return _translate_page(path, output, change, translate, begin)
    messages = read_messages(path, name)
    checker = load_checker(messages.gettargetlanguage()) if checks else None
    failures = translate_messages(messages, translate, only_missing, checker, begin)
    output.write(bytes(messages))
    return failures


def read_messages(path: Path, reader: str) -> Any:
    """Return the messages of a file, as translate-toolkit reads them.

    Args:
        path: The file.
        reader: The name of the class that reads it; for XLIFF, that of version 1.

    Raises:
        ImportError: If a package is missing.
        ValueError: If the file is damaged.
    """
    store = _load(path, reader)
    with _reading(path):
        if path.suffix.lower() in _XML and _XLIFF_2.search(path.read_bytes()[:_HEAD]):
            store = _load(path, "xliff2.Xliff2File")
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
    translate_texts = translate_forms if suffix in _MESSAGES else translate_all
    # A file without forms may be one of other software, and Flutter takes apostrophes as they are.
    if suffix == ".json" and any(map(read_message, texts)):
        translate = functools.partial(_translate_for_arguments, translate)
    found, failures = translate_texts(texts, translate, begin)
    if suffix == ".arb":
        found = {text: single_apostrophes(text, new) for text, new in found.items()}
    output.write(parse(content, lambda text: found.get(text, text)))
    return failures
