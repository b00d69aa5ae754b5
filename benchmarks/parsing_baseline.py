"""The scores of a grammar read off a treebank: a baseline for models that learn to parse.

    python -m benchmarks.parsing_baseline --train train.mrg --dev dev.mrg
    python -m benchmarks.parsing_baseline --train train.mrg --dev dev.mrg --source words \
        --vertical 1 2 3 --horizontal 0 1 2

Each row is a grammar with another Markovization; see `benchmarks.pcfg`. Its parser is exact. With
`--source tags` it is given the part-of-speech tags of the reference, and no words. "F1 to 40" is
that of sentences of at most 40 words.
"""

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.machine import describe_machine
from benchmarks.pcfg import Grammar
from benchmarks.report import print_report, table_line
from keras_transformer.data import read_trees
from keras_transformer.evaluation import score_brackets
from keras_transformer.trees import Tree

HEADER = """\
| source | vertical | horizontal | symbols | rules | no tree | F1 | F1 to 40 | precision | recall \
| complete | seconds |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""


def evaluate(grammar: Grammar, references: Sequence[Tree], source: str) -> list[str]:
    """Return the cells of a row: the scores of the trees that a grammar finds.

    A sentence without a tree gets a single bracket around all words.
    """
    start = time.perf_counter()
    predicted, failures = [], 0
    for reference in references:
        tree = grammar.parse(reference.words if source == "words" else reference.tags)
        if tree is None:
            failures += 1
            tree = Tree("S", tuple(reference.leaves()))
        predicted.append(with_words(tree, reference.words))
    seconds = time.perf_counter() - start
    scores = score_brackets(predicted, references)
    short = score_brackets(predicted, references, max_words=40)
    numbers = (scores.f1, short.f1, scores.precision, scores.recall, scores.complete_match)
    counts = (len(grammar.symbols), grammar.num_rules, failures)
    return [*map(str, counts), *(f"{number:.2f}" for number in numbers), f"{seconds:.0f}"]


def with_words(tree: Tree, words: Sequence[str]) -> Tree:
    """Return a tree with other words.

    >>> str(with_words(Tree("NP", (Tree("NN", word="NN"),)), ["tea"]))
    '(NP (NN tea))'
    """
    left = iter(words)

    def replace(tree: Tree) -> Tree:
        if tree.word is not None:
            return Tree(tree.label, word=next(left))
        return Tree(tree.label, tuple(replace(child) for child in tree.children))

    return replace(tree)


def report(options: argparse.Namespace) -> Iterator[str]:
    """Yield the lines of the report."""
    train, dev = read_trees(options.train), read_trees(options.dev)
    if options.max_words is not None:
        dev = [tree for tree in dev if len(tree.words) <= options.max_words]
    yield HEADER
    combinations = itertools.product(options.source, options.vertical, options.horizontal)
    for source, vertical, horizontal in combinations:
        grammar = Grammar(train, vertical, horizontal, source)
        yield table_line([source, vertical, horizontal, *evaluate(grammar, dev, source)])
    yield f"\n- {len(train):,} trees to learn from, {len(dev):,} to parse. {describe_machine()}."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark with command-line arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parsing_baseline")
    parser.add_argument("--train", type=Path, required=True, help="trees to learn from")
    parser.add_argument("--dev", type=Path, required=True, help="trees to parse")
    parser.add_argument("--source", nargs="+", choices=("words", "tags"), default=["words", "tags"])
    parser.add_argument("--vertical", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--horizontal", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--max-words", type=int, help="parse only sentences up to this length")
    parser.add_argument("--output", type=Path, help="also write the report to this file")
    options = parser.parse_args(arguments)
    print_report(report(options), options.output)


if __name__ == "__main__":
    main()
