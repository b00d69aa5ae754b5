"""A probabilistic context-free grammar read off a treebank, and its exact Viterbi parser.

Rules are Markovized (Klein & Manning 2003, "Accurate Unlexicalized Parsing"): a label knows its
nearest ancestors, and a rule of many children is a chain of binary ones, each of which knows the
last children before it.
"""

import collections
import re
from collections.abc import Iterator, Sequence

import numpy as np

from keras_transformer.trees import Tree

Rule = tuple[str, tuple[str, ...]]
"""A symbol and what it is rewritten as: one or two symbols."""

_TAG = "/"  # Before a tag, which may be spelled like the label of a bracket.
_NOTHING = np.float32(-np.inf)


class Grammar:
    """The rules of a treebank with their relative frequencies.

    Args:
        trees: Normalized trees.
        vertical: The number of labels in a symbol: 1 for the label alone, 2 with its parent.
        horizontal: The number of children before it that a part of a rule knows.
        source: What the parser is given: "words", or "tags" for the tags of the reference.

    >>> from keras_transformer.trees import parse_tree
    >>> tree = parse_tree("(S (NP (PRP We)) (VP (VBD had) (NP (DT the) (JJ hot) (NN tea))))")
    >>> grammar = Grammar([tree] * 2, vertical=1, horizontal=1)
    >>> str(grammar.parse(["We", "had"]))
    'None'
    >>> str(grammar.parse(tree.words)) == str(tree)
    True
    """

    def __init__(
        self, trees: Sequence[Tree], vertical: int = 2, horizontal: int = 1, source: str = "words"
    ):
        counts = collections.Counter(
            rule for tree in trees for rule in rules(tree, vertical, horizontal)
        )
        totals: collections.Counter = collections.Counter()
        for (parent, _), count in counts.items():
            totals[parent] += count
        tags = sorted({_TAG + tag for tree in trees for tag in tree.tags})
        self.symbols = sorted(totals) + tags
        self.numbers = {symbol: number for number, symbol in enumerate(self.symbols)}
        self.num_rules = len(counts)
        self.unary, self.binary = (
            _RuleTable([rule for rule in counts if len(rule[1]) == size], counts, totals, self)
            for size in (1, 2)
        )
        roots = collections.Counter(tree.label for tree in trees)
        self.roots = np.full(len(self.symbols), _NOTHING)
        for label, count in roots.items():
            self.roots[self.numbers[label]] = np.log(count / len(trees))
        self.lexicon = _Lexicon(trees, self) if source == "words" else None

    def parse(self, words: Sequence[str]) -> Tree | None:
        """Return the most probable tree of a sentence, or None if it has none.

        Args:
            words: The words, or the tags if the grammar is one of tags.
        """
        size = len(words)
        before = np.full([size, size + 1, len(self.symbols)], _NOTHING)  # without unary rules
        chart = before.copy()
        for width in range(1, size + 1):
            for start in range(size - width + 1):
                end = start + width
                if width == 1:
                    before[start, end] = self._leaf(words[start])
                else:
                    before[start, end] = self.binary.best(
                        *(chart[start, start + 1 : end], chart[start + 1 : end, end])
                    )
                chart[start, end] = self._close(before[start, end])
        scores = chart[0, size] + self.roots
        if scores.max() == _NOTHING:
            return None
        return _Reading(self, words, before, chart).tree(int(scores.argmax()), 0, size)[0]

    def _leaf(self, word: str) -> np.ndarray:
        if self.lexicon is not None:
            return self.lexicon.scores(word)
        scores = np.full(len(self.symbols), _NOTHING)
        if _TAG + word in self.numbers:
            scores[self.numbers[_TAG + word]] = 0
        return scores

    def _close(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores [K] after any number of unary rules."""
        while True:
            better = np.maximum(scores, self.unary.best(scores[np.newaxis]))
            if (better == scores).all():
                return better
            scores = better


class _RuleTable:
    """The unary or the binary rules, sorted by their parents."""

    def __init__(self, rules, counts, totals, grammar):
        self.size = len(grammar.symbols)
        rules = sorted(rules, key=lambda rule: grammar.numbers[rule[0]])
        self.scores = np.float32([np.log(counts[rule] / totals[rule[0]]) for rule in rules])
        sides = zip(*(rule[1] for rule in rules), strict=True)
        self.children = [np.array([grammar.numbers[name] for name in side]) for side in sides]
        self.of = np.array([grammar.numbers[rule[0]] for rule in rules], np.int64)
        self.parents, self.starts = np.unique(self.of, return_index=True)

    def best(self, *charts: np.ndarray) -> np.ndarray:
        """Return the best score of each symbol [K], given those of its children [splits, K]."""
        result = np.full(self.size, _NOTHING)
        if len(self.of):
            best = self._sum(charts, slice(None)).max(axis=0)
            result[self.parents] = np.maximum.reduceat(best, self.starts)
        return result

    def choose(self, symbol: int, *charts: np.ndarray) -> tuple[int, list[int], float]:
        """Return the best split of a symbol, its children and their score."""
        (which,) = np.nonzero(self.of == symbol)
        if not len(which):
            return 0, [], float(_NOTHING)
        sums = self._sum(charts, which)
        split, rule = np.unravel_index(sums.argmax(), sums.shape)
        children = [int(side[which[rule]]) for side in self.children]
        return int(split), children, float(sums[split, rule])

    def _sum(self, charts, which):
        scores = self.scores[which]
        for chart, side in zip(charts, self.children, strict=True):
            scores = scores + chart[:, side[which]]
        return scores


class _Reading:
    """Finds the tree of the best score in a chart."""

    def __init__(self, grammar, words, before, chart):
        self.grammar = grammar
        self.words = words
        self.before = before
        self.chart = chart

    def tree(self, symbol: int, start: int, end: int) -> list[Tree]:
        """Return the tree of a symbol over some words, or the trees of a part of a rule."""
        grammar, name = self.grammar, self.grammar.symbols[symbol]
        if name.startswith(_TAG):
            return [Tree(name[1:], word=self.words[start])]
        if self.chart[start, end, symbol] > self.before[start, end, symbol]:
            _, (child,), _ = grammar.unary.choose(symbol, self.chart[start, end][np.newaxis])
            children = self.tree(child, start, end)
        else:
            left, right = self.chart[start, start + 1 : end], self.chart[start + 1 : end, end]
            split, (first, second), _ = grammar.binary.choose(symbol, left, right)
            middle = start + 1 + split
            children = self.tree(first, start, middle) + self.tree(second, middle, end)
        return children if "|" in name else [Tree(name.split("^")[0], tuple(children))]


class _Lexicon:
    """The probabilities of words given their tags. Words that occur once stand for unknown ones."""

    def __init__(self, trees, grammar):
        leaves = [(leaf.word, leaf.label) for tree in trees for leaf in tree.leaves()]
        frequency = collections.Counter(word for word, _ in leaves)
        tags = collections.Counter(tag for _, tag in leaves)
        self._size = len(grammar.symbols)
        self._scores: dict[str, dict[int, float]] = collections.defaultdict(dict)
        counts: collections.Counter = collections.Counter()
        for word, tag in leaves:
            counts[word, tag] += 1
            if frequency[word] == 1:
                counts[shape(word), tag] += 1
                counts["", tag] += 1
        for (word, tag), count in counts.items():
            self._scores[word][grammar.numbers[_TAG + tag]] = np.log(count / tags[tag])

    def scores(self, word: str) -> np.ndarray:
        """Return the logarithm of the probability of a word for each symbol [K]."""
        names = (word, shape(word), "")
        found = next((self._scores[name] for name in names if name in self._scores), {})
        scores = np.full(self._size, _NOTHING)
        scores[list(found)] = list(found.values())
        return scores


def rules(tree: Tree, vertical: int, horizontal: int) -> Iterator[Rule]:
    """Yield the rules of a tree, Markovized.

    >>> from keras_transformer.trees import parse_tree
    >>> for rule in rules(parse_tree("(S (NP (DT a) (JJ b) (NN c)))"), vertical=2, horizontal=1):
    ...     print(*rule)
    S ('NP^S',)
    NP^S ('/DT', 'NP^S|DT')
    NP^S|DT ('/JJ', '/NN')
    """

    def visit(tree: Tree, ancestors: tuple[str, ...]) -> Iterator[Rule]:
        known = (tree.label, *ancestors)
        symbol = "^".join(known[:vertical])
        names = [
            _TAG + child.label
            if child.word is not None
            else "^".join((child.label, *known)[:vertical])
            for child in tree.children
        ]
        parent = symbol
        for number in range(1, len(names) - 1):
            last = tree.children[max(number - horizontal, 0) : number]
            rest = f"{symbol}|{' '.join(child.label for child in last)}"
            yield parent, (names[number - 1], rest)
            parent = rest
        yield parent, tuple(names[-2:])
        for child in tree.children:
            if child.word is None:
                yield from visit(child, known)

    return visit(tree, ())


def shape(word: str) -> str:
    """Return what an unknown word has in common with others: capitals, digits and its ending.

    >>> shape("Parsing"), shape("12-year")
    ('<A -ing>', '<0 hyphen>')
    """
    parts = []
    if word[0].isupper():
        parts.append("AA" if word.isupper() and len(word) > 1 else "A")
    if any(char.isdigit() for char in word):
        parts.append("0")
    if "-" in word:
        parts.append("hyphen")
    ending = re.search(r"(ing|ed|ly|ion|er|est|ity|al|ble|ous|s|y)$", word)
    if ending and len(word) > len(ending[0]) + 2 and "0" not in parts:
        parts.append(f"-{ending[0]}")
    return f"<{' '.join(parts)}>"
