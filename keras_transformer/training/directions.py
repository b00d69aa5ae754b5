"""Validation text of several target languages, each scored on its own."""

from collections.abc import Sequence

from keras_transformer.config.data import language_tag
from keras_transformer.evaluation import score
from keras_transformer.training.text import Pairs


def direction_scores(
    translations: Sequence[str], pairs: Pairs, languages: Sequence[str] = ()
) -> dict[str, float]:
    """Return `val_bleu`, and with languages also that of each, such as `val_bleu_de`.

    With languages, `val_bleu` is the mean of theirs, whatever their numbers of sentences. Pairs
    with an empty source, which has no tag, don't count.

    Args:
        translations: Translations of the sources.
        pairs: Sources, with tags if there are languages, and reference translations.
        languages: The target languages, none if sources have no tags.

    >>> pairs = [(">>de<< a dog here", "ein Hund ist hier"), (">>fr<< a cat", "un chat est ici")]
    >>> scores = direction_scores(["ein Hund ist hier", "der Hund"], pairs, ["de", "fr"])
    >>> {name: round(bleu) for name, bleu in scores.items()}
    {'val_bleu': 50, 'val_bleu_de': 100, 'val_bleu_fr': 0}
    """
    references = [target for _, target in pairs]
    if not languages:
        return {"val_bleu": score(translations, references).bleu}
    bleus = {}
    for language, places in _places(pairs, languages).items():
        bleus[f"val_bleu_{language}"] = score(
            [translations[i] for i in places], [references[i] for i in places]
        ).bleu
    return {"val_bleu": sum(bleus.values()) / len(bleus), **bleus}


def sample(pairs: Pairs, count: int | None, languages: Sequence[str]) -> Pairs:
    """Return the given number of pairs, or all, at equal distances.

    With languages, each has an equal share, rounded up, or all of its pairs if it has fewer. Pairs
    with an empty side don't count, unless all pairs are returned.

    >>> sample([("a", "1"), ("b", "2"), ("", ""), ("c", "3"), ("d", "4")], 2, [])
    [('a', '1'), ('c', '3')]
    """
    if count is None or not languages:
        return evenly_spaced(pairs, count)
    groups = _places(pairs, languages).values()
    share = -(-count // len(groups))
    return [pair for group in groups for pair in evenly_spaced([pairs[i] for i in group], share)]


def evenly_spaced(pairs: Pairs, count: int | None) -> Pairs:
    """Return the given number of pairs, or all, at equal distances.

    Pairs with an empty side don't count, unless all pairs are returned.

    >>> evenly_spaced([("a", "1"), ("b", "2"), ("", ""), ("c", "3"), ("d", "4")], 2)
    [('a', '1'), ('c', '3')]
    """
    if count is None or count >= len(pairs):
        return pairs
    full = [pair for pair in pairs if all(side.strip() for side in pair)]
    count = min(count, len(full))
    return [full[number * len(full) // count] for number in range(count)]


def _places(pairs: Pairs, languages: Sequence[str]) -> dict[str, list[int]]:
    """Return where the pairs of each language are."""
    return {
        language: [
            i for i, (source, _) in enumerate(pairs) if source.startswith(language_tag(language))
        ]
        for language in dict.fromkeys(languages)
    }
