"""A table from strings to numbers that is part of a graph, and needs no initialization."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

_NUM_HASHES = 2**62


class StringTable:
    """Look strings up by their hash, in a sorted list.

    Args:
        numbers: A number for each string, at least 0.

    >>> table = StringTable({"▁a": 7, "dog": 9})
    >>> table(tf.constant(["dog", "cat", "▁a"]), default=1).numpy().tolist()
    [9, 1, 7]
    """

    def __init__(self, numbers: Mapping[str, int]):
        strings = np.array([string.encode() for string in numbers], object)
        hashes = tf.strings.to_hash_bucket_fast(tf.constant(strings, tf.string), _NUM_HASHES)
        order = np.argsort(hashes.numpy())
        self._hashes = hashes.numpy()[order]
        self._strings = strings[order]
        self._numbers = np.fromiter(numbers.values(), np.int32)[order]
        if len(np.unique(self._hashes)) < len(order):
            raise ValueError("two strings have the same hash of 62 bits; rename one of them")

    def __call__(self, strings: tf.Tensor, default: int) -> tf.Tensor:
        """Return the numbers int32 [N] of strings [N], and `default` for others."""
        if not len(self._strings):
            return tf.fill(tf.shape(strings), default)
        hashes = tf.strings.to_hash_bucket_fast(strings, _NUM_HASHES)
        places = tf.searchsorted(tf.constant(self._hashes), hashes)
        places = tf.minimum(places, len(self._hashes) - 1)
        is_known = tf.gather(tf.constant(self._strings), places) == strings
        return tf.where(is_known, tf.gather(tf.constant(self._numbers), places), default)
