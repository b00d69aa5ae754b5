"""Constituency trees, with the words of the sentence on a line."""

import dataclasses
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from keras_transformer.plots.style import BLUE, GRAY, drawable, quiet_about_glyphs, styled_figure
from keras_transformer.trees import UNKNOWN_TAG, Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# In inches.
_MARGIN = 0.06
_GAP = 0.11  # between two words
_TAG_ROW = 0.14  # from a word to its tag
_ABOVE, _BELOW = 0.11, 0.05  # from the baseline of a text to the lines above and below it
_MAX_WIDTH, _MAX_AREA = 150, 1000  # 30,000 pixels across, and 40 million of them

_TAG_SIZE = 6  # points


def tree_figure(tree: Tree) -> "Figure":
    """Return a figure of a constituency tree (Section 6.3).

    The words are on a line at the bottom, in order from left to right, each below its
    part-of-speech tag if that is known. The constituents are above their words. The size of the
    figure grows with the words and the depth of the tree. For a script that matplotlib's default
    font does not cover, choose another font in `matplotlib.rcParams["font.family"]`; an SVG needs
    none, as it contains the words as text.

    Args:
        tree: The tree.

    Returns:
        The matplotlib figure.

    Raises:
        ImportError: If matplotlib is not installed.

    >>> from keras_transformer.trees import parse_tree
    >>> figure = tree_figure(parse_tree("(S (NP (PRP We)) (VP (XX left)))"))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['S', 'NP', 'PRP', 'We', 'VP', 'left']
    """
    with styled_figure() as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        with quiet_about_glyphs():  # Saving an image repeats the warning.
            root = _measure(axes, tree)
        bottom = _MARGIN + _BELOW
        leaf = bottom + (_TAG_ROW if set(tree.tags) - {UNKNOWN_TAG} else 0)
        width = root.before + root.after
        row = min(max(0.3, width / 4 / max(root.level, 1)), 0.5)  # A wide figure is also higher.
        height = leaf + root.level * row + _ABOVE + _MARGIN
        _place(root, root.before)
        _draw(axes, root, bottom, leaf, row)
        axes.set(xlim=(0, width), ylim=(0, height))
        scale = min(1, _MAX_WIDTH / width, (_MAX_AREA / width / height) ** 0.5)
        figure.set_size_inches(width * scale, height * scale)
        for text in axes.texts:
            text.set_fontsize(text.get_fontsize() * scale)
    return figure


@dataclasses.dataclass
class _Node:
    """A tree with its place: no other text or line is in the space before and after its middle."""

    label: "Text"
    """The label of a bracket, or the word."""
    tag: "Text | None" = None
    children: "list[_Node]" = dataclasses.field(default_factory=list)
    level: int = 0
    """The number of brackets from the label down to the words."""
    before: float = 0.0
    after: float = 0.0
    inset: float = 0.0
    """Where the first child starts, from the left side."""
    x: float = 0.0


def _measure(axes: "Axes", tree: Tree) -> _Node:
    """Write the texts of a tree, and find the space that they need from left to right."""
    if tree.word is not None:
        known = tree.label != UNKNOWN_TAG
        tag = _write(axes, tree.label, fontsize=_TAG_SIZE, color=GRAY) if known else None
        node = _Node(_write(axes, tree.word), tag)
        widths = [_width(text) for text in (node.label, tag) if text is not None]
        node.before = node.after = (max(widths) + _GAP) / 2
        return node
    label = _write(axes, tree.label, color=BLUE)
    children = [_measure(axes, child) for child in tree.children]
    node = _Node(label, children=children, level=1 + max(child.level for child in children))
    width = sum(child.before + child.after for child in children)
    middle = (children[0].before + width - children[-1].after) / 2
    half = (_width(label) + _GAP) / 2
    node.before, node.after = max(middle, half), max(width - middle, half)
    node.inset = node.before - middle
    return node


def _write(axes: "Axes", text: str, **style: Any) -> "Text":
    # A "$" does not start a formula.
    return axes.text(0, 0, drawable(text), ha="center", va="baseline", parse_math=False, **style)


def _width(text: "Text") -> float:
    """Return the width of a text in inches, also if the font that will draw it is another one."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text.get_text())
    measured = text.get_window_extent().width / text.get_figure().dpi
    return max(measured, wide * text.get_fontsize() / 72)


def _place(node: _Node, x: float) -> None:
    """Set the middle of a node and of all nodes in it."""
    node.x = x
    left = x - node.before + node.inset
    for child in node.children:
        _place(child, left + child.before)
        left += child.before + child.after


def _draw(axes: "Axes", root: _Node, bottom: float, leaf: float, row: float) -> None:
    """Put all texts at their places, and draw the lines from each bracket to its children.

    Args:
        axes: The axes with the texts.
        root: The tree, with its places from left to right.
        bottom: The height of the words.
        leaf: The height of the tags, or of the words if no word has a tag.
        row: The distance of a bracket from the one below it.
    """
    from matplotlib.collections import LineCollection

    lines = []
    for node in _nodes(root):
        y = leaf + node.level * row if node.children else bottom
        node.label.set_position((node.x, y))
        if node.tag is not None:
            node.tag.set_position((node.x, leaf))
        # A line goes down straight after the first row, so that it crosses no sibling.
        turn = y - row + _ABOVE
        for child in node.children:
            end = leaf + child.level * row if child.children or child.tag else bottom
            lines.append([(node.x, y - _BELOW), (child.x, turn), (child.x, end + _ABOVE)])
    axes.add_collection(LineCollection(lines, colors="0.6", linewidths=0.6), autolim=False)


def _nodes(node: _Node) -> Iterator[_Node]:
    yield node
    for child in node.children:
        yield from _nodes(child)
