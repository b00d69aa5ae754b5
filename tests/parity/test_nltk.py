"""The parser of the baseline compared with NLTK's Viterbi parser."""

import collections
import math
import random

import pytest

from benchmarks.pcfg import Grammar, rules
from keras_transformer.trees import Tree

nltk = pytest.importorskip("nltk")
pytestmark = pytest.mark.parity


def random_tree(choose, depth, label="S"):
    """Return a tree of random labels and tags, so that a grammar of such trees is ambiguous."""
    children = []
    for _ in range(choose([1, 2, 2, 3])):
        if depth == 0 or choose([True, False]):
            children.append(Tree(choose("ab"), word="word"))
        else:
            children.append(random_tree(choose, depth - 1, choose(["S", "X", "Y"])))
    return Tree(label, tuple(children))


@pytest.mark.parametrize(("vertical", "horizontal"), [(1, 0), (1, 2), (2, 1)])
def test_the_best_tree_is_as_probable_as_that_of_nltk(vertical, horizontal):
    choose = random.Random(vertical).choice
    trees = [random_tree(choose, 3) for _ in range(30)]
    counts = collections.Counter(
        rule for tree in trees for rule in rules(tree, vertical, horizontal)
    )
    totals = collections.Counter()
    for (parent, _), count in counts.items():
        totals[parent] += count
    symbol = nltk.grammar.Nonterminal
    productions = [
        nltk.grammar.ProbabilisticProduction(
            symbol(parent),
            [child if child.startswith("/") else symbol(child) for child in children],
            prob=count / totals[parent],
        )
        for (parent, children), count in counts.items()
    ]
    parser = nltk.parse.ViterbiParser(nltk.grammar.PCFG(symbol("S"), productions))
    grammar = Grammar(trees, vertical, horizontal, "tags")
    compared = 0
    for _ in range(40):
        tags = [choose("ab") for _ in range(choose(range(1, 7)))]
        expected = next(iter(parser.parse([f"/{tag}" for tag in tags])), None)
        tree = grammar.parse(tags)
        assert (tree is None) == (expected is None)
        if tree is None:
            continue
        used = rules(tree, vertical, horizontal)
        received = sum(math.log2(counts[rule] / totals[rule[0]]) for rule in used)
        assert received == pytest.approx(expected.logprob(), abs=1e-4)
        compared += 1
    assert compared > 20
