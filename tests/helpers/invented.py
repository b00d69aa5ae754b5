"""Text to train vocabularies on: a few lines, and sentences of many invented words."""

import random

LINES = [
    "the dog sees the cat .",
    "the cat sees 20 small dogs .",
    "a small house (new) stands here .",
    "the small cat stands here , and there is the dog .",
]
SYLLABLES = "ba de fi go ku la me ni po ra so tu ve wi zo sten gar lich mon ter".split()


def invented_pairs(count: int, seed: int = 3) -> list[tuple[str, str]]:
    """Return sentences of 18 to 28 invented words, and the same words spelled backward.

    Subwords are shared between words.
    """
    choose = random.Random(seed)

    def word() -> str:
        return "".join(choose.choices(SYLLABLES, k=choose.choice([1, 1, 2])))

    sentences = [[word() for _ in range(choose.randint(18, 28))] for _ in range(count)]
    return [(" ".join(words), " ".join(each[::-1] for each in words)) for words in sentences]
