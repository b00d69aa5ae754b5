"""What filters find in parallel text, with examples."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from keras_transformer.config.filters import FILTERS
from keras_transformer.data.encoding import Map
from keras_transformer.data.filters import Part, TextFilters
from keras_transformer.data.sources import Corpus
from keras_transformer.utils.progress import progress

_SHOWN = 300
"""The most characters of a side that an example shows."""


@dataclass
class Findings:
    """What filters find in a text."""

    pairs: int = 0
    """Number of pairs."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of pairs that each filter finds."""
    examples: dict[str, list[str]] = field(default_factory=dict)
    """Some of them, with the places where they are."""

    def report(self, dropped: Sequence[str] = ()) -> str:
        """Return a table, and the examples.

        Args:
            dropped: The filters that are on.

        >>> print(Findings(2000, {"tags": 50, "urls": 0}, {"tags": ["..."]}).report(["urls"]))
        2,000 sentence pairs; the filters find
          tags       50  2.5%  pairs with other tags on one side
          urls (on)   0  0.0%  pairs with other URLs on one side
        <BLANKLINE>
        tags, for example
        ...
        """
        names = {name: f"{name} (on)" if name in dropped else name for name in self.counts}
        width = max(map(len, names.values()), default=0)
        digits = max((len(f"{count:,}") for count in self.counts.values()), default=0)
        lines = [f"{self.pairs:,} sentence pairs; the filters find"]
        for name, count in self.counts.items():
            share = 100 * count / max(self.pairs, 1)
            lines.append(
                f"  {names[name]:<{width}}  {count:>{digits},} {share:4.1f}%  pairs {FILTERS[name]}"
            )
        for name, examples in self.examples.items():
            if examples:
                lines += ["", f"{name}, for example", *examples]
        return "\n".join(lines)


def inspect_text(
    corpora: Sequence[Corpus], filters: TextFilters, examples: int = 0, mapped: Map = map
) -> Findings:
    """Count what filters find in a text, and pick examples at random.

    Args:
        corpora: The text.
        filters: The filters, made for it.
        examples: Number of examples of each filter.
        mapped: Applies a function to parts of the text.

    Returns:
        The counts and the examples, the same ones each time.

    >>> pairs = [("%d files", "%s Dateien"), ("OK", "OK")]
    >>> corpus = Corpus("a.tsv", lambda: iter(pairs))
    >>> found = inspect_text([corpus], TextFilters(("placeholders",), [corpus]), examples=1)
    >>> found.counts, found.examples
    ({'placeholders': 1}, {'placeholders': ['  line 1\\n    %d files\\n    %s Dateien']})
    """
    found = Findings(counts=dict.fromkeys(filters.names, 0))
    chosen: dict[str, list[int]] = {name: [] for name in filters.names}
    draw = random.Random(1)
    with progress("inspecting", "pairs") as advance:
        for rows in mapped(Part.found, filters.parts(corpora)):
            for name, row in zip(filters.names, rows, strict=True):
                for place in (found.pairs + np.flatnonzero(row)).tolist():
                    found.counts[name] += 1
                    _sample(chosen[name], place, examples, found.counts[name], draw)
            found.pairs += rows.shape[1]
            advance(rows.shape[1])
    earlier = {
        (name, place): int(filters.partners[name][place])
        for name in filters.partners
        for place in chosen[name]
    }
    texts = _texts(corpora, {*itertools.chain(*chosen.values()), *earlier.values()})
    for name, places in chosen.items():
        found.examples[name] = []
        for place in sorted(places):
            text, other = texts[place], earlier.get((name, place), place)
            if other != place:
                text += f"\n  repeats {texts[other].lstrip()}"
            found.examples[name].append(text)
    return found


def _sample(chosen: list[int], place: int, size: int, count: int, draw: random.Random) -> None:
    """Keep a random sample of the places seen so far, of which this is number `count`."""
    if len(chosen) < size:
        chosen.append(place)
    elif (index := draw.randrange(count)) < size:
        chosen[index] = place


def _texts(corpora: Sequence[Corpus], places: set[int]) -> dict[int, str]:
    """Return the pairs at some places of all corpora, each with the name of its corpus."""
    texts, last = {}, max(places, default=-1)
    numbered = ((c.name, *line) for c in corpora for line in enumerate(c.pairs(), start=1))
    for place, (name, line, pair) in enumerate(itertools.islice(numbered, last + 1)):
        if place in places:
            where = f"{name}, line {line:,}" if len(corpora) > 1 else f"line {line:,}"
            sides = (side if len(side) <= _SHOWN else f"{side[:_SHOWN]}…" for side in pair)
            texts[place] = "\n    ".join((f"  {where}", *sides))
    return texts
