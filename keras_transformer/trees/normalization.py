"""Normalization of trees for training and scoring: without traces and functions."""

import re

from keras_transformer.trees.tree import Tree

EMPTY_TAG = "-NONE-"
"""The tag of an empty element, such as a trace, which stands for no word of the text."""

TOP_LABELS = frozenset(["", "ROOT", "TOP", "S1"])
"""Labels of a bracket around a whole tree that is not part of the tree."""

_SUFFIX = re.compile(r"[-=|].*", re.DOTALL)


def normalize_tree(tree: Tree) -> Tree:
    """Return a tree in the form that parsers are trained and scored on.

    - Empty elements (`-NONE-`) are removed, and brackets that hold nothing else.
    - Labels lose functions, indices and alternatives: NP-SBJ-1, NP=2 and NP|NX become NP. Labels
      that start with a hyphen, such as -LRB-, remain.
    - A bracket without a label is replaced by its content.
    - A bracket around nothing but a bracket of the same label is replaced by it.
    - A bracket labeled ROOT, TOP or S1 around the whole tree is removed.

    Normalizing twice has no further effect.

    Args:
        tree: The tree as it was annotated.

    Returns:
        The normalized tree, whose root is a bracket.

    Raises:
        ValueError: If no word remains; if the tree has several roots; or if its only word is in no
            bracket.

    >>> from keras_transformer.trees import parse_tree
    >>> text = "((S (NP-SBJ-1 (NP (PRP We))) (VP (VBD left) (NP (-NONE- *-1)))))"
    >>> str(normalize_tree(parse_tree(text)))
    '(S (NP (PRP We)) (VP (VBD left)))'
    """
    parts = _normalized(tree)
    while len(parts) == 1 and parts[0].label in TOP_LABELS and parts[0].word is None:
        parts = parts[0].children
    if not parts:
        raise ValueError("a tree must have a word, received only empty elements")
    if len(parts) > 1:
        labels = " ".join(part.label for part in parts)
        raise ValueError(f"a tree must have one root, received {len(parts)}: {labels}")
    if parts[0].word is not None:
        raise ValueError(f"a word must be in a bracket, received only {parts[0]}")
    return parts[0]


def _normalized(tree: Tree) -> tuple[Tree, ...]:
    """Return what replaces a tree inside of its parent."""
    label = _plain_label(tree.label)
    if tree.word is not None:
        return () if tree.label == EMPTY_TAG else (Tree(label, word=tree.word),)
    children = tuple(part for child in tree.children for part in _normalized(child))
    if not children or not label:
        return children
    if len(children) == 1 and children[0].word is None and children[0].label == label:
        return children
    return (Tree(label, children),)


def _plain_label(label: str) -> str:
    return label if label.startswith("-") else _SUFFIX.sub("", label) or label
