"""Constituency trees: their bracketed notation, normalization, and the tokens of a model.

The tokens follow "Grammar as a Foreign Language" (Vinyals et al. 2015).
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence

__all__ = ["Tree", "delinearize", "linearize", "normalize_tree", "parse_tree"]

UNKNOWN_TAG = "XX"
"""The tag of a word whose part of speech is not known."""

MAX_DEPTH = 200
"""The most brackets around a word that can be read: several times the depth of real trees."""

WORD = "XX"
"""The token that stands for a word of the sentence, in order; vocabularies add its number."""

EMPTY_TAG = "-NONE-"
"""The tag of an empty element, such as a trace, which stands for no word of the text."""

TOP_LABELS = frozenset(["", "ROOT", "TOP", "S1"])
"""Labels of a bracket around a whole tree that is not part of the tree."""

_SUFFIX = re.compile(r"[-=|].*", re.DOTALL)

# Only ASCII white space separates: others, such as the no-break space, may be part of a word.
_TOKEN = re.compile(r"[()]|[^()\s]+", re.ASCII)
_SEPARATED = re.compile(r"\S+", re.ASCII)

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
    r"""Return the tree of a bracketed notation, unchanged.

    The first text in a bracket is its label or tag, which may be missing if a bracket follows, as
    in `((S ...))`. Words without their own bracket have the tag "XX". Words are
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
    """Return a word in the notation of trees.

    >>> escape("f(x)")
    'f-LRB-x-RRB-'
    """
    return text.translate(_SPECIAL)


def unescape(text: str) -> str:
    r"""Return a word of a tree in plain text.

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


def linearize(tree: Tree) -> list[str]:
    """Return the tokens of a tree: typed brackets, and XX for each word.

    Args:
        tree: A normalized tree; see `normalize_tree`.

    Returns:
        The tokens, for example `(NP`, `XX` and `)NP`.

    >>> from keras_transformer.trees import parse_tree
    >>> " ".join(linearize(parse_tree("(S (NP (PRP We)) (VP (VBD left)))")))
    '(S (NP XX )NP (VP XX )VP )S'
    """
    tokens: list[str] = []

    def add(tree: Tree) -> None:
        if tree.word is not None:
            tokens.append(WORD)
            return
        tokens.append(f"({tree.label}")
        for child in tree.children:
            add(child)
        tokens.append(f"){tree.label}")

    add(tree)
    return tokens


def delinearize(
    tokens: Sequence[str], words: Sequence[str], tags: Sequence[str] | None = None
) -> Tree:
    """Return the tree of a sequence of tokens; the inverse of `linearize`.

    Args:
        tokens: The tokens.
        words: The words of the sentence.
        tags: Their part-of-speech tags; XX for all by default.

    Returns:
        The `Tree`.

    Raises:
        ValueError: If the tokens do not form one tree over exactly these words, the tree is too
            deep to be read again, or the numbers of words and tags differ.

    >>> tokens = "(S (NP XX )NP (VP XX )VP )S".split()
    >>> str(delinearize(tokens, ["We", "left"], ["PRP", "VBD"]))
    '(S (NP (PRP We)) (VP (VBD left)))'
    """
    if tags is None:
        tags = [UNKNOWN_TAG] * len(words)
    _check_tags(words, tags)
    leaves = iter([Tree(tag, word=word) for word, tag in zip(words, tags, strict=True)])
    root: Tree | None = None
    labels: list[str] = []  # Of the open brackets.
    children: list[list[Tree]] = []
    for number, token in enumerate(tokens, start=1):
        where = f"token {number}, {token!r},"
        if root is not None:
            raise ValueError(f"{where} must not follow the end of the tree")
        if token.startswith("(") and len(token) > 1:
            labels.append(token[1:])
            children.append([])
            if len(labels) >= MAX_DEPTH:  # The bracket of a word is one more.
                raise ValueError(f"{where} must not be more than {MAX_DEPTH} brackets deep")
        elif not labels:
            raise ValueError(f"{where} must open a bracket, as none is open")
        elif token == WORD:
            leaf = next(leaves, None)
            if leaf is None:
                raise ValueError(f"{where} must not follow the last of {len(words)} words")
            children[-1].append(leaf)
        elif token != f"){labels[-1]}":
            raise ValueError(f"{where} must be a word or a bracket, or close ({labels[-1]}")
        elif not children[-1]:
            raise ValueError(f"{where} must not close an empty bracket")
        else:
            tree = Tree(labels.pop(), tuple(children.pop()))
            if labels:
                children[-1].append(tree)
            else:
                root = tree
    if root is None:
        raise ValueError(f"the tokens must close all brackets, received {len(labels)} open ones")
    left = sum(1 for _ in leaves)
    if left:
        raise ValueError(f"the tokens must hold {len(words)} words, received {len(words) - left}")
    return root


def join_words(words: Sequence[str], tags: Sequence[str] | None = None) -> str:
    """Return a sentence as the source of a parser: its words, with their tags if they are given.

    Args:
        words: The words of the sentence.
        tags: Their part-of-speech tags.

    Returns:
        The words separated by spaces, each followed by a slash and its tag.

    Raises:
        ValueError: If the numbers of words and tags are different.

    >>> join_words(["We", "left"]), join_words(["We", "left"], ["PRP", "VBD"])
    ('We left', 'We/PRP left/VBD')
    """
    if tags is None:
        return " ".join(words)
    _check_tags(words, tags)
    return " ".join(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True))


def split_words(text: str, *, tagged: bool) -> tuple[list[str], list[str] | None]:
    """Return the words and the tags of a sentence; the inverse of `join_words`.

    Args:
        text: The sentence. Only ASCII white space separates words.
        tagged: Whether each word is followed by a slash and its tag.

    Returns:
        The words, and their tags or None.

    Raises:
        ValueError: If a word has no tag although `tagged` is True.

    >>> split_words("1/2/CD of/IN it/PRP", tagged=True)
    (['1/2', 'of', 'it'], ['CD', 'IN', 'PRP'])
    """
    parts = _SEPARATED.findall(text)
    if not tagged:
        return parts, None
    pairs = [part.rpartition("/") for part in parts]
    for part, (word, _, tag) in zip(parts, pairs, strict=True):
        if not word or not tag:
            raise ValueError(
                f"each word must be followed by a slash and its tag, received {part!r}. Tag the "
                "text, or use a parser that was trained on words alone."
            )
    return [word for word, _, _ in pairs], [tag for _, _, tag in pairs]


def _check_tags(words: Sequence[str], tags: Sequence[str]) -> None:
    if len(words) != len(tags):
        raise ValueError(
            f"words and tags must have the same number, received {len(words)} and {len(tags)}. "
            "Give one tag for each word."
        )
