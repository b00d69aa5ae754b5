"""Which sentence pairs a model trains on: rules, and the counts of what they drop."""

import collections
import hashlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from keras_transformer.config.filters import FILTERS

_LOGGER = logging.getLogger(__name__)

REASONS = {
    "empty": "with an empty side",
    "too_long": "longer than {max_length} tokens",
    "length_ratio": "with one side over {max_length_ratio} times as long as the other",
    "duplicate": "that occurred before",
}
"""Why a pair is dropped; of several reasons, the first one counts."""


@dataclass(frozen=True, kw_only=True)
class CleaningRules:
    """Rules that drop sentence pairs. A pair with an empty side is always dropped.

    Args:
        max_length: Most tokens of a source or target, eos included.
        max_length_ratio: Largest ratio of the lengths of both sides in tokens, without eos; None
            for any.
        drop_duplicates: Whether to keep only the first of equal pairs.
        filters: Names of `FILTERS`, whose pairs are dropped too.

    Raises:
        ValueError: If `max_length` is below 2, or `max_length_ratio` below 1.

    >>> CleaningRules(max_length=100, max_length_ratio=3).drop_duplicates
    False
    """

    max_length: int = 128
    max_length_ratio: float | None = None
    drop_duplicates: bool = False
    filters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_length < 2:
            raise ValueError(
                "max_length must be at least 2 (a token and eos), received "
                f"{self.max_length}. Try 256."
            )
        if self.max_length_ratio is not None and self.max_length_ratio < 1:
            raise ValueError(
                f"max_length_ratio must be at least 1, received {self.max_length_ratio}. Try 3."
            )

    def reasons(
        self,
        source_counts: np.ndarray,
        target_counts: np.ndarray,
        is_repeated: np.ndarray | bool,
        found: Iterable[np.ndarray] = (),
    ) -> np.ndarray:
        """Return why each pair is dropped.

        Args:
            source_counts: Integers [n]: tokens of each source, without eos.
            target_counts: Integers [n]: tokens of each target, without eos.
            is_repeated: Booleans [n]: whether the pair occurred before.
            found: Booleans [n] for each filter: whether it finds the pair.

        Returns:
            Integers [n]: positions in `reason_names`, and -1 for a pair that is kept.

        >>> rules = CleaningRules(max_length=6, max_length_ratio=2)
        >>> rules.reasons(np.array([3, 0, 6, 5]), np.array([2, 1, 4, 2]), False)
        array([-1,  0,  1,  2])
        """
        shorter = np.minimum(source_counts, target_counts)
        longer = np.maximum(source_counts, target_counts)
        is_uneven = (
            np.zeros(len(shorter), bool)
            if self.max_length_ratio is None
            else longer > shorter * self.max_length_ratio
        )
        rules = [shorter == 0, longer >= self.max_length, is_uneven, is_repeated, *found]
        return np.select(rules, np.arange(len(rules)), -1)


def reason_names(rules: CleaningRules) -> dict[str, str]:
    """Return a description of the pairs that each reason drops.

    >>> reason_names(CleaningRules(max_length=50))["too_long"]
    'longer than 50 tokens'
    """
    names = {reason: text.format(**vars(rules)) for reason, text in REASONS.items()}
    return names | {name: FILTERS[name] for name in rules.filters}


def log_report(rules: CleaningRules, kept: int, dropped: collections.Counter[str]) -> None:
    """Log how many pairs are kept and dropped.

    Raises:
        ValueError: If none is kept.
    """
    # What the defaults drop is always said.
    names = reason_names(rules)
    reasons = [r for r in names if r in ("empty", "too_long") or dropped[r]]
    *first, last = (f"{dropped[reason]:,} {names[reason]}" for reason in reasons)
    counts = f"{', '.join(first)} and {last}"
    total = f"{kept + dropped.total():,}"
    if not kept:
        raise ValueError(
            f"at least one sentence pair must be usable, received {total} pairs: {counts}. Check "
            "the text, or increase max_length (data.max_length)."
        )
    _LOGGER.info("kept %s of %s sentence pairs: dropped %s", f"{kept:,}", total, counts)


def pair_hashes(part: tuple[str, Iterable[tuple[str, str]]]) -> np.ndarray:
    """Return a hash of 8 bytes of each pair, white space around sentences aside.

    Of 20 million different pairs, the chance that two have the same one is 1 in 90,000.

    Args:
        part: What tells the pairs from equal ones, such as their tag, and the pairs.

    >>> earlier(pair_hashes(("de", [("a", "b"), ("a", "c"), (" a", "b")]))).tolist()
    [-1, -1, 0]
    """
    kind, pairs = part
    lines = ("\n".join((kind, *(side.strip() for side in pair))) for pair in pairs)
    return np.fromiter(map(text_hash, lines), np.uint64)


def earlier(hashes: np.ndarray) -> np.ndarray:
    """Return where each number occurred first, and -1 for the first ones themselves.

    >>> earlier(np.array([5, 7, 5, 5])).tolist()
    [-1, -1, 0, 0]
    """
    order = np.argsort(hashes, kind="stable")
    in_order, starts = hashes[order], np.arange(len(hashes))
    starts[1:][in_order[1:] == in_order[:-1]] = 0
    del in_order  # Of a large corpus, each of these takes gigabytes.
    np.maximum.accumulate(starts, out=starts)
    is_first = starts == np.arange(len(starts))
    first = np.empty_like(order)
    first[order] = np.where(is_first, -1, order[starts])
    return first


def text_hash(text: str) -> int:
    """Return 8 bytes of a hash as a number."""
    content = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
