"""Files of text, software messages, pages and subtitles, whose texts are translated in place."""

import contextlib
import importlib
import re
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
_BILINGUAL = (".po", ".pot", ".xliff", ".xlf")
"""Files that hold a message beside its translation."""
_XMLNS = re.compile(r"""\sxmlns(?::\w+)?=("[^"]*"|'[^']*')""")
_SHOWN = 60

KEPT = r"all re:`[^`]+`|!\[[^\[\]]*\]\([^()]*\)"
"""What is kept in all but plain text, as `DecodingConfig.protect`: with code and images."""


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
        ValueError: If the file is damaged, or `only_missing` does not apply to it.
    """
    if only_missing and path.suffix.lower() not in _BILINGUAL:
        raise ValueError(
            f"only_missing needs one of {' '.join(_BILINGUAL)}, received {path}. Leave it out."
        )
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
        raise ValueError(
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
        units = [unit for unit in units if not any(getattr(unit.target, "strings", [unit.target]))]
    found, failures = _translate_all([x for unit in units for x in _strings(unit)], translate)
    for unit in units:
        texts = _strings(unit)
        if not texts or not found.keys() >= set(texts):
            continue
        forms = [found[text] for text in texts]
        try:
            if len(forms) > 1:
                count = _plural_forms(store)
                unit.target = [forms[0], *forms[1:] * count][:count] if count > 1 else forms[-1:]
            elif _has_elements(unit):
                unit.set_target_dom(_element(unit, forms[0]))
            else:
                unit.target = forms[0]
            unit.markfuzzy()
        except SyntaxError as error:  # No XML.
            failures.append(f"{_shown(texts[0])}: {error}")
    return bytes(store), failures


def _strings(unit: Any) -> list[str]:
    """Return the text of a message, or its singular and plural."""
    if _has_elements(unit):
        from lxml import etree

        xml = etree.tostring(unit.source_dom, encoding="unicode", with_tail=False)
        return [_XMLNS.sub("", xml[xml.index(">") + 1 : xml.rindex("</")])]
    forms = getattr(unit.source, "strings", [unit.source])
    return [str(text) for text in forms if isinstance(text, str)]


def _has_elements(unit: Any) -> bool:
    """Return whether a message of XLIFF has elements inside."""
    node = getattr(unit, "source_dom", None)
    return node is not None and len(node) > 0


def _element(unit: Any, text: str) -> Any:
    """Return the target of a message of XLIFF that has elements inside."""
    from lxml import etree

    names = unit.source_dom.nsmap.items()
    spaces = " ".join(f'xmlns{f":{name}" if name else ""}="{uri}"' for name, uri in names)
    return etree.fromstring(f"<target {spaces}>{text}</target>")


def _plural_forms(store: Any) -> int:
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
