"""BPE-dropout: sentences that are cut into other subwords each time they are trained on."""

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
    """Cuts sentence pairs into subwords anew, as `SentencePieceTokenizer.drop_merges` does.

    Args:
        pairs: What to cut; not changed.
        tokenizers: The source's and the target's, which made the pairs.
        rate: The probability of each merge to be left out, from 0 to 1.
        max_length: A sentence that would get more tokens than this, eos included, keeps its
            subwords, and so does one with unk, whose text is lost.
        seed: The same gives the same subwords.

    Returns:
        The same pairs in the same order, of other and mostly more subwords.
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
            cut_anew = tokenizer.drop_merges(rows, rate, seed=int(random.integers(2**32)))
            rows = [
                old if UNK_ID in old or len(new) >= max_length else new
                for old, new in zip(rows, cut_anew, strict=True)
            ]
            chunks.append((np.fromiter(chain(*rows), np.int32), [len(row) for row in rows]))
        flat, counts = (np.concatenate(part) for part in zip(*chunks, strict=True))
        parts += [flat, np.concatenate([[0], np.cumsum(counts)])]
    return EncodedPairs(*parts)
