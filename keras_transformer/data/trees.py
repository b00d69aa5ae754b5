"""Files of bracketed trees, as in the Penn Treebank, and new trees by substitution."""

import collections
import functools
import logging
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from keras_transformer.data.sources import existing_file, stream_lines
from keras_transformer.trees import Tree, join_words, normalize_tree, parse_tree

_LOGGER = logging.getLogger(__name__)

_PATTERNS = ("*.mrg", "*.mrg.gz")
_LOGGED_PROBLEMS = 5

_Place = tuple[int, ...]
"""The numbers of the children on the way from the root to a bracket."""
_Kind = tuple[str, str]
"""The label of a bracket and of its parent."""

_MAX_REPLACED = 20
"""The most words of a bracket that is replaced."""


def read_trees(path: str | os.PathLike) -> list[Tree]:
    """Return the normalized trees of a file or directory, and log once what cannot be used.

    Args:
        path: A text file, plain or gzip, or a directory: all its `.mrg` and `.mrg.gz` files, those
            of its subdirectories included, sorted by name.

    Returns:
        The trees, in the order of the files.

    Raises:
        FileNotFoundError: If the path does not exist, or the directory has no such files.
        ValueError: If no tree can be used, or `read_lines` refuses a file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.mrg")
    >>> _ = path.write_text("( (S (NP (PRP We))\\n     (VP (VBD left))))\\n", encoding="utf-8")
    >>> [str(tree) for tree in read_trees(path)]
    ['(S (NP (PRP We)) (VP (VBD left)))']
    """
    return list(stream_trees(path))


def stream_trees(path: str | os.PathLike) -> Iterator[Tree]:
    """Yield the trees that `read_trees` returns, without holding them in memory.

    It takes the same argument and raises the same errors.
    """
    count, first, is_empty = 0, list[str](), True
    for found in trees_or_problems(path):
        if isinstance(found, Tree):
            is_empty = False
            yield found
            continue
        count += 1
        if count <= _LOGGED_PROBLEMS:
            first.append(found)
    if is_empty:
        unused = f" that can be used ({first[0]})" if first else ""
        raise ValueError(
            f"{path} must have a bracketed tree, such as (S (NP (PRP We)) (VP (VBD left))), "
            f"received none{unused}. Check the file."
        )
    if count:
        _log(os.fspath(path), count, tuple(first))


@functools.cache  # Every pass over the training text finds the same problems.
def _log(path: str, count: int, first: tuple[str, ...]) -> None:
    for problem in first:
        _LOGGER.warning("dropped a tree: %s", problem)
    _LOGGER.warning("dropped %s trees of %s", f"{count:,}", path)


def trees_or_problems(path: str | os.PathLike) -> Iterator[Tree | str]:
    """Yield each tree, normalized, or if it cannot be used, its file, line and the reason.

    A tree may extend over several lines. An opening bracket at the start of a line always starts
    a tree, so one tree that lacks a bracket does not affect the next.

    Args:
        path: See `read_trees`.

    Raises:
        FileNotFoundError: If the path does not exist, or the directory has no such files.
        ValueError: If `read_lines` refuses a file.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "train.mrg")
    >>> _ = path.write_text("(S (NP (PRP We))\\n(NP (NN tea))\\n", encoding="utf-8")
    >>> [str(found).replace(str(path), "train.mrg") for found in trees_or_problems(path)]
    ['train.mrg, line 1: every bracket must be closed, received 1 open at the end', '(NP (NN tea))']
    """
    for file in tree_files(path):
        for line, text in _notations(stream_lines(file)):
            try:
                found: Tree | str = normalize_tree(parse_tree(text))
            except ValueError as error:
                found = f"{file}, line {line}: {error}"
            yield found


def tree_pair(tree: Tree, *, tagged: bool = False) -> tuple[str, str]:
    """Return a tree as source and target of a model: its sentence and its notation.

    Args:
        tree: A normalized tree.
        tagged: Whether the sentence has the part-of-speech tag of each word; see `join_words`.

    Returns:
        The sentence and the notation.

    >>> from keras_transformer.trees import parse_tree
    >>> tree_pair(parse_tree("(S (NP (PRP We)) (VP (VBD left)))"))
    ('We left', '(S (NP (PRP We)) (VP (VBD left)))')
    """
    return join_words(tree.words, tree.tags if tagged else None), str(tree)


def tree_files(path: str | os.PathLike) -> list[Path]:
    """Return the files of trees that a path names: itself, or those in a directory.

    Args:
        path: See `read_trees`.

    Raises:
        FileNotFoundError: If the path does not exist, or the directory has no such files.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("b.mrg", "a.mrg", "README"):
    ...     (folder / name).touch()
    >>> [file.name for file in tree_files(folder)]
    ['a.mrg', 'b.mrg']
    """
    path = existing_file(path)
    if not path.is_dir():
        return [path]
    files = sorted(file for pattern in _PATTERNS for file in path.rglob(pattern) if file.is_file())
    # A file that also exists unpacked counts once.
    files = [file for file in files if file.suffix != ".gz" or file.with_suffix("") not in files]
    if not files:
        raise FileNotFoundError(
            f"{path} must have files named {' or '.join(_PATTERNS)}, received none. Give a single "
            "file to read one of another name."
        )
    return files


def substitute_subtrees(
    trees: Sequence[Tree], count: int, *, seed: int = 1, max_words: int = 60
) -> Iterator[Tree]:
    """Yield new trees, in which brackets are replaced by others of the treebank.

    It is data augmentation for small treebanks (Shi et al., 2021, "Substructure Substitution").
    Each tree is one of the treebank, in turn, in which one to five brackets of at most 20 words are
    replaced by random ones with the same label and the same label of the parent.

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


def _notations(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the text of each tree, complete or not, and the number of its first line."""
    text: list[str] = []
    first = depth = 0
    for number, line in enumerate(lines, start=1):
        if text and line.startswith("("):
            yield first, "\n".join(text)
            text, depth = [], 0
        if not text:
            if not line.strip():
                continue
            first = number
        text.append(line)
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            yield first, "\n".join(text)
            text, depth = [], 0
    if text:
        yield first, "\n".join(text)


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
