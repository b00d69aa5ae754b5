"""Word dropout: in each pass, other words are replaced by their classes."""

from concurrent.futures import Future
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.data.encoding import EncodedPairs

if TYPE_CHECKING:
    from keras_transformer.text import WordTokenizer


class WordDropout:
    """Replaces words of sources by their classes, rare ones more often than frequent ones.

    So a model learns what words of a class have in common (Kiperwasser and Goldberg, 2016). A word
    that occurred n times is replaced with a probability of rate / (rate + n). The words that are
    replaced depend on the seed, the number of the pass and the place in the pass.

    Args:
        pairs: Sentence pairs; not modified.
        tokenizer: The tokenizer that encoded the sources.
        rate: The rate, at least 0.
        seed: Seed of the choice.

    Attributes:
        growth: How many times as many tokens the text has afterwards: 1.

    >>> from keras_transformer.data import encode_pairs
    >>> from keras_transformer.text import WordTokenizer, train_words
    >>> tokenizer = WordTokenizer(train_words(["tea tea", *"abcdefghij"], 20))
    >>> pairs = encode_pairs([("tea a", "tea")], tokenizer, tokenizer, max_length=10)
    >>> varied = WordDropout(pairs, tokenizer, rate=1e9).segment(0, 0, np.array([0])).result()
    >>> tokenizer.id_to_piece(pairs.source_ids), tokenizer.id_to_piece(varied.source_ids)
    (['tea', '<a>'], ['<a>', '<a>'])
    """

    growth = 1.0

    def __init__(
        self, pairs: EncodedPairs, tokenizer: "WordTokenizer", rate: float, *, seed: int = 0
    ):
        self.pairs = pairs
        self.seed = seed
        self._classes = tokenizer.class_ids()
        counts = tokenizer.counts
        self._rates = np.where(counts > 0, rate / (rate + np.maximum(counts, 1)), 0.0)

    def segment(self, number: int, first: int, members: np.ndarray) -> "Future[EncodedPairs]":
        """Return some pairs with other words replaced.

        Args:
            number: The number of the pass.
            first: The place in the pass of the first pair.
            members: Integers [n]: the pairs.

        Returns:
            A future of `EncodedPairs` with these pairs in their order.
        """
        rows = []
        for place, member in enumerate(members, start=first):
            ids = self.pairs.source_ids[slice(*self.pairs.source_offsets[member : member + 2])]
            draws = np.random.default_rng([self.seed, number, place]).random(len(ids))
            rows.append(np.where(draws < self._rates[ids], self._classes[ids], ids))
        future: Future[EncodedPairs] = Future()
        future.set_result(self._with_sources(members, rows))
        return future

    def _with_sources(self, members: np.ndarray, rows: list[np.ndarray]) -> EncodedPairs:
        targets = [
            self.pairs.target_ids[slice(*self.pairs.target_offsets[member : member + 2])]
            for member in members
        ]
        arrays: list[np.ndarray] = []
        for side in (rows, targets):
            ends = np.cumsum([len(row) for row in side])
            ids = np.concatenate([np.zeros(0, np.int32), *side])
            arrays += [ids.astype(np.int32), np.concatenate([[0], ends]).astype(np.int64)]
        return EncodedPairs(*arrays)
