"""Segmentation of words with random merges left out: BPE-dropout, equal in every process."""

import random
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

_WORD_START = "▁"


class BPEDropout:
    """Segments sentences again with random merges left out (Provilkov et al., 2020).

    As in SentencePiece, a merge that was left out stays out until a neighboring symbol changes.
    SentencePiece's own sampling differs from process to process, whatever its seed.

    Args:
        pieces: The text of each piece, by id.
        scores: The score of each piece that a merge can produce, by id; higher ones come first.

    >>> dropout = BPEDropout(["▁", "a", "b", "ab", "▁ab"], {3: -0.0, 4: -1.0})
    >>> dropout([[4, 4]], rate=0.0, seed=1), dropout([[4, 4]], rate=1.0, seed=1)
    ([[4, 4]], [[0, 1, 2, 0, 1, 2]])
    """

    def __init__(self, pieces: Sequence[str], scores: Mapping[int, float]):
        self._pieces = pieces
        self._ids = {pieces[i]: i for i in range(len(pieces))}
        order = sorted(scores, key=lambda i: -scores[i])
        self._ranks = {pieces[i]: rank for rank, i in enumerate(order)}

    def __call__(self, rows: Sequence[Sequence[int]], rate: float, seed: int) -> list[list[int]]:
        """Segment sentences again.

        Args:
            rows: Token ids of each sentence.
            rate: Probability of leaving out a merge, from 0 to 1.
            seed: Seed of the segmentation.

        Returns:
            The new token ids of each sentence.
        """
        draw = random.Random(seed)
        return [
            [i for word in self._words(row) for i in self._segment(word, rate, draw)]
            for row in rows
        ]

    def _words(self, row: Sequence[int]) -> list[tuple[int, ...]]:
        starts = [n for n, i in enumerate(row) if n and self._pieces[i].startswith(_WORD_START)]
        bounds = [0, *starts, len(row)]
        return [tuple(row[start:end]) for start, end in pairwise(bounds) if start < end]

    def _symbols(self, word: Sequence[int]) -> list[str]:
        """Return a word's characters. A piece that is no merge, such as a byte, stays whole."""
        pieces = (self._pieces[i] for i in word)
        return [s for piece in pieces for s in (piece if piece in self._ranks else [piece])]

    def _segment(self, word: Sequence[int], rate: float, draw: random.Random) -> list[int]:
        symbols: list[str | None] = [*self._symbols(word)]
        # Neighbors of each symbol, while merged symbols disappear.
        before, after = list(range(-1, len(symbols) - 1)), list(range(1, len(symbols) + 1))
        ranks = self._ranks

        def candidate(left, right):
            merged = symbols[left] + symbols[right]
            return (ranks[merged], left, right, merged) if merged in ranks else None

        pairs = (candidate(n, n + 1) for n in range(len(symbols) - 1))
        queue = [pair for pair in pairs if pair]
        heapify(queue)
        while queue:
            _, left, right, merged = heappop(queue)
            if symbols[left] is None or symbols[right] is None:
                continue
            is_current = after[left] == right and symbols[left] + symbols[right] == merged
            if not is_current or draw.random() < rate:
                continue
            symbols[left], symbols[right] = merged, None
            after[left] = after[right]
            if after[right] < len(symbols):
                before[after[right]] = left
                if pair := candidate(left, after[left]):
                    heappush(queue, pair)
            if before[left] >= 0 and (pair := candidate(before[left], left)):
                heappush(queue, pair)
        return [self._ids[symbol] for symbol in symbols if symbol is not None]
