"""Files of text, software messages, pages and subtitles, whose texts are translated in place."""

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.translation.markdown import from_tags, to_tags

Translate = Callable[[Sequence[str]], list[str]]
"""Translates texts of any length; see `Translator.documents`."""

_STORES = {
    ".po": "po.pofile",
    ".pot": "po.pofile",
    ".xliff": "xliff.Xliff1File",
    ".xlf": "xliff.Xliff1File",
    ".json": "jsonl10n.JsonNestedFile",
    ".arb": "jsonl10n.ARBJsonFile",
    ".properties": "properties.javautf8file",
    ".srt": "subtitles.SubtitleFile",
    ".vtt": "subtitles.SubtitleFile",
    ".html": "html.htmlfile",
    ".htm": "html.htmlfile",
    ".md": "markdown.MarkdownFile",
}
"""The class of translate-toolkit that reads each kind of file."""
_PAGES = (".html", ".htm", ".md")
"""Files that are written while they are read, with a function that translates."""
SUFFIXES = (".txt", *_STORES)
"""What `translate_file` reads."""
_SHOWN = 60

KEPT = r"all re:`[^`]+`|!\[[^\[\]]*\]\([^()]*\)"
"""What is kept in all but plain text, as `DecodingConfig.protect`: with code and images."""


class UnreadableError(ValueError):
    """A file that is damaged, or of another kind than its name says."""


def check_suffix(path: Path) -> None:
    """Check that a file can be translated, before a model is loaded.

    Raises:
        ValueError: If it is of another kind.
        ImportError: If a package is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"A document must be one of {' '.join(SUFFIXES)}, received {path}. Convert it, or "
            "rename a plain text to .txt."
        )
    _store(path)


def _store(path: Path) -> Any:
    """Return the class that reads a file, or None for plain text."""
    if (name := _STORES.get(path.suffix.lower())) is None:
        return None
    module, _, kind = name.partition(".")
    try:
        return getattr(importlib.import_module(f"translate.storage.{module}"), kind)
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs `pip install 'keras-transformer-mt[documents]'`."
        ) from error


def translate_file(
    path: Path, translate: Translate, only_missing: bool = False
) -> tuple[bytes, list[str]]:
    """Translate a file, and keep its structure, keys, comments and markup.

    Args:
        path: The file, whose suffix is one of `SUFFIXES`.
        translate: Translates texts.
        only_missing: Whether messages that have a translation keep it.

    Returns:
        The content of the translated file; and a line for each text that stays as it was, because
        its translation failed.

    Raises:
        UnreadableError: If the file is damaged.
    """
    store = _store(path)
    if store is None:
        return _translate_plain(path, translate)
    if path.suffix.lower() in _PAGES:
        return _translate_page(store, path, translate)
    with _reading(path):
        messages = store.parsefile(str(path))
    return _translate_messages(messages, translate, only_missing)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # Each parser has its own.
        raise UnreadableError(
            f"{path} is not a {path.suffix} file, or is damaged: {error}. Restore or rename it."
        ) from error


def _translate_plain(path, translate):
    with _reading(path):
        text = path.read_bytes().decode("utf-8")
    mark = "\ufeff" * text.startswith("\ufeff")
    text = text.removeprefix(mark)
    found, failures = _translate_all([text], translate)
    return (mark + found.get(text, text)).encode(), failures


def _translate_page(store, path, translate):
    content, texts, options = path.read_bytes(), [], {}
    is_markdown = path.suffix.lower() == ".md"
    if is_markdown:
        skipped = "extract_code_blocks", "extract_frontmatter"
        options = {**dict.fromkeys(skipped, False), "no_placeholders": True}

    def parse(change):
        def callback(text, docpath="", **_):
            return text if docpath.endswith("[lang]") else change(text)

        callback.context_aware = True
        page = store(callback=callback, **options)
        page.parse(content)
        return page.filesrc

    def collect(text):
        texts.append(text)
        return text

    with _reading(path):
        parse(collect)
    encode, decode = (to_tags, from_tags) if is_markdown else (str, str)
    found, failures = _translate_all(map(encode, texts), translate)
    return parse(lambda text: decode(found.get(encode(text), encode(text)))).encode(), failures


def _translate_messages(store, translate, only_missing):
    units = [unit for unit in store.units if unit.istranslatable()]
    if only_missing:
        units = [unit for unit in units if not _has_translation(unit)]
    has_markup = [unit for unit in units if _has_markup(unit)]
    failures = [f"{_shown(unit.source)}: it has inline elements" for unit in has_markup]
    units = [unit for unit in units if not _has_markup(unit)]
    found, failed = _translate_all([x for unit in units for x in _strings(unit)], translate)
    for unit in units:
        forms = [found[text] for text in _strings(unit) if text in found]
        if len(forms) < len(_strings(unit)):
            continue
        if len(forms) > 1:
            count = _plural_forms(store)
            unit.target = [forms[0], *forms[1:] * count][:count] if count > 1 else forms[-1:]
        elif forms:
            unit.target = forms[0]
        unit.markfuzzy()
    return bytes(store), failures + failed


def _strings(unit) -> list[str]:
    """Return the text of a message, or its singular and plural."""
    source = unit.source
    forms = getattr(source, "strings", [source])
    return [str(text) for text in forms if isinstance(text, str)]


def _has_translation(unit) -> bool:
    return any(getattr(unit.target, "strings", [unit.target])) and unit.target is not unit.source


def _has_markup(unit) -> bool:
    """Return whether a message of XLIFF has elements inside, which a text cannot hold."""
    node = getattr(unit, "source_dom", None)
    return node is not None and len(node) > 0


def _plural_forms(store) -> int:
    """Return how many forms a message with a plural has in the target language."""
    count = getattr(store, "getheaderplural", lambda: (None,))()[0]
    return int(count) if count and count.isdigit() else 2


def _translate_all(
    texts: Iterable[str], translate: Translate
) -> tuple[Mapping[str, str], list[str]]:
    """Return the translations of texts, and a line for each that failed.

    Raises:
        Exception: If all fail, the error of the last one.
    """
    distinct = list(dict.fromkeys(texts))
    with contextlib.suppress(Exception):  # One text may have caused it.
        return dict(zip(distinct, translate(distinct), strict=True)), []
    found, failures = {}, []
    for text in distinct:
        try:
            (found[text],) = translate([text])
        except Exception as error:
            failures.append(f"{_shown(text)}: {error}")
            if len(failures) == len(distinct):
                raise
    return found, failures


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]} ...")
