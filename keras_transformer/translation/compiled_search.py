"""A search that XLA compiles for a few shapes, for any number and length of sentences."""

from collections.abc import Callable

import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.decoding import SearchResult

SOURCE_LENGTHS = (16, 24, 32, 64, 128)
"""The lengths S that sources are padded to; longer ones are padded to the maximum length."""

BATCH_SIZES = (1, 8, 64)
"""The batch sizes B that batches are padded to; larger batches are searched in parts."""

MAX_BATCH_TOKENS = 4096
"""The maximum of B * S: a search needs the memory of its largest shape."""

FIRST_STAGE = 24
"""The tokens that the cache has room for at first; each later stage has room for 4 times more."""


class CompiledSearch:
    """Runs a search in functions that XLA compiles at their first call, one for each shape.

    Compiling takes seconds, so a server should call each of the `search_shapes` once before it
    takes requests.

    Args:
        search: `search(source, max_lengths, num_words, stage_lengths) -> SearchResult` for ids
            [B, S], the arguments of the call, and the `lengths` of `Stages`.
        max_source_length: The length of the longest source.
        longest: `longest(length)`, the maximum number of tokens of a translation, for a source of
            that length.

    Call arguments:
        source: int32 [B, S], padded.
        max_lengths: int32 [B], the maximum number of tokens of each translation.
        num_words: int32 [B], the number of words of each source, for a search that counts them.

    Returns:
        A `SearchResult`. A row does not depend on the shape that it was padded to.

    >>> def search(source, max_lengths, num_words, stage_lengths):
    ...     ids = tf.zeros([tf.shape(source)[0], 1, stage_lengths[-1]], tf.int32) + 5
    ...     scores = tf.zeros_like(ids[:, :, 0], tf.float32)
    ...     return SearchResult(ids, scores, max_lengths[:, tf.newaxis])
    >>> search = CompiledSearch(search, max_source_length=20, longest=lambda length: length + 3)
    >>> limits, words = tf.constant([2, 4]), tf.constant([1, 1])
    >>> search(tf.zeros([2, 18], tf.int32), limits, words).ids.shape
    TensorShape([2, 1, 4])
    """

    def __init__(
        self,
        search: Callable[[tf.Tensor, tf.Tensor, tf.Tensor, tuple[int, ...]], SearchResult],
        max_source_length: int,
        longest: Callable[[int], int],
    ):
        self._source_lengths = source_lengths(max_source_length)
        self._functions = [
            self._compile(search, length, stage_lengths(longest(length)))
            for length in self._source_lengths
        ]

    def __call__(
        self, source: tf.Tensor, max_lengths: tf.Tensor, num_words: tf.Tensor
    ) -> SearchResult:
        index = _round_up(tf.shape(source)[1], self._source_lengths)
        source = _pad(source, tf.gather(self._source_lengths, index), axis=1, value=PAD_ID)
        batch = tf.shape(source)[0]
        largest = tf.gather([batch_sizes(length)[-1] for length in self._source_lengths], index)

        def search_part(start, *found):
            end = tf.minimum(start + largest, batch)
            rows = tf.gather(BATCH_SIZES, _round_up(end - start, BATCH_SIZES))
            part = _pad(source[start:end], rows, axis=0, value=PAD_ID)
            # Rows of padding stop at their first token.
            limits = _pad(max_lengths[start:end], rows, axis=0, value=1)
            words = _pad(num_words[start:end], rows, axis=0, value=0)
            branches = [
                lambda f=f, length=length: f(tf.reshape(part, [-1, length]), limits, words)
                for f, length in zip(self._functions, self._source_lengths, strict=True)
            ]
            result = tf.switch_case(index, branches)
            parts = [tensor[: end - start] for tensor in result]
            return end, *(tf.concat(pair, axis=0) for pair in zip(found, parts, strict=True))

        functions = [function.get_concrete_function() for function in self._functions]
        shapes = [function.structured_outputs.ids.shape for function in functions]
        max_length, n = tf.gather([shape[2] for shape in shapes], index), shapes[0][1]
        nothing = (
            tf.zeros([0, n, max_length], tf.int32),
            tf.zeros([0, n]),
            tf.zeros([0, n], tf.int32),
        )
        _, ids, scores, lengths = tf.while_loop(
            lambda start, *found: start < batch,
            search_part,
            (0, *nothing),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, n, None]),
                tf.TensorShape([None, n]),
                tf.TensorShape([None, n]),
            ),
        )
        return SearchResult(ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)], scores, lengths)

    def _compile(self, search, source_length, stage_lengths):
        ids = tf.TensorSpec([None, source_length], tf.int32)
        numbers = tf.TensorSpec([None], tf.int32)

        @tf.function(input_signature=[ids, numbers, numbers], autograph=False, jit_compile=True)
        def compiled(source, max_lengths, num_words):
            return search(source, max_lengths, num_words, stage_lengths)

        return compiled


def search_shapes(max_source_length: int) -> list[tuple[int, int]]:
    """Return all shapes (B, S) of sources that are compiled.

    >>> search_shapes(20)
    [(1, 16), (8, 16), (64, 16), (1, 20), (8, 20), (64, 20)]
    """
    lengths = source_lengths(max_source_length)
    return [(batch, length) for length in lengths for batch in batch_sizes(length)]


def source_lengths(max_source_length: int) -> tuple[int, ...]:
    """Return the lengths S that sources are padded to."""
    shorter = [length for length in SOURCE_LENGTHS if length < max_source_length]
    return (*shorter, max_source_length)


def batch_sizes(source_length: int) -> tuple[int, ...]:
    """Return the batch sizes B for sources of length S.

    >>> batch_sizes(64), batch_sizes(65)
    ((1, 8, 64), (1, 8))
    """
    first, *others = BATCH_SIZES
    return (first, *(size for size in others if size * source_length <= MAX_BATCH_TOKENS))


def stage_lengths(max_length: int) -> tuple[int, ...]:
    """Return the `lengths` of `Stages` for translations of at most `max_length` tokens.

    >>> stage_lengths(20), stage_lengths(100)
    ((20,), (24, 96, 100))
    """
    lengths, length = [], FIRST_STAGE
    while length < max_length:
        lengths.append(length)
        length *= 4
    return (*lengths, max_length)


def _round_up(number, sizes):
    """Return the index of the smallest of ascending `sizes` that is at least `number`."""
    return tf.math.count_nonzero(number > tf.constant(sizes[:-1], tf.int32), dtype=tf.int32)


def _pad(tensor, size, axis, value):
    missing = tf.maximum(size - tf.shape(tensor)[axis], 0)
    paddings = [[0, missing if i == axis else 0] for i in range(tensor.shape.rank)]
    return tf.pad(tensor, paddings, constant_values=value)
