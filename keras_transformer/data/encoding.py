"""Sentence pairs as subword ids, without the empty and the over-long."""

import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from keras_transformer.text import Tokenizer

_LOGGER = logging.getLogger(__name__)
_LINES_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Sentence pairs as subword ids without bos and eos, flat: 4 bytes a token and 16 a pair.

    Pair i is `source_ids[source_offsets[i]:source_offsets[i + 1]]` and the same of the target.

    >>> pairs = EncodedPairs(
    ...     source_ids=np.array([7, 8, 9], np.int32), source_offsets=np.array([0, 1, 3]),
    ...     target_ids=np.array([4, 5, 6], np.int32), target_offsets=np.array([0, 2, 3]))
    >>> len(pairs), pairs.source_lengths.tolist(), pairs.target_lengths.tolist()
    (2, [2, 3], [3, 2])
    >>> inputs, labels = pairs.padded_batch([1, 0])
    >>> inputs["target"].tolist(), labels.tolist()
    ([[2, 6, 0], [2, 4, 5]], [[6, 3, 0], [4, 5, 3]])
    """

    source_ids: np.ndarray
    source_offsets: np.ndarray
    target_ids: np.ndarray
    target_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.source_offsets) - 1

    @property
    def source_lengths(self) -> np.ndarray:
        """`[n]` numbers of source tokens, eos included."""
        return np.diff(self.source_offsets) + 1

    @property
    def target_lengths(self) -> np.ndarray:
        """`[n]` numbers of target tokens, eos included (or bos, which never go together)."""
        return np.diff(self.target_offsets) + 1

    def padded_batch(self, indices: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Makes one training batch, padded to its longest source and its longest target.

        Args:
            indices: `[B]` which pairs; a negative index gives a row of padding.

        Returns:
            `({"source": [B, S], "target": [B, T]}, labels [B, T])`, all int32: source and labels
            end with eos, the target (the decoder's input) begins with bos instead.
        """
        indices = np.asarray(indices)
        source, source_end = _padded(self.source_ids, self.source_offsets, indices)
        labels, target_end = _padded(self.target_ids, self.target_offsets, indices)
        target = np.roll(labels, 1, axis=1)
        target[:, 0] = BOS_ID
        rows = np.arange(len(indices))
        source[rows, source_end] = EOS_ID
        labels[rows, target_end] = EOS_ID
        for ids in (source, target, labels):
            ids[indices < 0] = PAD_ID
        return {"source": source, "target": target}, labels


def encode_pairs(
    pairs: Iterable[tuple[str, str]],
    source_tokenizer: "Tokenizer",
    target_tokenizer: "Tokenizer",
    max_length: int,
) -> EncodedPairs:
    """Tokenizes sentence pairs and drops those that cannot be trained on, which the log counts.

    Args:
        pairs: Source and target sentences; white space around them is stripped.
        source_tokenizer: Tokenizes the sources.
        target_tokenizer: Tokenizes the targets; with a joint vocabulary the same object.
        max_length: The most tokens a side may have, eos included.

    Returns:
        The pairs with both sides non-empty and at most `max_length` long, in their order.

    Raises:
        ValueError: `max_length` leaves no room for a token and eos, or no pair is left.
    """
    if max_length < 2:
        raise ValueError(
            f"max_length must be at least 2, a token and eos, received {max_length}. Try 256."
        )
    chunks = []
    total = empty = too_long = 0
    for chunk in _chunks(pairs, _LINES_AT_ONCE):
        source_ids, source_counts = _tokenize(source_tokenizer, (source for source, _ in chunk))
        target_ids, target_counts = _tokenize(target_tokenizer, (target for _, target in chunk))
        is_empty = np.minimum(source_counts, target_counts) == 0
        is_long = ~is_empty & (np.maximum(source_counts, target_counts) >= max_length)
        keep = ~(is_empty | is_long)
        total += len(chunk)
        empty += int(is_empty.sum())
        too_long += int(is_long.sum())
        chunks.append(
            (
                source_ids[np.repeat(keep, source_counts)],
                source_counts[keep],
                target_ids[np.repeat(keep, target_counts)],
                target_counts[keep],
            )
        )
    kept = total - empty - too_long
    if not kept:
        raise ValueError(
            f"there must be a usable sentence pair, received {total:,}: {empty:,} with an "
            f"empty side and {too_long:,} longer than {max_length} tokens. Check the files, or "
            "raise max_length."
        )
    _LOGGER.info(
        "kept %s of %s sentence pairs: dropped %s with an empty side and %s longer than %d tokens",
        *(f"{count:,}" for count in (kept, total, empty, too_long)),
        max_length,
    )
    source_ids, source_counts, target_ids, target_counts = (
        np.concatenate(parts) for parts in zip(*chunks, strict=True)
    )
    return EncodedPairs(source_ids, _offsets(source_counts), target_ids, _offsets(target_counts))


def _chunks(pairs: Iterable[tuple[str, str]], size: int) -> Iterator[list[tuple[str, str]]]:
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _tokenize(tokenizer: "Tokenizer", sentences: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """All ids one after another, and the number of each sentence's."""
    ragged = tokenizer.tokenize([sentence.strip() for sentence in sentences])
    return ragged.values.numpy(), ragged.row_lengths().numpy()


def _offsets(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)])


def _padded(
    ids: np.ndarray, offsets: np.ndarray, indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows `indices` of ids with at least one column of padding behind, and where each ends."""
    counts = np.where(indices < 0, 0, offsets[indices + 1] - offsets[indices])
    columns = np.arange(counts.max() + 1)
    is_token = columns < counts[:, None]
    padded = np.full(is_token.shape, PAD_ID, np.int32)
    padded[is_token] = ids[(offsets[indices][:, None] + columns)[is_token]]
    return padded, counts
