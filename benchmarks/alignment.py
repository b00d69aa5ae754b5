"""The errors of word alignments, for 50 captions of Multi30k that were aligned by hand.

    python -m benchmarks.alignment --model saved_models/multi30k_en_de \
        --source val.en.gz --target val.de.gz

AER is the alignment error rate (Och and Ney, 2003). Every second caption is scored; the others are
the half that one row chooses a head on. `alignments.tsv` has the lines of the captions
in Multi30k's validation text, English and German, and the links of their words, from 0: i-j is
sure and i?j is possible.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.report import print_report, table_line
from keras_transformer.data import read_pairs
from keras_transformer.translation import Translator
from keras_transformer.translation.alignment import head_names

GOLD = Path(__file__).with_name("alignments.tsv")

Links = set[tuple[int, int]]


def read_gold(path: Path) -> dict[int, tuple[Links, Links]]:
    """Return the sure links, and all links, by the line of their caption, from 0."""
    gold = {}
    for row in path.read_text(encoding="utf-8").splitlines():
        line, links = row.split("\t")
        found = re.findall(r"(\d+)([-?])(\d+)", links)
        sure = {(int(i), int(j)) for i, kind, j in found if kind == "-"}
        gold[int(line) - 1] = sure, {(int(i), int(j)) for i, _, j in found}
    return gold


def score(found: Sequence[Links], gold: Sequence[tuple[Links, Links]]) -> list[float]:
    """Return the alignment error rate, the precision and the recall of links.

    >>> sure, possible = {(0, 0)}, {(0, 0), (1, 0)}
    >>> score([{(0, 0), (1, 0), (2, 0), (3, 0)}], [(sure, possible)])
    [0.4, 0.5, 1.0]
    """
    pairs = list(zip(found, gold, strict=True))
    links, sure = sum(map(len, found)), sum(len(sure) for sure, _ in gold)
    hits = sum(len(links & possible) for links, (_, possible) in pairs)
    sure_hits = sum(len(links & sure) for links, (sure, _) in pairs)
    return [1 - (hits + sure_hits) / (links + sure), hits / links, sure_hits / sure]


def diagonal(source: str, target: str) -> Links:
    """Return links between the words at the same relative places.

    >>> sorted(diagonal("a b", "A B C D"))
    [(0, 0), (0, 1), (1, 2), (1, 3)]
    """
    words, length = len(source.split()), len(target.split())
    return {((2 * j + 1) * words // (2 * length), j) for j in range(length)}


def report(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the report."""
    gold, pairs = read_gold(GOLD), read_pairs(options.source, options.target)
    captions = [pairs[line] for line in gold]
    translator = Translator.load(options.model)
    chosen = translator.align(*zip(*pairs, strict=True)).head
    found = {}
    for name in head_names(translator.model.config):
        links = translator.align(*zip(*captions, strict=True), head=name).links
        found[name] = [set(row) for row in links]

    def scores(links: Sequence[Links], half: int = 0) -> list[float]:
        return score(links[half::2], list(gold.values())[half::2])

    best = min(found, key=lambda name: scores(found[name], half=1)[0])
    last = f"{translator.model.config.decoder_layers}.mean.output"
    rows = {
        "between words at the same relative places": [diagonal(*caption) for caption in captions],
        f"mean of the last layer, `{last}`": found[last],
        f"head with the lowest AER on the other half, `{best}`": found[best],
        f"head chosen without alignments, `{chosen}`": found[chosen],
    }
    yield "| links | AER | precision | recall |\n|---|--:|--:|--:|"
    for name, links in rows.items():
        yield table_line([name, *(f"{number:.1%}" for number in scores(links))])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with command-line arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alignment")
    parser.add_argument("--model", required=True, help="a model that Translator.load reads")
    parser.add_argument("--source", type=Path, required=True, help="Multi30k's val.en")
    parser.add_argument("--target", type=Path, required=True, help="Multi30k's val.de")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    options = parser.parse_args(arguments)
    print_report(report(options), options.output)


if __name__ == "__main__":
    main()
