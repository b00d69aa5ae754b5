"""A search that XLA compiles for a few shapes, for any number and length of sentences."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.config import PAD_ID
from keras_transformer.decoding import SearchResult

SOURCE_LENGTHS = (16, 24, 32, 64, 128)
"""The lengths S that sources are padded to on a CPU; longer ones are padded to the maximum."""

BATCH_SIZES = (1, 8, 64)
"""The batch sizes B that batches are padded to on a CPU; larger ones are searched in parts."""

MAX_BATCH_TOKENS = 4096
"""The maximum of B * S on a CPU: a search needs the memory of its largest shape."""

FIRST_STAGE = 24
"""The tokens that the cache has room for at first; each later stage has room for 4 times more."""

GPU_SOURCE_LENGTHS = (32, 96, 256)
"""`SOURCE_LENGTHS` of a GPU, which compiles each shape for seconds."""

GPU_BATCH_SIZES = (1, 8, 64, 256)
"""`BATCH_SIZES` of a GPU, on which a step takes nearly the same time for few and for many rows."""

GPU_MAX_BATCH_TOKENS = 32768
"""`MAX_BATCH_TOKENS` of a GPU."""

GPU_FIRST_STAGE = 32
"""`FIRST_STAGE` of a GPU. The last stage may have twice its room, which saves compiling a loop."""


class Needs(NamedTuple):
    """What a search must know of each of its B sentences. What is not given is ().

    Attributes:
        max_lengths: int32 [B], the maximum number of tokens of each translation.
        num_words: int32 [B], the number of words of each source, for trees.
        kept: int32 [B, 2, K], how often each kept token occurs, at least and at most.
        first_tokens: int32 [B], the token that each translation begins with.
    """

    max_lengths: Any
    num_words: Any = ()
    kept: Any = ()
    first_tokens: Any = ()


_LIMITS_ALONE = Needs(tf.TensorSpec([None], tf.int32))


class CompiledSearch:
    """Runs a search in functions that XLA compiles at their first call, one for each shape.

    Compiling takes seconds, so a server should call each of the `search_shapes` once before it
    takes requests.

    Args:
        search: `search(source, needs, stage_lengths) -> SearchResult` for ids [B, S], `Needs`, and
            the `lengths` of `Stages`.
        max_source_length: The length of the longest source.
        longest: `longest(length)`, the maximum number of tokens of a translation, for a source of
            that length.
        device: The device that the shapes are chosen for, "cpu" or "gpu". With "gpu", only the
            compiled functions run on the GPU, between one copy of their inputs and one of their
            outputs.
        specs: The `Needs` of a call, each a `tf.TensorSpec` of any B; by default only the limits.

    Call arguments:
        source: int32 [B, S], padded.
        needs: The `Needs` of the sentences.

    Returns:
        A `SearchResult`. A row does not depend on the shape that it was padded to.

    >>> def search(source, needs, stage_lengths):
    ...     ids = tf.zeros([tf.shape(source)[0], 1, stage_lengths[-1]], tf.int32) + 5
    ...     scores = tf.zeros_like(ids[:, :, 0], tf.float32)
    ...     return SearchResult(ids, scores, needs.max_lengths[:, tf.newaxis])
    >>> search = CompiledSearch(search, max_source_length=20, longest=lambda length: length + 3)
    >>> search(tf.zeros([2, 18], tf.int32), Needs(max_lengths=tf.constant([2, 4]))).ids.shape
    TensorShape([2, 1, 4])
    """

    def __init__(
        self,
        search: Callable[..., SearchResult],
        max_source_length: int,
        longest: Callable[[int], int],
        device: str = "cpu",
        specs: Needs = _LIMITS_ALONE,
    ):
        self.device = device
        self._source_lengths = source_lengths(max_source_length, device)
        self._functions = [
            self._compile(search, length, specs, stage_lengths(longest(length), device))
            for length in self._source_lengths
        ]

    def __call__(self, source: tf.Tensor, needs: Needs) -> SearchResult:
        sizes = batch_sizes(1, self.device)
        with host(self.device):
            index = _round_up(tf.shape(source)[1], self._source_lengths)
            source = _pad(source, tf.gather(self._source_lengths, index), axis=1, value=PAD_ID)
            batch = tf.shape(source)[0]
            largest = [batch_sizes(length, self.device)[-1] for length in self._source_lengths]
            largest = tf.gather(largest, index)

        def search_part(start, *found):
            with host(self.device):
                end = tf.minimum(start + largest, batch)
                rows = tf.gather(sizes, _round_up(end - start, sizes))
                part = _pad(source[start:end], rows, axis=0, value=PAD_ID)
                needed = tf.nest.map_structure(
                    lambda each: _pad(each[start:end], rows, axis=0, value=0), needs
                )
                # Rows of padding stop at their first token.
                limits = _pad(needs.max_lengths[start:end], rows, axis=0, value=1)
                needed = needed._replace(max_lengths=limits)
            branches = [
                functools.partial(self._run, number, part, needed)
                for number in range(len(self._functions))
            ]
            result = tf.switch_case(index, branches)
            with host(self.device):
                parts = [tensor[: end - start] for tensor in result]
                return end, *(tf.concat(pair, axis=0) for pair in zip(found, parts, strict=True))

        functions = [function.get_concrete_function() for function in self._functions]
        shapes = [function.structured_outputs.ids.shape for function in functions]
        n = shapes[0][1]
        with host(self.device):
            max_length = tf.gather([shape[2] for shape in shapes], index)
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
        with host(self.device):
            longest = tf.maximum(tf.reduce_max(lengths), 0)
            return SearchResult(ids[:, :, :longest], scores, lengths)

    def _run(self, number, source, needs):
        with host(self.device):
            source = tf.reshape(source, [-1, self._source_lengths[number]])
            inputs = self._to_border((source, needs))
        result = self._functions[number](*inputs)
        with host(self.device):
            return _from_border(result)

    def _compile(self, search, source_length, specs, stage_lengths):
        border = tf.int64 if self.device == "gpu" else tf.int32
        inputs = tf.TensorSpec([None, source_length], tf.int32), specs
        signature = tf.nest.map_structure(lambda spec: tf.TensorSpec(spec.shape, border), inputs)

        @tf.function(input_signature=signature, autograph=False, jit_compile=True)
        def compiled(source, needs):
            source, needs = _from_border((source, needs))
            return self._to_border(search(source, needs, stage_lengths))

        return compiled

    def _to_border(self, tensors):
        """Return tensors with integers in a type that TensorFlow keeps in the device's memory.

        On a GPU, it expects int32 in the memory of the CPU, where XLA has none.
        """

        def convert(tensor):
            is_moved = self.device == "gpu" and tensor.dtype == tf.int32
            return tf.cast(tensor, tf.int64) if is_moved else tensor

        return tf.nest.map_structure(convert, tensors)


def host(device: str) -> AbstractContextManager:
    """Return a context in which operations stay on the CPU if others run on a GPU."""
    return tf.device("/CPU:0") if device == "gpu" else nullcontext()


def search_shapes(max_source_length: int, device: str = "cpu") -> list[tuple[int, int]]:
    """Return all shapes (B, S) of sources that are compiled for a device.

    >>> search_shapes(20)
    [(1, 16), (8, 16), (64, 16), (1, 20), (8, 20), (64, 20)]
    """
    lengths = source_lengths(max_source_length, device)
    return [(batch, length) for length in lengths for batch in batch_sizes(length, device)]


def source_lengths(max_source_length: int, device: str = "cpu") -> tuple[int, ...]:
    """Return the lengths S that sources are padded to."""
    lengths = GPU_SOURCE_LENGTHS if device == "gpu" else SOURCE_LENGTHS
    shorter = [length for length in lengths if length < max_source_length]
    return (*shorter, max_source_length)


def batch_sizes(source_length: int, device: str = "cpu") -> tuple[int, ...]:
    """Return the batch sizes B for sources of length S.

    >>> batch_sizes(64), batch_sizes(65)
    ((1, 8, 64), (1, 8))
    """
    first, *others = GPU_BATCH_SIZES if device == "gpu" else BATCH_SIZES
    most = GPU_MAX_BATCH_TOKENS if device == "gpu" else MAX_BATCH_TOKENS
    return (first, *(size for size in others if size * source_length <= most))


def stage_lengths(max_length: int, device: str = "cpu") -> tuple[int, ...]:
    """Return the `lengths` of `Stages` for translations of at most `max_length` tokens.

    >>> stage_lengths(20), stage_lengths(100), stage_lengths(150, "gpu")
    ((20,), (24, 96, 100), (32, 150))
    """
    lengths, length = [], GPU_FIRST_STAGE if device == "gpu" else FIRST_STAGE
    last_step = 2 if device == "gpu" else 1
    while last_step * length < max_length:
        lengths.append(length)
        length *= 4
    return (*lengths, max_length)


def _round_up(number, sizes):
    """Return the index of the smallest of ascending `sizes` that is at least `number`."""
    return tf.math.count_nonzero(number > tf.constant(sizes[:-1], tf.int32), dtype=tf.int32)


def _from_border(tensors):
    return tf.nest.map_structure(
        lambda x: tf.cast(x, tf.int32) if x.dtype == tf.int64 else x, tensors
    )


def _pad(tensor, size, axis, value):
    missing = tf.maximum(size - tf.shape(tensor)[axis], 0)
    paddings = [[0, missing if i == axis else 0] for i in range(tensor.shape.rank)]
    return tf.pad(tensor, paddings, constant_values=value)
