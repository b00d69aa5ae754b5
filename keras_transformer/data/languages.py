"""Text for models of several target languages: tags of sources, and how corpora are mixed."""

from collections.abc import Iterable, Iterator, Sequence

from keras_transformer.config.data import language_tag
from keras_transformer.text.base import starts_with_tag


def tag_sources(pairs: Iterable[tuple[str, str]], language: str) -> Iterator[tuple[str, str]]:
    """Yield sentence pairs with the tag of the target language in front of the source.

    An empty source stays empty.

    Raises:
        ValueError: If a source begins with a tag already.

    >>> list(tag_sources([("a dog", "ein Hund"), ("", "leer")], "de"))
    [('>>de<< a dog', 'ein Hund'), ('', 'leer')]
    """
    tag = language_tag(language)
    for source, target in pairs:
        if starts_with_tag(source):
            raise ValueError(
                f"Sources must not begin with a tag, because {tag} is put there, received "
                f"{source[:40]!r}. Remove the tags from the text, or leave the languages out."
            )
        yield (f"{tag} {source}" if source.strip() else source), target


def without_tag(source: str) -> str:
    """Return a source sentence without the tag in front of it.

    >>> without_tag(">>de<< a dog"), without_tag("a dog")
    ('a dog', 'a dog')
    """
    return source.partition("<<")[2].lstrip() if starts_with_tag(source) else source


def temperature_weights(sizes: Sequence[int], temperature: float) -> list[float]:
    """Return how often a pass has each pair of some corpora, by temperature sampling.

    A corpus of n pairs gets a share of the pass that is proportional to n^(1/T) (Arivazhagan et
    al., 2019, "Massively Multilingual Neural Machine Translation in the Wild"). A pass has as many
    pairs as all corpora together.

    Args:
        sizes: Number of pairs of each corpus.
        temperature: T, at least 1: 1 has each pair once, and a higher one raises the share of small
            corpora.

    Returns:
        A number for each corpus; 1 for an empty one.

    Of 90,000 and 10,000 pairs, T = 2 makes shares of 300 to 100, so 75,000 and 25,000 of a pass:

    >>> temperature_weights([90_000, 10_000], temperature=2)
    [0.8333333333333334, 2.5]
    """
    powers = [size ** (1 / temperature) for size in sizes]
    pairs_per_share = sum(sizes) / (sum(powers) or 1)
    return [
        pairs_per_share * power / size if size else 1.0
        for size, power in zip(sizes, powers, strict=True)
    ]
