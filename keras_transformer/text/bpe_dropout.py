"""Segmentation of words with random merges left out: BPE-dropout, equal in every process.

Run as a program, this file segments what it reads. It imports nothing that takes time or memory.
"""

import pickle
import random
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate, chain, pairwise
from math import log, log1p

_WORD_START = "▁"
_NEVER = sys.maxsize
_MOST_WORDS = 200_000
"""Number of words whose usual segmentation is remembered."""


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
        self.pieces, self.scores = list(pieces), dict(scores)
        self._ids = {pieces[i]: i for i in range(len(pieces))}
        self._starts = [piece.startswith(_WORD_START) for piece in self.pieces]
        order = sorted(scores, key=lambda i: -scores[i])
        self._ranks = {pieces[i]: rank for rank, i in enumerate(order)}
        self._whole: dict[tuple[int, ...], tuple[list[int], int]] = {}

    def __call__(self, rows: Sequence[Sequence[int]], rate: float, seed: int) -> list[list[int]]:
        """Segment sentences again.

        Args:
            rows: Token ids of each sentence.
            rate: Probability of leaving out a merge, from 0 to 1.
            seed: Seed of the segmentation.

        Returns:
            The new token ids of each sentence.
        """
        draw = random.Random(seed).random
        return [
            [i for word in self._words(row) for i in self._varied(word, rate, draw)] for row in rows
        ]

    def _words(self, row: Sequence[int]) -> list[tuple[int, ...]]:
        starts = self._starts
        bounds = [0, *(n for n, i in enumerate(row) if n and starts[i]), len(row)]
        return [tuple(row[start:end]) for start, end in pairwise(bounds) if start < end]

    def _varied(
        self, word: tuple[int, ...], rate: float, draw: Callable[[], float]
    ) -> Sequence[int]:
        """Return a word segmented again. For most words, that takes one random number."""
        whole = self._whole.get(word)
        if whole is None:
            if len(self._whole) >= _MOST_WORDS:
                self._whole.clear()
            whole = self._whole[word] = self._segment(word, 0.0, draw, _NEVER)
        ids, merges = whole
        # The first merge that is left out has a geometric distribution.
        number = 1.0 - draw()
        first = int(log(number) / log1p(-rate)) if 0 < rate < 1 else (0 if rate else _NEVER)
        return ids if first >= merges else self._segment(word, rate, draw, first)[0]

    def _symbols(self, word: Sequence[int]) -> list[str]:
        """Return a word's characters. A piece that is no merge, such as a byte, stays whole."""
        pieces = (self.pieces[i] for i in word)
        return [s for piece in pieces for s in (piece if piece in self._ranks else [piece])]

    def _segment(
        self, word: Sequence[int], rate: float, draw: Callable[[], float], first: int
    ) -> tuple[list[int], int]:
        """Segment a word again, in which the merge after the first ones is left out.

        Returns the new token ids, and the number of merges that were made or left out.
        """
        tried = 0
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
            if not is_current:
                continue
            tried += 1
            if tried > first and (tried == first + 1 or draw() < rate):
                continue
            symbols[left], symbols[right] = merged, None
            after[left] = after[right]
            if after[right] < len(symbols):
                before[after[right]] = left
                if pair := candidate(left, after[left]):
                    heappush(queue, pair)
            if before[left] >= 0 and (pair := candidate(before[left], left)):
                heappush(queue, pair)
        return [self._ids[symbol] for symbol in symbols if symbol is not None], tried


def vary(
    dropout: BPEDropout,
    rows: Sequence[Sequence[int]],
    rate: float,
    *,
    max_length: int,
    unk_id: int,
    seeds: Iterable[int],
) -> list[Sequence[int]]:
    """Segment sentences again, each with its own seed.

    Args:
        dropout: The vocabulary.
        rows: Token ids of each sentence.
        rate: Probability of leaving out a merge, from 0 to 1.
        max_length: Most tokens of a sentence, eos included. A sentence that would become longer
            keeps its segmentation, and so does a sentence with unk, whose text is unknown.
        unk_id: The id of unk.
        seeds: A seed for each sentence.

    Returns:
        The new token ids of each sentence.

    >>> dropout = BPEDropout(["▁", "a", "b", "ab", "▁ab"], {3: -0.0, 4: -1.0})
    >>> vary(dropout, [[4, 4], [4]], rate=1.0, max_length=5, unk_id=9, seeds=[1, 2])
    [[4, 4], [0, 1, 2]]
    """
    varied = []
    for row, seed in zip(rows, seeds, strict=True):
        if unk_id not in row:
            [new] = dropout([row], rate, seed)
            row = new if len(new) < max_length else row
        varied.append(row)
    return varied


def main() -> None:
    """Read vocabularies, and then tasks for `vary`; write the results."""
    read, write = sys.stdin.buffer, sys.stdout.buffer
    vocabularies, options = pickle.load(read)
    dropouts = {side: BPEDropout(*vocabulary) for side, vocabulary in vocabularies.items()}
    while True:
        try:
            side, ids, counts, seeds = pickle.load(read)
        except EOFError:  # The other process has ended.
            return
        bounds = [0, *accumulate(array("q", counts))]
        flat = array("i", ids)
        rows = [flat[start:end].tolist() for start, end in pairwise(bounds)]
        varied = vary(dropouts[side], rows, seeds=seeds, **options)
        lengths = array("q", map(len, varied))
        pickle.dump((array("i", chain(*varied)).tobytes(), lengths.tobytes()), write, protocol=5)
        write.flush()


if __name__ == "__main__":
    main()
