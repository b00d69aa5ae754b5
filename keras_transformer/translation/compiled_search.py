"""A search compiled by XLA for a few shapes, behind any number and length of sentences."""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.decoding import SearchResult

SOURCE_SIZES = (16, 24, 32, 64, 128)
"""The lengths S to which sources are padded; longer ones are padded to the longest allowed."""

BATCH_SIZES = (1, 8, 64)
"""The numbers of sentences B to which batches are padded; more are searched part by part."""

MOST_TOKENS = 4096
"""The most B * S, as the memory of a search is that of its largest shape."""

FIRST_STAGE = 24
"""Tokens of a translation before the cache is enlarged, each time to four times as much."""


class CompiledSearch:
    """Runs a search in functions that XLA compiles at their first use, one for each shape.

    A compilation takes seconds, so that whoever serves the model runs each shape of its
    `search_shapes` once beforehand.

    Args:
        search: `search(source, limits, sizes) -> SearchResult` for ids [B, S], the most tokens
            of each translation [B], and the `sizes` of `decoding.Stages`.
        max_source_length: the longest source.
        extra_length: the most that a translation may be longer than its source.

    >>> def search(source, limits, sizes):
    ...     ids = tf.zeros([tf.shape(source)[0], 1, sizes[-1]], tf.int32) + 5
    ...     return SearchResult(ids, tf.zeros_like(ids[:, :, 0], tf.float32), limits[:, tf.newaxis])
    >>> search = CompiledSearch(search, max_source_length=20, extra_length=3)
    >>> search(tf.zeros([2, 18], tf.int32), limits=tf.constant([2, 4])).ids.shape
    TensorShape([2, 1, 4])
    """

    def __init__(
        self,
        search: Callable[[tf.Tensor, tf.Tensor, tuple[int, ...]], SearchResult],
        max_source_length: int,
        extra_length: int,
    ):
        self._source_sizes = source_sizes(max_source_length)
        self._functions = [
            self._compile(search, size, stage_sizes(size + extra_length))
            for size in self._source_sizes
        ]

    def __call__(self, source: tf.Tensor, limits: tf.Tensor) -> SearchResult:
        """Return the result of the search; a row does not depend on the shape it was padded to.

        Args:
            source: int32 [B, S], padded.
            limits: int32 [B], the most tokens of each translation.
        """
        index = _round_up(tf.shape(source)[1], self._source_sizes)
        source = _pad(source, tf.gather(self._source_sizes, index), axis=1, value=PAD_ID)
        batch = tf.shape(source)[0]
        largest = tf.gather([batch_sizes(size)[-1] for size in self._source_sizes], index)

        def search_some(start, *found):
            end = tf.minimum(start + largest, batch)
            rows = tf.gather(BATCH_SIZES, _round_up(end - start, BATCH_SIZES))
            chunk = _pad(source[start:end], rows, axis=0, value=PAD_ID)
            # A row of padding stops at its first token.
            ends = _pad(limits[start:end], rows, axis=0, value=1)
            branches = [
                lambda f=f, size=size: f(tf.reshape(chunk, [-1, size]), ends)
                for f, size in zip(self._functions, self._source_sizes, strict=True)
            ]
            result = tf.switch_case(index, branches)
            parts = [tensor[: end - start] for tensor in result]
            return end, *(tf.concat(pair, axis=0) for pair in zip(found, parts, strict=True))

        shapes = [_result_shape(function) for function in self._functions]
        length, n = tf.gather([shape[2] for shape in shapes], index), shapes[0][1]
        _, ids, scores, lengths = tf.while_loop(
            lambda start, *found: start < batch,
            search_some,
            (0, tf.zeros([0, n, length], tf.int32), tf.zeros([0, n]), tf.zeros([0, n], tf.int32)),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, n, None]),
                tf.TensorShape([None, n]),
                tf.TensorShape([None, n]),
            ),
        )
        return SearchResult(ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)], scores, lengths)

    def _compile(self, search, source_size, sizes):
        signature = [tf.TensorSpec([None, source_size], tf.int32), tf.TensorSpec([None], tf.int32)]

        @tf.function(input_signature=signature, autograph=False, jit_compile=True)
        def compiled(source, limits):
            return search(source, limits, sizes)

        return compiled


def search_shapes(max_source_length: int) -> list[tuple[int, int]]:
    """Return all shapes (B, S) that are compiled.

    >>> search_shapes(20)
    [(1, 16), (8, 16), (64, 16), (1, 20), (8, 20), (64, 20)]
    """
    sizes = source_sizes(max_source_length)
    return [(batch, size) for size in sizes for batch in batch_sizes(size)]


def source_sizes(max_source_length: int) -> tuple[int, ...]:
    """Return the lengths S to which sources are padded."""
    shorter = [size for size in SOURCE_SIZES if size < max_source_length]
    return (*shorter, max_source_length)


def batch_sizes(source_size: int) -> tuple[int, ...]:
    """Return the numbers B of sources of length S that are searched at once.

    >>> batch_sizes(64), batch_sizes(65)
    ((1, 8, 64), (1, 8))
    """
    first, *others = BATCH_SIZES
    return (first, *(size for size in others if size * source_size <= MOST_TOKENS))


def stage_sizes(length: int) -> tuple[int, ...]:
    """Return the sizes of a search's cache that reach a length.

    >>> stage_sizes(20), stage_sizes(100)
    ((20,), (24, 96, 100))
    """
    sizes, size = [], FIRST_STAGE
    while size < length:
        sizes.append(size)
        size *= 4
    return (*sizes, length)


def _result_shape(function):
    return function.get_concrete_function().structured_outputs.ids.shape


def _round_up(number, sizes):
    """Return the index of the smallest of rising `sizes` that is no less than `number`."""
    return tf.math.count_nonzero(number > tf.constant(sizes[:-1], tf.int32), dtype=tf.int32)


def _pad(tensor, size, axis, value):
    missing = tf.maximum(size - tf.shape(tensor)[axis], 0)
    paddings = [[0, missing if i == axis else 0] for i in range(tensor.shape.rank)]
    return tf.pad(tensor, paddings, constant_values=value)
