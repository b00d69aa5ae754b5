"""New trees from those of a treebank, by exchanging subtrees with the same label."""

import collections
import random
from collections.abc import Iterator, Sequence

from keras_transformer.trees import Tree

_Place = tuple[int, ...]
"""The numbers of the children on the way from the root to a bracket."""
_Kind = tuple[str, str]
"""The label of a bracket and that of its parent."""

_MAX_REPLACED = 20
"""The most words of a bracket that is replaced."""


def substitute_subtrees(
    trees: Sequence[Tree], count: int, *, seed: int = 1, max_words: int = 60
) -> Iterator[Tree]:
    """Yield new trees, in which brackets are replaced by others of the treebank.

    It is data augmentation for small treebanks (Shi et al., 2021, "Substructure Substitution").
    Each tree is one of the treebank, in turn, in which one to five brackets of at most 20 words are
    replaced by random ones with the same label, whose parents have the same label, too.

    Args:
        trees: Normalized trees.
        count: The number of new trees.
        seed: The seed of the choice.
        max_words: The most words of a new tree, unless the original has more.

    Yields:
        Normalized trees.

    >>> from keras_transformer.trees import parse_tree
    >>> tree = parse_tree("(S (NP (PRP We)) (VP (VBD saw) (NP (PRP it))))")
    >>> other = parse_tree("(S (NP (NN tea)) (VP (VBD left)))")
    >>> for new in substitute_subtrees([tree, other], 3, seed=5):
    ...     print(new)
    (S (NP (PRP We)) (VP (VBD left)))
    (S (NP (NN tea)) (VP (VBD saw) (NP (PRP it))))
    (S (NP (PRP We)) (VP (VBD saw) (NP (PRP it))))
    """
    draw = random.Random(seed)
    pool: dict[_Kind, list[Tree]] = collections.defaultdict(list)
    for tree in trees:
        for _, kind, bracket in _brackets(tree):
            pool[kind].append(bracket)
    for number in range(count):
        tree = trees[number % len(trees)]
        for _ in range(draw.randint(1, 5)):
            places = [
                (place, kind)
                for place, kind, bracket in _brackets(tree)
                if len(bracket.words) <= _MAX_REPLACED
            ]
            if not places:
                break
            place, kind = draw.choice(places)
            new = _replaced(tree, place, draw.choice(pool[kind]))
            if len(new.words) <= max_words:
                tree = new
        yield tree


def _brackets(
    tree: Tree, place: _Place = (), parent: str | None = None
) -> Iterator[tuple[_Place, _Kind, Tree]]:
    """Yield the brackets below the root."""
    if parent is not None:
        yield place, (tree.label, parent), tree
    for number, child in enumerate(tree.children):
        if child.word is None:
            yield from _brackets(child, (*place, number), tree.label)


def _replaced(tree: Tree, place: _Place, new: Tree) -> Tree:
    if not place:
        return new
    children = list(tree.children)
    children[place[0]] = _replaced(children[place[0]], place[1:], new)
    return Tree(tree.label, tuple(children))
