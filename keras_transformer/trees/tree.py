"""Constituency trees and their bracketed notation."""

import dataclasses
import re
from collections.abc import Iterator

UNKNOWN_TAG = "XX"
"""The tag of a word whose part of speech is not known."""

MAX_DEPTH = 200
"""The most brackets around a word that can be read: several times the depth of real trees."""

# Only ASCII white space separates: others, such as the no-break space, may be part of a word.
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)

_ESCAPES = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_SPECIAL = str.maketrans(_ESCAPES)
_ESCAPED = re.compile(r"-[LR][RSC]B-|\\[/*]")
_UNESCAPED = {escape: char for char, escape in _ESCAPES.items()} | {r"\/": "/", r"\*": "*"}


@dataclasses.dataclass(frozen=True, slots=True)
class Tree:
    """A constituency tree: a labeled bracket around smaller trees, or a word with its tag.

    `str(tree)` is its bracketed notation.

    Attributes:
        label: The label of the bracket, such as "NP", or the part-of-speech tag of the word, "XX"
            if it is not known.
        children: The trees inside the bracket, in order; none for a word.
        word: The word, as in text: "(" and not "-LRB-"; None for a bracket.

    Raises:
        ValueError: If there are both children and a word, or neither.
    """

    label: str
    children: tuple["Tree", ...] = ()
    word: str | None = None

    def __post_init__(self) -> None:
        if bool(self.children) == bool(self.word):
            raise ValueError(
                f"a tree must have children or a word, received label={self.label!r}, "
                f"{len(self.children)} children and word={self.word!r}. Give one of them."
            )

    def leaves(self) -> Iterator["Tree"]:
        """Yield the words of the tree in order, each with its tag."""
        if self.word is not None:
            yield self
        for child in self.children:
            yield from child.leaves()

    @property
    def words(self) -> list[str]:
        """The words in order."""
        return [str(leaf.word) for leaf in self.leaves()]

    @property
    def tags(self) -> list[str]:
        """The part-of-speech tags in order."""
        return [leaf.label for leaf in self.leaves()]

    def __str__(self) -> str:
        parts = [escape(self.word)] if self.word else map(str, self.children)
        return f"({escape(self.label)} {' '.join(parts)})"


def parse_tree(text: str) -> Tree:
    r"""Return the tree that a bracketed notation describes, as it is written.

    The first text in a bracket is its label or tag, which may be missing if a bracket follows, as
    in `((S ...))`. Further words without a bracket of their own have the tag "XX". Words are
    unescaped: "-LRB-" is read as "(", and "1\/2" as "1/2".

    Args:
        text: The notation, with any white space.

    Returns:
        The `Tree`.

    Raises:
        ValueError: If the text is not exactly one tree; if a bracket is empty; or if a word is
            in more than 200 brackets.

    >>> tree = parse_tree("(S (NP (PRP We)) (VP (VBD left) (-LRB- -LRB-)))")
    >>> tree.words, tree.tags
    (['We', 'left', '('], ['PRP', 'VBD', '-LRB-'])
    >>> str(tree)
    '(S (NP (PRP We)) (VP (VBD left) (-LRB- -LRB-)))'
    """
    root: Tree | None = None
    labels: list[str | None] = []  # Of the open brackets; None until it is known.
    children: list[list[Tree | str]] = []
    for token in _TOKEN.findall(text):
        if root is not None:
            found = {"(": "another tree", ")": "a closing bracket"}.get(token, f"{token!r}")
            raise ValueError(f"nothing may follow the end of a tree, received {found}")
        if token == "(":
            if labels and labels[-1] is None:
                labels[-1] = ""
            labels.append(None)
            children.append([])
            if len(labels) > MAX_DEPTH:
                raise ValueError(
                    f"a tree must not be more than {MAX_DEPTH} brackets deep, received a deeper one"
                )
        elif not labels:
            raise ValueError(f"a tree must start with an opening bracket, received {token!r}")
        elif token == ")":
            tree = _close(labels.pop(), children.pop())
            if labels:
                children[-1].append(tree)
            else:
                root = tree
        elif labels[-1] is None:
            labels[-1] = token
        else:
            children[-1].append(unescape(token))
    if labels:
        raise ValueError(f"every bracket must be closed, received {len(labels)} open at the end")
    if root is None:
        raise ValueError("a tree must have a word, received no text")
    return root


def escape(text: str) -> str:
    """Return a word as it is written in a tree.

    >>> escape("f(x)")
    'f-LRB-x-RRB-'
    """
    return text.translate(_SPECIAL)


def unescape(text: str) -> str:
    r"""Return a word of a tree as it is written in text.

    >>> unescape("-LRB-"), unescape(r"3\/4")
    ('(', '3/4')
    """
    return _ESCAPED.sub(lambda match: _UNESCAPED[match[0]], text)


def _close(label: str | None, children: list[Tree | str]) -> Tree:
    """Return the tree of a bracket; text among the children is a word without a tag."""
    if not children:
        raise ValueError(f"a bracket must hold a word, received ({label or ''})")
    if len(children) == 1 and isinstance(children[0], str):
        return Tree(label or "", word=children[0])
    trees = [
        Tree(UNKNOWN_TAG, word=child) if isinstance(child, str) else child for child in children
    ]
    return Tree(label or "", tuple(trees))
