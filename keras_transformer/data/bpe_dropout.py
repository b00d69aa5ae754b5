"""BPE-dropout (Provilkov et al., 2020): a new random segmentation of the text in each epoch."""

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.config import UNK_ID
from keras_transformer.data.encoding import EncodedPairs

if TYPE_CHECKING:
    from keras_transformer.text import SentencePieceTokenizer

_LINES_AT_ONCE = 8192


def drop_merges(
    pairs: EncodedPairs,
    tokenizers: "tuple[SentencePieceTokenizer, SentencePieceTokenizer]",
    rate: float,
    *,
    max_length: int,
    seed: int | Sequence[int],
) -> EncodedPairs:
    """Segment sentence pairs again with random merges left out (BPE-dropout).

    See `SentencePieceTokenizer.drop_merges`.

    Args:
        pairs: Sentence pairs to segment; not modified.
        tokenizers: Source and target tokenizers that encoded the pairs.
        rate: Probability of leaving out a merge, from 0 to 1.
        max_length: Most tokens of a sentence, eos included. A sentence that would become longer
            keeps its segmentation, and so does a sentence with unk, whose text is unknown.
        seed: Seed of the segmentation; equal seeds give equal results.

    Returns:
        `EncodedPairs` with the same pairs in the same order, mostly of more tokens.

    >>> from keras_transformer.data import encode_pairs
    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["ab ab"], vocab_size=265))
    >>> pairs = encode_pairs([("ab", "ab ab")], tokenizer, tokenizer, max_length=10)
    >>> characters = drop_merges(pairs, (tokenizer, tokenizer), rate=1, max_length=10, seed=7)
    >>> tokenizer.id_to_piece(pairs.source_ids), tokenizer.id_to_piece(characters.source_ids)
    (['▁ab'], ['▁', 'a', 'b'])
    """
    random = np.random.default_rng(seed)
    sides = (
        (pairs.source_ids, pairs.source_offsets, tokenizers[0]),
        (pairs.target_ids, pairs.target_offsets, tokenizers[1]),
    )
    parts = []
    for ids, offsets, tokenizer in sides:
        chunks = []
        for start in range(0, len(pairs), _LINES_AT_ONCE):
            bounds = offsets[start : start + _LINES_AT_ONCE + 1]
            rows = [ids[i:j].tolist() for i, j in zip(bounds, bounds[1:], strict=False)]
            segmented = tokenizer.drop_merges(rows, rate, seed=int(random.integers(2**32)))
            rows = [
                old if UNK_ID in old or len(new) >= max_length else new
                for old, new in zip(rows, segmented, strict=True)
            ]
            chunks.append((np.fromiter(chain(*rows), np.int32), [len(row) for row in rows]))
        flat, counts = (np.concatenate(part) for part in zip(*chunks, strict=True))
        parts += [flat, np.concatenate([[0], np.cumsum(counts)])]
    return EncodedPairs(*parts)
