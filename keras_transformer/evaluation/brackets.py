"""Labeled bracket F1 of constituency trees, as EVALB counts with COLLINS.prm."""

import collections
import dataclasses
from collections.abc import Sequence

from keras_transformer.evaluation.json_scores import JsonScores
from keras_transformer.trees.tree import Tree

_PUNCTUATION = frozenset([",", ":", "``", "''", "."])
"""Tags of words that do not count."""

_UNCOUNTED = _PUNCTUATION | {"TOP"}
"""Labels of brackets that do not count."""

_EQUAL = {"PRT": "ADVP"}
"""Labels that count as another one."""


@dataclasses.dataclass(frozen=True)
class BracketScores(JsonScores):
    """Scores of the trees of a corpus.

    Attributes:
        f1: Harmonic mean of precision and recall, 0 to 100.
        precision: Percentage of the predicted brackets that are in the reference.
        recall: Percentage of the brackets of the reference that are predicted.
        complete_match: Percentage of the sentences whose brackets are all right.
        sentences: Number of sentences that count. Sentences of punctuation only are skipped.
        errors: Number of sentences that do not count, because their words are different or there is
            no predicted tree.
        matched: Number of predicted brackets that are in the reference.
        predicted: Number of predicted brackets.
        reference: Number of brackets of the reference.
    """

    f1: float
    precision: float
    recall: float
    complete_match: float
    sentences: int
    errors: int
    matched: int
    predicted: int
    reference: int

    def __str__(self) -> str:
        return (
            f"F1 {self.f1:.2f}, precision {self.precision:.2f}, recall {self.recall:.2f}, complete "
            f"match {self.complete_match:.2f}, sentences: {self.sentences:,}, errors: "
            f"{self.errors:,}"
        )


def score_brackets(
    predicted: Sequence[Tree | None], references: Sequence[Tree], max_words: int | None = None
) -> BracketScores:
    """Return labeled precision, recall and F1 of the brackets of trees, and complete matches.

    A predicted bracket is right if the reference has one with the same label over the same words;
    each bracket of the reference counts once. As in EVALB with COLLINS.prm, punctuation is removed
    first, with brackets around nothing else; TOP does not count, nor do part-of-speech tags; and
    PRT equals ADVP. The reference decides what punctuation is, so that predicted trees need no
    tags. On normalized trees with the right tags of punctuation, F1, precision and recall
    are those of EVALB; on original files, it also counts brackets that normalization removes.

    Args:
        predicted: Predicted trees, normalized; None for a sentence without one.
        references: The trees of the reference, normalized, in the same order.
        max_words: Leave out sentences with more words (punctuation included), usually 40.

    Returns:
        The `BracketScores` of the corpus, which are not averages of sentence scores.

    Raises:
        ValueError: If the numbers of trees differ or no sentence is left.

    >>> from keras_transformer.trees import parse_tree
    >>> reference = parse_tree("(S (NP (PRP We)) (VP (VBD had) (NP (NN tea))) (. .))")
    >>> predicted = parse_tree("(S (NP (PRP We)) (VP (VBD had) (ADJP (NN tea)) (. .)))")
    >>> print(score_brackets([predicted], [reference]))
    F1 75.00, precision 75.00, recall 75.00, complete match 0.00, sentences: 1, errors: 0
    """
    if len(predicted) != len(references):
        raise ValueError(
            "score_brackets needs one reference for each predicted tree, received "
            f"{len(predicted)} predicted trees and {len(references)} references. Check that no "
            "tree was lost or added."
        )
    pairs = [
        (tree, reference)
        for tree, reference in zip(predicted, references, strict=True)
        if _has_words(reference, max_words)
    ]
    if not pairs:
        limit = "" if max_words is None else f" of at most {max_words} words"
        raise ValueError(
            f"score_brackets needs at least one sentence{limit}, received none. Check the input "
            "files."
        )
    counts = [
        _count(tree, reference)
        for tree, reference in pairs
        if tree is not None and tree.words == reference.words
    ]
    matched, in_predicted, in_reference = (sum(row[i] for row in counts) for i in range(3))
    complete = sum(len(set(numbers)) == 1 for numbers in counts)
    return BracketScores(
        f1=_percentage(2 * matched, in_predicted + in_reference),
        precision=_percentage(matched, in_predicted),
        recall=_percentage(matched, in_reference),
        complete_match=_percentage(complete, len(counts)),
        sentences=len(counts),
        errors=len(pairs) - len(counts),
        matched=matched,
        predicted=in_predicted,
        reference=in_reference,
    )


def _has_words(reference: Tree, max_words: int | None) -> bool:
    """Return whether a sentence counts: it has a word other than punctuation, and is not long."""
    tags = reference.tags
    return not _PUNCTUATION.issuperset(tags) and (max_words is None or len(tags) <= max_words)


def _count(predicted: Tree, reference: Tree) -> tuple[int, int, int]:
    """Return the numbers of matched brackets, predicted ones, and those of the reference."""
    counts_word = [tag not in _PUNCTUATION for tag in reference.tags]
    ours, theirs = (_brackets(tree, counts_word) for tree in (predicted, reference))
    return (ours & theirs).total(), ours.total(), theirs.total()


def _brackets(tree: Tree, counts_word: Sequence[bool]) -> collections.Counter:
    """Return how often a tree has each bracket (label, start, end) around words that count."""
    brackets: collections.Counter = collections.Counter()
    is_counted = iter(counts_word)

    def visit(tree: Tree, start: int) -> int:
        """Add the brackets of a tree, and return the number of counted words up to its end."""
        if tree.word is not None:
            return start + next(is_counted)
        end = start
        for child in tree.children:
            end = visit(child, end)
        if end > start and tree.label not in _UNCOUNTED:
            brackets[_EQUAL.get(tree.label, tree.label), start, end] += 1
        return end

    visit(tree, 0)
    return brackets


def _percentage(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
