"""Text for benchmarks without a corpus: made-up words, the same in every checkout."""

from itertools import accumulate
from random import Random

WORDS = 5000
"""Words of each language; together they have enough subwords for a vocabulary of 7,000."""


def made_up_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Return sentence pairs of 4 to 16 made-up words, of frequencies as in natural text (Zipf).

    >>> made_up_pairs(2) == made_up_pairs(3)[:2], len(set(made_up_pairs(100)))
    (True, 100)
    """
    rng = Random(seed)
    source, target = _words(rng, "bdfgklmnprst"), _words(rng, "chjkmpqtvwxz")
    weights = list(accumulate(1 / rank for rank in range(1, WORDS + 1)))
    pairs = []
    for _ in range(count):
        chosen = rng.choices(range(WORDS), cum_weights=weights, k=rng.randint(4, 16))
        # The last word of the source is the second one of its translation, as a German verb.
        order = [chosen[0], chosen[-1], *chosen[1:-1]]
        pairs.append((" ".join(source[i] for i in chosen), " ".join(target[i] for i in order)))
    return pairs


def _words(rng: Random, consonants: str) -> list[str]:
    words: dict[str, None] = {}  # It keeps the order.
    while len(words) < WORDS:
        syllables = (rng.choice(consonants) + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))
        words["".join(syllables)] = None
    return list(words)
