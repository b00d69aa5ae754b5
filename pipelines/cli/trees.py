"""Constituency trees in a terminal."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree as Lines

    from keras_transformer.trees import Tree

_WIDTH = 10_000  # A terminal wraps a line that is too long for it; rich would drop the end.


def print_tree(tree: "Tree") -> None:
    """Print a tree with its constituents below each other, in color if standard output allows it.

    A constituent of words alone takes one line, and so does a constituent of only one other. Known
    part-of-speech tags follow their words after a slash.

    Args:
        tree: The tree.

    >>> from keras_transformer.trees import parse_tree
    >>> print_tree(parse_tree("(S (NP (DT The) (NN dog)) (VP (VBZ is) (XX asleep)) (. .))"))
    S
    ├── NP  The/DT dog/NN
    ├── VP  is/VBZ asleep
    └── ./.
    """
    from rich.console import Console

    Console(width=_WIDTH).print(_branch(tree))


def _branch(tree: "Tree") -> "Lines":
    from rich.tree import Tree as Lines

    text, below = _line(tree)
    lines = Lines(text, guide_style="dim")
    lines.children.extend(_branch(child) for child in below)
    return lines


def _line(tree: "Tree") -> "tuple[Text, tuple[Tree, ...]]":
    """Return a line, and the trees that are to be below it."""
    from rich.text import Text

    if tree.word is not None:
        return _word(tree), ()
    labels = [tree.label]
    while len(tree.children) == 1 and tree.children[0].word is None:
        (tree,) = tree.children
        labels.append(tree.label)
    text = Text(" ─ ").join(Text(label, "bold blue") for label in labels)
    if any(child.word is None for child in tree.children):
        return text, tree.children
    return text.append("  ").append_text(Text(" ").join(map(_word, tree.children))), ()


def _word(leaf: "Tree") -> "Text":
    from rich.text import Text

    from keras_transformer.trees import UNKNOWN_TAG

    text = Text(leaf.word or "")
    return text if leaf.label == UNKNOWN_TAG else text.append(f"/{leaf.label}", "dim")
