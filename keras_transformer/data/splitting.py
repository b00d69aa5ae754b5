"""Training, validation and test text out of one text, without leaks between them."""

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_transformer.data.cleaning import text_hash
from keras_transformer.data.filters import normalized
from keras_transformer.data.sources import (
    check_rereadable,
    plain_name,
    stream_lines,
    stream_pairs,
)
from keras_transformer.utils.files import whole_directory

PARTS = ("train", "valid", "test")
_LEFT_OUT = -1
_NO_LINE = object()


@dataclass(frozen=True)
class SplitText:
    """The files of a split, and how many pairs they have."""

    files: dict[str, list[Path]]
    """Source and target of each part, or one TSV file."""
    pairs: dict[str, int]
    """Pairs of each part."""
    left_out: int
    """Pairs of held-out groups with an empty side, or a source that other groups have too."""


def split_text(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    target: str | os.PathLike | None,
    directory: str | os.PathLike,
    *,
    valid: int,
    test: int,
    groups: str | os.PathLike | None = None,
    seed: int = 1,
) -> SplitText:
    """Write training, validation and test text, none of which has a source of another.

    Sources are compared without case, digits, punctuation and white space. The same text and seed
    give the same parts, and another number of validation pairs leaves the test text as it is.

    Args:
        source: A file, or files of pairs in a list; see `read_pairs`.
        target: See `read_pairs`.
        directory: A new or empty directory.
        valid: Number of validation pairs, at most.
        test: Number of test pairs, at most.
        groups: A file with a line for each pair, such as its document or package. Pairs with equal
            lines stay together. Those of held-out groups whose source other groups have too are
            left out.
        seed: Chooses what is held out.

    Returns:
        The files and their sizes.

    Raises:
        FileExistsError: If there is something in the directory.
        FileNotFoundError: If a file is missing.
        ValueError: If a file is damaged, too short or a pipe, or no group is small enough.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.tsv").write_text("".join(f"{w}\\t{w.upper()}\\n" for w in "abcdefAB"))
    >>> split_text(folder / "a.tsv", None, folder / "split", valid=1, test=2).pairs
    {'train': 5, 'valid': 1, 'test': 2}
    """
    directory = Path(directory)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise FileExistsError(
            f"{directory} must be a new or empty directory, because nothing is overwritten. Choose "
            "another path."
        )
    if min(valid, test) < 0:
        raise ValueError(f"valid and test must be at least 0, received {valid} and {test}.")

    sources = [source] if isinstance(source, str | os.PathLike) else list(source)
    if target is not None and len(sources) != 1:
        raise ValueError(
            f"target must be the translation of one file, received {len(sources)} sources. Give "
            "files of pairs without a target, or join the files."
        )

    check_rereadable(*sources, *([] if target is None else [target]))

    def pairs() -> Iterator[tuple[str, str]]:
        return itertools.chain.from_iterable(stream_pairs(each, target) for each in sources)

    rows = _hashes(pairs(), groups, seed)
    hashes = np.fromiter(rows, np.dtype((np.uint64, 3)))
    parts = _assign(hashes[:, 0], hashes[:, 1], hashes[:, 2] > 0, valid, test)
    names = _names(sources[0], target)
    counts = np.bincount(parts + 1, minlength=4).tolist()
    with whole_directory(directory) as temporary, ExitStack() as stack:
        files = [
            [stack.enter_context(open(temporary / f"{part}.{name}", "wb")) for name in names]
            for part in PARTS
        ]
        for part, pair in zip(parts.tolist(), pairs(), strict=True):
            if part != _LEFT_OUT:
                texts = pair if target is not None else ["\t".join(pair)]
                for file, text in zip(files[part], texts, strict=True):
                    file.write(f"{text}\n".encode())
    return SplitText(
        {part: [directory / f"{part}.{name}" for name in names] for part in PARTS},
        dict(zip(PARTS, counts[1:], strict=True)),
        counts[0],
    )


def _hashes(
    pairs: Iterator[tuple[str, str]], groups: str | os.PathLike | None, seed: int
) -> Iterator[tuple[int, int, bool]]:
    """Yield hashes of the normalized source and of the group of each pair, and if it is whole."""
    lines = itertools.repeat(None) if groups is None else iter(stream_lines(groups))
    number = 0
    for source, target in pairs:
        number += 1
        plain, group = normalized(source), next(lines, _NO_LINE)
        if group is _NO_LINE:
            break
        name = plain if group is None else group
        yield text_hash(plain), text_hash(f"{seed}\n{name}"), bool(plain and target.strip())
    else:
        if groups is None or next(lines, _NO_LINE) is _NO_LINE:
            return
    raise ValueError(
        f"{groups} must have a line for each pair, received lines or pairs that end at number "
        f"{number}. Check that line n is the group of pair n."
    )


def _assign(
    sources: np.ndarray, groups: np.ndarray, is_whole: np.ndarray, valid: int, test: int
) -> np.ndarray:
    """Return the part of each pair, or `_LEFT_OUT`.

    Groups are taken in the order of their hashes, which no other pair changes, unless they have
    more pairs than are needed.
    """
    _, group = np.unique(groups, return_inverse=True)
    _, source = np.unique(sources, return_inverse=True)
    # A source is in one group only if its first group is that of all its pairs.
    lowest, highest = np.full(len(source), len(group)), np.full(len(source), -1)
    np.minimum.at(lowest, source, group)
    np.maximum.at(highest, source, group)
    is_own = (lowest == highest)[source] & is_whole
    sizes = np.bincount(group, weights=is_own).astype(int)
    part_of_group = np.zeros(len(sizes), int)
    for part, wanted in (("test", test), ("valid", valid)):
        missing = wanted
        for each in np.flatnonzero((part_of_group == 0) & (sizes > 0)):
            if missing == 0:
                break
            if sizes[each] <= missing:
                part_of_group[each] = PARTS.index(part)
                missing -= int(sizes[each])
        if wanted and missing == wanted:
            raise ValueError(
                f"{part} must have room for a group that is left, received {wanted} pairs of "
                f"{len(group)} in {len(sizes)} groups. Ask for more pairs, or give more text."
            )
    parts = part_of_group[group]
    if not (parts == 0).any():
        raise ValueError(
            f"training needs pairs too, received valid={valid} and test={test} of {len(group)} "
            "pairs. Ask for fewer."
        )
    parts[(parts > 0) & ~is_own] = _LEFT_OUT
    return parts


def _names(source: str | os.PathLike, target: str | os.PathLike | None) -> list[str]:
    """Return the ends of the file names: those of the files, if they tell them apart.

    >>> _names("all.en.zst", "all.de.gz"), _names("source.txt", "target.txt")
    (['en', 'de'], ['source', 'target'])
    """
    if target is None:
        return ["tsv"]
    names = [Path(plain_name(path)).suffix[1:] for path in (source, target)]
    return names if all(names) and names[0] != names[1] else ["source", "target"]
