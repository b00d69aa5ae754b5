"""Trees as sequences of tokens, as in "Grammar as a Foreign Language" (Vinyals et al. 2015)."""

import re
from collections.abc import Sequence

from keras_transformer.trees.tree import MAX_DEPTH, UNKNOWN_TAG, Tree

WORD = "XX"
"""The token that stands for a word of the sentence, in order; vocabularies add its number."""

_SEPARATED = re.compile(r"\S+", re.ASCII)


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
        ValueError: If the tokens are not those of one tree over exactly these words, or of one that
            is too deep to be read again, or if the numbers of words and tags are different.

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
