"""Sentence pairs as token ids, without empty and overlong ones."""

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID
from keras_transformer.data.cleaning import CleaningRules, log_report, reason_names

if TYPE_CHECKING:
    from keras_transformer.text import Tokenizer

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to parts of the text, in order: `map`, or one with other processes, to which
the function and the parts are copied."""

_LINES_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Sentence pairs as token ids, without bos and eos.

    The ids of all sentences are concatenated; the arrays may be memory-mapped files. The source of
    pair i is `source_ids[source_offsets[i]:source_offsets[i + 1]]`, and the target likewise.

    Attributes:
        source_ids: int32 or uint16 array of the source tokens of all pairs.
        source_offsets: Integers [n + 1]: where each source begins, and the end of the last.
        target_ids: int32 or uint16 array of the target tokens of all pairs.
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
        """int32 [n]: source tokens of each pair, eos included."""
        return _lengths(self.source_offsets)

    @property
    def target_lengths(self) -> np.ndarray:
        """int32 [n]: target tokens of each pair, with eos (labels) or bos (decoder inputs)."""
        return _lengths(self.target_offsets)

    @property
    def sides(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Ids and offsets of the sources, and of the targets."""
        return (self.source_ids, self.source_offsets), (self.target_ids, self.target_offsets)

    def rows(self, side: int, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of some pairs, concatenated, and the number of tokens of each.

        Args:
            side: 0 for the sources, 1 for the targets.
            members: Integers [n]: the pairs.
        """
        ids, offsets = self.sides[side]
        counts = offsets[members + 1] - offsets[members]
        ends = np.cumsum(counts)
        places = np.repeat(offsets[members] - (ends - counts), counts) + np.arange(ends[-1])
        return ids[places].astype(np.int32), counts.astype(np.int64)

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
    languages: Sequence[str | Sequence[str]] = (),
) -> EncodedPairs:
    """Tokenize sentence pairs, and drop and count those that are empty or too long.

    Args:
        pairs: Source and target sentences. White space around them is stripped, unless their
            tokenizer keeps it.
        source_tokenizer: Tokenizer of the sources.
        target_tokenizer: Tokenizer of the targets, if the languages have separate vocabularies.
        max_length: Most tokens of a source or target, eos included.
        languages: For a model of many languages, the codes of source and target, whose tokens
            begin the sentences; for each side, one of all pairs, or a list with one for each.

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
    rules = CleaningRules(max_length=max_length)
    tokenizers = source_tokenizer, target_tokenizer or source_tokenizer
    chunks, dropped = [], collections.Counter[str]()
    read = 0
    for chunk in chunked(pairs):
        part = slice(read, read := read + len(chunk))
        codes = [each if isinstance(each, str) else each[part] for each in languages]
        encoded = encode_chunk(chunk, tokenizers, rules, languages=codes)
        dropped += encoded.dropped
        chunks.append(encoded)
    log_report(rules, sum(map(len, chunks)), dropped)
    arrays: list[np.ndarray] = []
    for side in (0, 1):
        ids, counts = (np.concatenate([chunk.sides[side][i] for chunk in chunks]) for i in (0, 1))
        arrays += [ids, offsets_of(counts)]
    return EncodedPairs(*arrays)


@dataclass(frozen=True, eq=False)
class EncodedChunk:
    """The pairs that are left of a part of the text, and how many were dropped, by reason."""

    sides: Sequence[tuple[np.ndarray, np.ndarray]]
    """Of source and target: the ids of all sentences, and the number of ids of each."""
    dropped: collections.Counter[str]

    def __len__(self) -> int:
        return len(self.sides[0][1])


def encode_chunk(
    chunk: Sequence[tuple[str, str]],
    tokenizers: "tuple[Tokenizer, Tokenizer]",
    rules: CleaningRules,
    is_repeated: np.ndarray | bool = False,
    found: Iterable[np.ndarray] = (),
    languages: Sequence[str | Sequence[str]] = (),
) -> EncodedChunk:
    """Tokenize and clean a few thousand sentence pairs.

    Args:
        chunk: The pairs.
        tokenizers: Of source and target.
        rules: Which pairs to drop.
        is_repeated: Booleans [n]: whether each pair occurred before.
        found: Booleans [n] for each of the rules' filters: whether it finds the pair.
        languages: See `encode_pairs`.
    """
    sides = [
        tokenizer.encode(_stripped([pair[side] for pair in chunk], tokenizer))
        for side, tokenizer in enumerate(tokenizers)
    ]
    if languages:
        sides = [
            _begun(*side, _language_ids(codes, tokenizer, len(chunk)))
            for side, codes, tokenizer in zip(sides, languages, tokenizers, strict=True)
        ]
    source_counts, target_counts = (counts for _, counts in sides)
    reasons = rules.reasons(source_counts, target_counts, is_repeated, found)
    keep, names = reasons < 0, reason_names(rules)
    numbers = np.bincount(reasons[~keep], minlength=len(names)).tolist()
    return EncodedChunk(
        [(ids[np.repeat(keep, counts)], counts[keep]) for ids, counts in sides],
        collections.Counter(dict(zip(names, numbers, strict=True))),
    )


def _language_ids(codes: str | Sequence[str], tokenizer: "Tokenizer", count: int) -> np.ndarray:
    """Return the token of the language of each sentence."""
    names = count * [codes] if isinstance(codes, str) else codes
    return np.array([tokenizer.languages[name] for name in names])


def _begun(
    ids: np.ndarray, counts: np.ndarray, tokens: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of ids that begin with a token each, unless they are empty."""
    is_text = counts > 0
    starts = np.cumsum(counts) - counts
    return np.insert(ids, starts[is_text], tokens[is_text]), counts + is_text


def _stripped(texts: list[str], tokenizer: "Tokenizer") -> list[str]:
    """Return texts without the white space around them that the tokenizer does not keep."""
    keeps = tokenizer.keeps_white_space
    return [text if keeps and not text.isspace() else text.strip() for text in texts]


def chunked(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Split pairs into lists of a few thousand; the last may be shorter."""
    iterator = iter(pairs)
    while chunk := list(itertools.islice(iterator, _LINES_AT_ONCE)):
        yield chunk


def offsets_of(counts: np.ndarray) -> np.ndarray:
    """Return where each row begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts)])


def _lengths(offsets: np.ndarray) -> np.ndarray:
    """Return int32 lengths, eos included, without temporary arrays of 8 bytes a pair."""
    lengths = np.empty(len(offsets) - 1, np.int32)
    np.subtract(offsets[1:], offsets[:-1], out=lengths, casting="unsafe")
    lengths += 1
    return lengths


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
