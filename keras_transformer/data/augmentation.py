"""Other text in each pass: case, punctuation, typing errors, joined sentences and user symbols."""

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.config import UNK_ID
from keras_transformer.config.data import AUGMENTATIONS
from keras_transformer.data.encoding import EncodedPairs, offsets_of
from keras_transformer.data.variation import InOrder

if TYPE_CHECKING:
    from keras_transformer.text import SentencePieceTokenizer

Pair = tuple[str, str]

_SAMPLE = 4096
"""Pairs that tell how much longer the text becomes."""
_ENDS = tuple(".!?。！？")
# Options, escapes, variables of LibreOffice, and conversions that programs define themselves.
_ALSO_FIXED = r"(?<!\S)--?[A-Za-z][\w-]*|\\[a-z]|\$\[\w+\]|(?<![\d%])%[A-Za-z]"
_PLURALS = re.compile(r"\{\s*\w+\s*,\s*(?:plural|selectordinal|select)\s*,")
_SHORTEST_WITH_TYPO = 4


class Changes:
    """Changes pairs of texts, the target like the source.

    Placeholders, markup, URLs, options of programs and user symbols stay as they are.

    Args:
        symbols: The user symbols.

    >>> changes, draw = Changes(["%s"]), random.Random(1)
    >>> changes.apply(["upper"], ("Copied %s.", "%s kopiert."), None, draw)
    ('COPIED %s.', '%s KOPIERT.')
    >>> changes.apply(["join", "title"], ("A dog.", "Ein Hund."), ("It runs", "Er rennt"), draw)
    ('A Dog. It Runs', 'Ein Hund. Er Rennt')
    """

    def __init__(self, symbols: Sequence[str]):
        from keras_transformer.text.patterns import PATTERNS, mark_ranges

        # Accelerators are parts of words.
        fixed = [pattern for name, pattern in PATTERNS.items() if name != "accelerators"]
        self._additions = _additions(symbols)
        longest_first = sorted(symbols, key=len, reverse=True)
        fixed += [_ALSO_FIXED, *(re.escape(each) for each in longest_first if each[1:])]
        word = rf"[^\W\d_][\w{mark_ranges()}'’&~-]*"
        self._parts = re.compile(f"(?:{'|'.join(fixed)})|(?P<word>{word})")

    def apply(
        self, names: Sequence[str], pair: Pair, second: Pair | None, draw: random.Random
    ) -> Pair:
        """Return a pair with some changes, or as it is if they don't fit it.

        Args:
            names: Names of `AUGMENTATIONS`, in their order.
            pair: The pair.
            second: A pair that may follow it.
            draw: A source of random numbers.
        """
        source, target = pair
        if any(map(_PLURALS.search, pair)):
            return pair
        for name in names:
            if name == "join" and second and source.endswith(_ENDS) and target.endswith(_ENDS):
                source, target = f"{source} {second[0]}", f"{target} {second[1]}"
            elif name == "no_final_punctuation" and _ends_once(source) and _ends_once(target):
                source, target = source[:-1].rstrip(), target[:-1].rstrip()
            elif name == "upper":
                source, target = self._words(source, _upper), self._words(target, _upper)
            elif name == "title" and "upper" not in names:
                source, target = self._words(source, _titled), self._words(target, _titled)
            elif name == "typos":
                source = self._with_typo(source, draw)
            elif name == "symbols" and self._additions:
                start, end = draw.choice(self._additions)
                source, target = f"{start}{source}{end}", f"{start}{target}{end}"
        return source, target

    def _words(self, text: str, change: Callable[[re.Match], str]) -> str:
        return self._parts.sub(lambda part: change(part) if part["word"] else part[0], text)

    def _with_typo(self, text: str, draw: random.Random) -> str:
        words = [
            match
            for match in self._parts.finditer(text)
            if match["word"] and len(match["word"]) >= _SHORTEST_WITH_TYPO
        ]
        if not words:
            return text
        match = draw.choice(words)
        word, n = match[0], draw.randrange(1, len(match[0]) - 1)
        edits = (
            word[:n] + word[n + 1] + word[n] + word[n + 2 :],  # swapped
            word[:n] + word[n + 1 :],  # missing
            word[: n + 1] + word[n:],  # twice
            word[:n] + draw.choice(word) + word[n + 1 :],  # wrong
        )
        return text[: match.start()] + draw.choice(edits) + text[match.end() :]


def _additions(symbols: Sequence[str]) -> list[Pair]:
    """Return what can be added at the start and the end of a text."""
    additions = []
    for symbol in symbols:
        tag = re.fullmatch(r"<(/?)([\w-]+)>", symbol)
        if tag:
            if not tag[1] and f"</{tag[2]}>" in symbols:
                additions.append((symbol, f"</{tag[2]}>"))
        elif len(symbol) > 1:
            additions += [(f"{symbol} ", ""), ("", f" {symbol}")]
    return additions


def _upper(word: re.Match) -> str:
    return word[0].upper()


def _titled(word: re.Match) -> str:
    before = word.string[word.start() - 1 : word.start()]
    is_start = not before.isalnum()  # Unlike the letters of "2nd".
    return word[0][0].upper() + word[0][1:] if is_start else word[0]


def _ends_once(text: str) -> bool:
    """Return whether a text has one mark at its end, and something before it."""
    return text.endswith(_ENDS) and not text[:-1].endswith(_ENDS) and bool(text[:-1].strip())


def with_cases(
    lines: Iterable[str], rates: Mapping[str, float], symbols: Sequence[str]
) -> Iterator[str]:
    """Yield lines, a share of them in the cases of an augmentation, for a vocabulary to learn.

    Otherwise, it would spell capital letters one by one.

    Args:
        lines: The text.
        rates: Share of the lines by name of `AUGMENTATIONS`; only "upper" and "title" count.
        symbols: The user symbols.

    >>> list(with_cases(["a %s", "b c"], {"upper": 1.0}, ["%s"]))
    ['A %s', 'B C']
    """
    changes, draw = Changes(symbols), random.Random(0)
    for line in lines:
        names = [name for name in ("upper", "title") if draw.random() < rates.get(name, 0)]
        yield changes.apply(names, (line, ""), None, draw)[0] if names else line


class Augmentation:
    """Changes the text of some sentence pairs, others in each pass.

    What happens to a pair depends on the seed, the number of the pass and the place in it.

    Args:
        pairs: Sentence pairs; not modified.
        tokenizers: Source and target tokenizers that encoded the pairs.
        rates: Share of the pairs for each name of `AUGMENTATIONS`.
        max_length: Most tokens of a sentence, eos included. A pair that would become longer stays
            as it is, and so does a pair with unk, whose text is unknown.
        seed: Seed of the changes.

    Attributes:
        growth: How many times as many tokens the text has afterwards, from a sample.

    Raises:
        ValueError: If a rate needs user symbols, and a vocabulary has none.

    >>> from keras_transformer.data import encode_pairs
    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab AB"], vocab_size=265))
    >>> pairs = encode_pairs([("ab", "ab")], tokenizer, tokenizer, max_length=10)
    >>> augmentation = Augmentation(pairs, (tokenizer, tokenizer), {"upper": 1.0}, max_length=10)
    >>> tokenizer.decode([augmentation.segment(0, 0, np.array([0])).result().target_ids])
    ['AB']
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        tokenizers: "tuple[SentencePieceTokenizer, SentencePieceTokenizer]",
        rates: Mapping[str, float],
        *,
        max_length: int,
        seed: int = 0,
    ):
        self.pairs = pairs
        self.seed = seed
        self._tokenizers = tokenizers
        self._rates = {name: rates[name] for name in AUGMENTATIONS if rates.get(name)}
        self._max_length = max_length
        source, target = (tokenizer.user_symbols for tokenizer in tokenizers)
        symbols = [symbol for symbol in source if symbol in target]
        if "symbols" in self._rates and not _additions(symbols):
            raise ValueError(
                "augment_symbols needs user symbols in the vocabulary, such as %s or <b> and </b>, "
                f"received {', '.join(symbols) or 'none'}. Set data.user_symbols for a new "
                "vocabulary, or leave data.augment_symbols out."
            )
        self._changes = Changes(symbols)
        self._start = InOrder()
        self.growth = self._measure()

    def segment(self, number: int, first: int, members: np.ndarray) -> Future[EncodedPairs]:
        """Start to change some pairs, after those of earlier calls; see `Variation.segment`."""
        return self._start(self.changed, number, first, members)

    def changed(self, number: int, first: int, members: np.ndarray) -> EncodedPairs:
        """Return some pairs with their changes; see `Variation.segment`."""
        draws = np.random.default_rng((self.seed, number, first, 3))
        rates = np.array(list(self._rates.values()))
        chosen = draws.random((len(members), len(rates))) < rates
        places = np.flatnonzero(chosen.any(axis=1))
        sides = [self._rows(side, members) for side in (0, 1)]
        tags, pairs = self._texts(sides, np.union1d(places, (places + 1) % len(members)))
        changed: dict[int, Pair] = {}
        for place in places.tolist():
            if place in pairs:
                names = [
                    name for name, is_in in zip(self._rates, chosen[place], strict=True) if is_in
                ]
                second = (place + 1) % len(members)
                follows = pairs.get(second) if tags.get(second) == tags[place] else None
                draw = random.Random(f"{self.seed} {number} {first + place}")
                changed[place] = self._changes.apply(names, pairs[place], follows, draw)
        self._encode(sides, tags, changed)
        arrays = []
        for rows in sides:
            arrays += [np.concatenate(rows), offsets_of(np.fromiter(map(len, rows), np.int64))]
        return EncodedPairs(*arrays)

    def _rows(self, side: int, members: np.ndarray) -> list[np.ndarray]:
        ids, counts = self.pairs.rows(side, members)
        return np.split(ids, np.cumsum(counts)[:-1])

    def _texts(
        self, sides: Sequence[Sequence[np.ndarray]], places: np.ndarray
    ) -> tuple[dict[int, list[int]], dict[int, Pair]]:
        """Return the language tags of some pairs, and the texts of those without unk, by place."""
        known = [n for n in places.tolist() if all(UNK_ID not in rows[n] for rows in sides)]
        tag_ids = self._tokenizers[0].tag_ids
        tags = {n: [i for i in sides[0][n][:1].tolist() if i in tag_ids] for n in known}
        source, target = self._tokenizers
        sources = source.decode([sides[0][n][len(tags[n]) :].tolist() for n in known])
        targets = target.decode([sides[1][n].tolist() for n in known])
        return tags, dict(zip(known, zip(sources, targets, strict=True), strict=True))

    def _encode(
        self,
        sides: Sequence[list[np.ndarray]],
        tags: Mapping[int, list[int]],
        changed: Mapping[int, Pair],
    ) -> None:
        """Put the tokens of changed pairs in their places, unless they are too many."""
        encoded = []
        for side, tokenizer in enumerate(self._tokenizers):
            ids, counts = tokenizer.encode([pair[side] for pair in changed.values()])
            encoded.append(np.split(ids, np.cumsum(counts)[:-1]))
        for place, source, target in zip(changed, *encoded, strict=False):
            source = np.concatenate([np.array(tags[place], np.int32), source])
            if max(len(source), len(target)) < self._max_length:
                sides[0][place], sides[1][place] = source, target

    def _measure(self) -> float:
        members = np.linspace(0, len(self.pairs) - 1, min(_SAMPLE, len(self.pairs))).astype(int)
        after = self.changed(0, 0, members)
        before = self.pairs.source_lengths[members], self.pairs.target_lengths[members]
        # Batches are filled by the longer side.
        longer = np.maximum(after.source_lengths, after.target_lengths).sum()
        # Above 1, since a single sentence can become longer even if the text does not.
        return max(1.001, float(longer / np.maximum(*before).sum()))
