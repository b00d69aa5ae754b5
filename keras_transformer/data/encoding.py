"""Sentence pairs as token ids, without empty and overlong ones."""

import itertools
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID

if TYPE_CHECKING:
    from keras_transformer.text import Tokenizer

_LOGGER = logging.getLogger(__name__)
_LINES_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Sentence pairs as token ids, without bos and eos.

    The ids of all sentences are concatenated, which takes 4 bytes per token and 16 per pair. The
    source of pair i is `source_ids[source_offsets[i]:source_offsets[i + 1]]`, and the target
    likewise.

    Attributes:
        source_ids: int32 array of the source tokens of all pairs.
        source_offsets: Integers [n + 1]: where each source begins, and the end of the last.
        target_ids: int32 array of the target tokens of all pairs.
        target_offsets: Integers [n + 1], as `source_offsets`.

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
        """Integers [n]: source tokens of each pair, eos included."""
        return np.diff(self.source_offsets) + 1

    @property
    def target_lengths(self) -> np.ndarray:
        """Integers [n]: target tokens of each pair, with eos (labels) or bos (decoder inputs)."""
        return np.diff(self.target_offsets) + 1

    def padded_batch(
        self, indices: ArrayLike, width: int | None = None
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return one training batch, padded to its longest source and its longest target.

        Args:
            indices: Integers [B]: the pairs of the batch. A negative index gives a row of padding.
            width: The length to pad both sides to instead.

        Returns:
            A tuple `(inputs, labels)` of int32 arrays: `inputs["source"]` [B, S] ends with eos,
            `inputs["target"]` [B, T] begins with bos, and `labels` [B, T] end with eos.
        """
        indices = np.asarray(indices)
        source, source_end = _padded(self.source_ids, self.source_offsets, indices, width)
        labels, target_end = _padded(self.target_ids, self.target_offsets, indices, width)
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
    target_tokenizer: "Tokenizer | None" = None,
    max_length: int = 128,
) -> EncodedPairs:
    """Tokenize sentence pairs, and drop and count those that are empty or too long.

    Args:
        pairs: Source and target sentences. White space around them is stripped.
        source_tokenizer: Tokenizer of the sources.
        target_tokenizer: Tokenizer of the targets, if the languages have separate vocabularies.
        max_length: Most tokens of a source or target, eos included.

    Returns:
        `EncodedPairs` of the pairs that are left, in order. The log says how many were dropped.

    Raises:
        ValueError: If `max_length` is below 2, or no pair is left.

    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a dog", "a cat"], vocab_size=269))
    >>> pairs = encode_pairs([("a dog", "a cat"), ("", "a dog")], tokenizer)
    >>> len(pairs)
    1
    """
    if max_length < 2:
        raise ValueError(
            f"max_length must be at least 2 (a token and eos), received {max_length}. Try 256."
        )
    if target_tokenizer is None:
        target_tokenizer = source_tokenizer
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
            f"at least one sentence pair must be usable, received {total:,} pairs: {empty:,} with "
            f"an empty side and {too_long:,} longer than {max_length} tokens. Check the text, or "
            "increase max_length (data.max_length)."
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
    """Split pairs into lists of `size`; the last may be shorter."""
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _tokenize(tokenizer: "Tokenizer", sentences: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the concatenated ids of all sentences, and the number of ids of each."""
    ragged = tokenizer.tokenize([sentence.strip() for sentence in sentences])
    return ragged.values.numpy(), ragged.row_lengths().numpy()


def _offsets(counts: np.ndarray) -> np.ndarray:
    """Return where each row begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)])


def _padded(
    ids: np.ndarray, offsets: np.ndarray, indices: np.ndarray, width: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ids with at least one column of padding at the end, and their lengths."""
    counts = np.where(indices < 0, 0, offsets[indices + 1] - offsets[indices])
    columns = np.arange(width or counts.max() + 1)
    is_token = columns < counts[:, None]
    padded = np.full(is_token.shape, PAD_ID, np.int32)
    padded[is_token] = ids[(offsets[indices][:, None] + columns)[is_token]]
    return padded, counts
