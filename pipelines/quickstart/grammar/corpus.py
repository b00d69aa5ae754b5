"""The corpus: distinct random sentence pairs, and its splits."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from pipelines.quickstart.grammar import (
    conditions,
    embedded,
    main_sentences,
    questions,
    reasons,
    scenes,
)
from pipelines.quickstart.grammar.pairs import Pair

# Sentence patterns and their relative frequencies.
_PATTERNS: dict[Callable[[Random], Pair], int] = {
    main_sentences.deed: 400,
    main_sentences.description: 22,
    main_sentences.state: 16,
    main_sentences.comparison: 28,
    main_sentences.age: 32,
    main_sentences.profession: 12,
    main_sentences.price: 14,
    scenes.possession: 20,
    scenes.existence: 14,
    scenes.whereabouts: 24,
    scenes.animal: 24,
    scenes.passive: 30,
    scenes.weather: 12,
    questions.yes_or_no: 50,
    questions.who: 15,
    questions.what: 25,
    questions.why: 15,
    questions.when: 15,
    questions.where: 20,
    questions.how_much: 20,
    questions.which: 15,
    reasons.because_of_state: 25,
    reasons.because_of_quality: 25,
    reasons.because_of_need: 12,
    reasons.excuse: 20,
    reasons.although: 20,
    reasons.purpose: 30,
    conditions.in_weather: 20,
    conditions.if_there_is_time: 15,
    conditions.meanwhile: 20,
    conditions.contrast: 20,
    embedded.reported: 35,
    embedded.unknown: 30,
    embedded.attempt: 20,
    embedded.relative_subject: 12,
    embedded.relative_object: 15,
    embedded.relative_thing: 20,
    embedded.relative_person: 10,
}
_LONGEST = 18  # English words
_PATIENCE = 20_000  # consecutive draws without a new pair


@dataclass(frozen=True)
class GeneratedCorpus:
    """Pairs of an English sentence and its German translation; the splits share no sentence."""

    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


def generate_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Generate distinct pairs of an English sentence and its German translation.

    No English and no German sentence occurs twice. With the same seed, a longer list starts with
    the pairs of a shorter one.

    Args:
        count: The number of pairs. 100,000 take about eight seconds.
        seed: Seed of all random choices.

    Returns:
        The pairs, in random order.

    Raises:
        ValueError: If `count` is negative or exceeds the number of distinct pairs.

    >>> pairs = generate_pairs(100, seed=3)
    >>> len({english for english, _ in pairs}), len({german for _, german in pairs})
    (100, 100)
    """
    if count < 0:
        raise ValueError(f"count must be at least 0, received {count}.")
    rng = Random(seed)
    patterns, weights = list(_PATTERNS), list(accumulate(_PATTERNS.values()))
    pairs: list[Pair] = []
    seen: set[str] = set()
    fruitless = 0
    while len(pairs) < count:
        (pattern,) = rng.choices(patterns, cum_weights=weights)
        english, german = pattern(rng)
        if english in seen or german in seen or len(english.split()) > _LONGEST:
            fruitless += 1
            if fruitless == _PATIENCE:
                raise ValueError(
                    f"count is {count}, but the generator found only {len(pairs)} distinct pairs:"
                    f" the last {_PATIENCE} draws gave nothing new. Ask for fewer pairs."
                )
            continue
        fruitless = 0
        seen.update((english, german))
        pairs.append((english, german))
    return pairs


def generated_corpus(
    train: int = 50_000, validation: int = 500, test: int = 500, seed: int = 0
) -> GeneratedCorpus:
    """Generate a corpus whose splits share no English and no German sentence.

    The test and validation pairs do not depend on the size of the training split.

    Args:
        train: The number of training pairs.
        validation: The number of validation pairs.
        test: The number of test pairs.
        seed: Seed of all random choices.

    Returns:
        The three splits.

    Raises:
        ValueError: If a size is negative or the grammar has too few distinct pairs.

    >>> corpus = generated_corpus(train=30, validation=2, test=1)
    >>> len(corpus.train), len(corpus.validation), len(corpus.test)
    (30, 2, 1)
    """
    for name, size in (("train", train), ("validation", validation), ("test", test)):
        if size < 0:
            raise ValueError(f"{name} must be at least 0 pairs, received {size}.")
    pairs = generate_pairs(test + validation + train, seed)
    held_out = test + validation
    return GeneratedCorpus(
        train=pairs[held_out:], validation=pairs[test:held_out], test=pairs[:test]
    )
