"""Token batches as a tf.data pipeline for `model.fit`."""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.data.batching import plan_batches
from keras_transformer.data.encoding import EncodedPairs

if TYPE_CHECKING:
    import tensorflow as tf


# Making a batch takes under a millisecond. Keras peeks at the first batch, which must not make the
# generator run to the end of the epoch.
_PREFETCHED = 2


class TokenBatches:
    """Batches of about `batch_tokens` source tokens and target tokens each (Section 5.1).

    Args:
        pairs: Sentence pairs to batch.
        batch_tokens: The largest size of a batch, for source and target each: rows times longest
            length, padding included.
        num_replicas: Rows of padding complete every batch to a multiple of this number of rows. The
            sentences of a batch do not depend on it.
        seed: Seed of the order, combined with the epoch.
        shuffle: Whether to shuffle. Without it, every pass has the same order, from short to long.
        steps_per_epoch: Batches per epoch; by default those of one pass over the pairs. An epoch
            continues where the last one ended.
        vary: Function of the pairs and the number of a pass, from 0, that returns other
            segmentations of the same pairs for that pass, such as `drop_merges`. Every epoch has
            as many batches as the first pass: if a pass has more, the rest is left out; if it has
            fewer, the epoch continues with the next pass.
        widths: The widths of all batches, such as `choose_widths` returns. Source and target are
            padded to one of them, with rows that depend on it alone, so that XLA compiles a step
            once for each. By default, batches are padded to their longest source and target.

    Attributes:
        epoch: Number of the epoch that the next iteration produces, from 0. A complete iteration
            increments it; looking at the first batch does not. To resume, set it before iterating.
        step: Number of batches of the current epoch to leave out, from 0. Set it before calling
            `dataset`, whose elements are then those that are left; a complete iteration resets it
            to 0.
        tokens: Source and target tokens per epoch, without padding. It is a mean if epochs are not
            whole passes, and that of the first pass if `vary` is given.

    Raises:
        ValueError: If `plan_batches` refuses the arguments.

    >>> from keras_transformer.data import EncodedPairs
    >>> pairs = EncodedPairs(
    ...     source_ids=np.array([7, 8, 9], np.int32), source_offsets=np.array([0, 1, 3]),
    ...     target_ids=np.array([4, 5, 6], np.int32), target_offsets=np.array([0, 2, 3]))
    >>> batches = TokenBatches(pairs, batch_tokens=6)
    >>> len(batches)
    1
    >>> [(inputs["source"].shape, labels.shape) for inputs, labels in batches.dataset()]
    [(TensorShape([2, 3]), TensorShape([2, 3]))]
    """

    def __init__(
        self,
        pairs: EncodedPairs,
        batch_tokens: int,
        *,
        num_replicas: int = 1,
        seed: int = 0,
        shuffle: bool = True,
        steps_per_epoch: int | None = None,
        vary: Callable[[EncodedPairs, int], EncodedPairs] | None = None,
        widths: Sequence[int] | None = None,
    ):
        self.pairs = pairs
        self.batch_tokens = batch_tokens
        self.num_replicas = num_replicas
        self.seed = seed
        self.shuffle = shuffle
        self.vary = vary
        self.widths = widths
        self._varied: tuple[int, EncodedPairs] | None = None
        self.epoch = 0
        self.step = 0
        first = self._pairs_of_pass(0)
        self._pass_length = len(self._plan(first, 0))
        self._length = steps_per_epoch or self._pass_length
        tokens = int(first.source_lengths.sum() + first.target_lengths.sum())
        self.tokens = tokens * self._length / self._pass_length

    def __len__(self) -> int:
        return self._length

    def dataset(self) -> "tf.data.Dataset":
        """Return a dataset for `fit`, which iterates over it once per epoch.

        Elements are those of `EncodedPairs.padded_batch`:
        `({"source": [B, S], "target": [B, T]}, labels [B, T])`, int32. Their shapes are unknown to
        the graph, so a training step is traced only once.
        """
        import tensorflow as tf

        ids = tf.TensorSpec([None, None], tf.int32)
        dataset = tf.data.Dataset.from_generator(
            lambda: iter(self), output_signature=({"source": ids, "target": ids}, ids)
        )
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(self) - self.step))
        options = tf.data.Options()
        # There is nothing to tune, and when `fit` ends it would wait for the tuner's thread, for up
        # to a minute.
        options.autotune.enabled = False
        return dataset.prefetch(_PREFETCHED).with_options(options)

    def _pairs_of_pass(self, number: int) -> EncodedPairs:
        """Return the pairs of a pass, varied if requested."""
        if self.vary is None:
            return self.pairs
        # Keras may begin an epoch more than once, and varying a large text takes minutes.
        if self._varied is None or self._varied[0] != number:
            self._varied = number, self.vary(self.pairs, number)
        return self._varied[1]

    def _plan(self, pairs: EncodedPairs, number: int) -> list[np.ndarray]:
        """Return the batches of a pass over the pairs."""
        source_lengths, target_lengths = pairs.source_lengths, pairs.target_lengths
        return plan_batches(
            np.maximum(source_lengths, target_lengths),
            self.batch_tokens,
            num_replicas=self.num_replicas,
            seed=self.seed,
            epoch=number,
            shuffle=self.shuffle,
            group_by=source_lengths - target_lengths,
            widths=self.widths,
        )

    def _passes(self, first: int) -> Iterator[tuple[EncodedPairs, np.ndarray]]:
        """Yield the pairs and indices of each batch, pass after pass, without end."""
        for number in count(first):
            pairs = self._pairs_of_pass(number)
            for indices in self._plan(pairs, number):
                yield pairs, indices

    def __iter__(self) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """Yield the batches of the current epoch, and move on to the next after the last one."""
        epoch, done = self.epoch, self.step
        number, place = divmod(epoch * len(self), self._pass_length)
        of_epoch = islice(self._passes(number), place + done, place + len(self))
        for step, (pairs, indices) in enumerate(of_epoch, start=done + 1):
            batch = pairs.padded_batch(indices, self._width(pairs, indices))
            # Keras starts more iterators than it finishes (it peeks at a batch to build the model)
            # and never asks for anything after the last batch: reaching that one ends the epoch.
            if step == len(self):
                self.epoch, self.step = epoch + 1, 0
            yield batch

    def _width(self, pairs: EncodedPairs, indices: np.ndarray) -> int | None:
        """Return the static width of a batch: the smallest that has its rows and holds it."""
        if self.widths is None:
            return None
        kept = indices[indices >= 0]
        longest = max(
            (offsets[kept + 1] - offsets[kept]).max() + 1
            for offsets in (pairs.source_offsets, pairs.target_offsets)
        )
        rows = {width: self.batch_tokens // width for width in self.widths}
        return next(
            width
            for width in self.widths
            if width >= longest and rows[width] + -rows[width] % self.num_replicas == len(indices)
        )
