"""Token batches as a tf.data pipeline for `model.fit`."""

from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.data.batching import plan_batches
from keras_transformer.data.encoding import EncodedPairs

if TYPE_CHECKING:
    import tensorflow as tf


# A batch takes under a millisecond, and a look at the first one must not read an epoch to its end.
_PREFETCHED = 2


class TokenBatches:
    """Batches of about `batch_tokens` source and as many target tokens, as in section 5.1.

    Args:
        pairs: What to batch.
        batch_tokens: The largest batch: rows times longest length, for each of source and target.
        num_replicas: Every batch has a multiple of this many rows.
        seed: Together with the epoch decides the order.
        shuffle: Without it every pass has the same order, from short to long.
        steps_per_epoch: Batches of an epoch, each of which goes on where the last one ended; by
            default those of one pass over the pairs.
        vary: Called with the pairs and the number of a pass, from 0, gives that pass other subwords
            of the same pairs. The epochs then have as many batches as the first pass; where another
            pass makes more or fewer, an epoch leaves some out or goes on with the next pass.

    Attributes:
        epoch: The epoch whose order the next iteration gives, from 0. A whole iteration moves it
            on by one, a look at the first batch does not. Set it to resume, before the iteration.
        tokens: Source and target tokens of an epoch, padding left out: a mean, where epochs are not
            whole passes, and those of the first, where `vary` changes them.

    Raises:
        ValueError: As `plan_batches`.

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
    ):
        self.pairs = pairs
        self.batch_tokens = batch_tokens
        self.num_replicas = num_replicas
        self.seed = seed
        self.shuffle = shuffle
        self.vary = vary
        self._varied: tuple[int, EncodedPairs] | None = None
        self.epoch = 0
        first = self._pairs_of_pass(0)
        self._pass_length = len(self._plan(first, 0))
        self._length = steps_per_epoch or self._pass_length
        tokens = int(first.source_lengths.sum() + first.target_lengths.sum())
        self.tokens = tokens * self._length / self._pass_length

    def __len__(self) -> int:
        return self._length

    def dataset(self) -> "tf.data.Dataset":
        """Returns the batches, a dataset that `fit` iterates once an epoch.

        Elements are `({"source": [B, S], "target": [B, T]}, labels [B, T])`, int32, as
        `EncodedPairs.padded_batch` makes them; B, S and T are unknown to the graph, so that a
        training step is traced once.
        """
        import tensorflow as tf

        ids = tf.TensorSpec([None, None], tf.int32)
        dataset = tf.data.Dataset.from_generator(
            self._epoch, output_signature=({"source": ids, "target": ids}, ids)
        )
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(self)))
        options = tf.data.Options()
        # There is nothing to tune, and `fit` may wait for the tuner's thread to wake when it is
        # over, for as long again as it took or for a minute.
        options.autotune.enabled = False
        return dataset.prefetch(_PREFETCHED).with_options(options)

    def _pairs_of_pass(self, number: int) -> EncodedPairs:
        if self.vary is None:
            return self.pairs
        # Keras begins an epoch more than once, and to vary a large text takes minutes.
        if self._varied is None or self._varied[0] != number:
            self._varied = number, self.vary(self.pairs, number)
        return self._varied[1]

    def _plan(self, pairs: EncodedPairs, number: int) -> list[np.ndarray]:
        """Returns the batches of a pass over the pairs."""
        source_lengths, target_lengths = pairs.source_lengths, pairs.target_lengths
        return plan_batches(
            np.maximum(source_lengths, target_lengths),
            self.batch_tokens,
            num_replicas=self.num_replicas,
            seed=self.seed,
            epoch=number,
            shuffle=self.shuffle,
            group_by=source_lengths - target_lengths,
        )

    def _passes(self, first: int) -> Iterator[tuple[EncodedPairs, np.ndarray]]:
        for number in count(first):
            pairs = self._pairs_of_pass(number)
            for indices in self._plan(pairs, number):
                yield pairs, indices

    def _epoch(self) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        epoch = self.epoch
        number, place = divmod(epoch * len(self), self._pass_length)
        of_epoch = islice(self._passes(number), place, place + len(self))
        for step, (pairs, indices) in enumerate(of_epoch, start=1):
            batch = pairs.padded_batch(indices)
            # Keras starts more iterators than it finishes (it looks at a first batch to build the
            # model) and never asks for more than the last batch: that one makes an epoch.
            if step == len(self):
                self.epoch = epoch + 1
            yield batch
