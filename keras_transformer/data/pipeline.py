"""Token batches as a tf.data pipeline for `model.fit`."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import count, islice
from typing import TYPE_CHECKING

import numpy as np

from keras_transformer.data.batching import count_batches, plan_batches, rows_per_batch
from keras_transformer.data.encoding import EncodedPairs
from keras_transformer.data.variation import Variation

if TYPE_CHECKING:
    import tensorflow as tf

# Making a batch takes under a millisecond. Keras peeks at the first batch, which must not make the
# generator run to the end of the epoch.
_PREFETCHED = 2

# With `vary`, batches are planned for parts of a pass of this many pairs: enough for little
# padding, and few enough that the first batch comes soon. As the number of batches is fixed before
# the tokens are known, a share of the batches, others each time, is left out if tokens are added.
# Batches that the parts of a large text do not fill are left out as well.
_PART = 2**17
_LEFT_OUT = 0.01


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
        steps_per_epoch: Batches per epoch; by default one pass over the pairs. An epoch
            continues where the last one ended.
        weights: Tuples of a number of consecutive pairs and of how often a pass has each of them.
            Of 2.5, a random half has its third occurrence, another half in each pass. Every pass
            has as many batches as the first: if it would have more, the rest is left out; if it
            would have fewer, some come twice. By default, a pass has each pair once.
        vary: What gives the pairs other tokens in each pass. If it adds tokens, a pass has the
            batches that are expected, less 1%; the pairs of the other batches are left out, others
            in each pass, as are some of a pass of more than 131,072 pairs.
        widths: The widths of all batches, such as `choose_widths` returns. Source and target are
            padded to one of them, with rows that depend on it alone, so that XLA compiles a step
            once for each. By default, batches are padded to their longest source and target.

    Attributes:
        epoch: Number of the epoch that the next iteration produces, from 0. A complete iteration
            increments it; looking at the first batch does not, unless it is also the last. To
            resume, set it before iterating.
        step: Number of batches of the current epoch to leave out, from 0. Set it before calling
            `dataset`, whose elements are then those that are left; a complete iteration resets it
            to 0.
        passes: Passes over the pairs per epoch; 1 without `steps_per_epoch`.
        tokens: Source and target tokens per epoch, without padding. It is a mean if epochs are not
            whole passes, and an estimate if `vary` is given.

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
        weights: Sequence[tuple[int, float]] = (),
        vary: Variation | None = None,
        widths: Sequence[int] | None = None,
    ):
        self.pairs = pairs
        self.batch_tokens = batch_tokens
        self.num_replicas = num_replicas
        self.seed = seed
        self.shuffle = shuffle
        self.weights = [] if all(weight == 1 for _, weight in weights) else list(weights)
        self.vary = vary
        self.widths = widths
        self.epoch = 0
        self.step = 0
        self._growth = 1.0 if vary is None else vary.growth
        self._kept = 1.0 if self._growth == 1 else 1 - _LEFT_OUT
        self._planned: tuple[int, EncodedPairs, list[np.ndarray]] | None = None
        self._ordered: tuple[int, np.ndarray] | None = None
        self._varied: dict[int, Future[EncodedPairs]] = {}
        self._pass_length = self._count()
        self._length = steps_per_epoch or self._pass_length
        self.passes = self._length / self._pass_length
        self.tokens = self._tokens_of_a_pass() * self.passes

    def __len__(self) -> int:
        return self._length

    def dataset(self) -> "tf.data.Dataset":
        """Return a dataset for `fit`, which iterates over it once per epoch.

        Elements are what `EncodedPairs.padded_batch` returns:
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

    def _count(self) -> int:
        """Return the number of batches of a pass, and divide it into parts."""
        lengths = np.maximum(self.pairs.source_lengths, self.pairs.target_lengths)
        members = self._members(0)
        if members is not None:
            lengths = lengths[members]
        parts = 1 if self.vary is None else -(-len(lengths) // _PART)
        self._parts = _bounds(len(lengths), parts)
        growth = self._growth
        if self.widths and growth != 1:
            lengths, growth = np.minimum(np.round(lengths * growth), self.widths[-1]).astype(int), 1
        number = count_batches(lengths, self.batch_tokens, self.widths)
        return max(1, int(number * growth * self._kept))

    def _tokens_of_a_pass(self) -> float:
        """Return the mean number of source and target tokens, eos included, in a pass."""
        tokens, start = 0.0, 0
        for number, weight in self.weights or [(len(self.pairs), 1)]:
            end = start + number
            for _, offsets in self.pairs.sides:
                tokens += weight * float(offsets[end] - offsets[start] + number)
            start = end
        return tokens * self._growth * self._kept

    def _members(self, number: int) -> np.ndarray | None:
        """Return the pairs of a pass, or None if it has each pair once."""
        if not self.weights:
            return None
        random = np.random.default_rng((self.seed, number, 1))  # The plan's has two numbers.
        parts, start = [], 0
        for size, weight in self.weights:
            part = np.arange(start, start + size, dtype=np.int32)
            parts += [part] * int(weight)
            if some := round((weight % 1) * size):
                parts.append(random.choice(part, some, replace=False, shuffle=False))
            start += size
        if not any(map(len, parts)):
            raise ValueError(
                "Weights must leave pairs for a pass, received (pairs, weight) of "
                f"{', '.join(map(str, self.weights))}. Raise a weight, or give more text."
            )
        return np.concatenate(parts)

    def _from(self, number: int, place: int) -> Iterator[tuple[EncodedPairs, np.ndarray]]:
        """Yield the pairs and indices of each batch, from a place in a pass on, without end."""
        parts = len(self._parts) - 1
        batches = _bounds(self._pass_length, parts)
        first = int(np.searchsorted(batches, place, side="right")) - 1
        skip = place - batches[first]
        for key in count(number * parts + first):
            pairs, plan = self._plan(key)
            part = key % parts
            for step in range(skip, batches[part + 1] - batches[part]):
                yield pairs, plan[step % len(plan)]  # With `vary`, most plans have more.
            skip = 0

    def _plan(self, key: int) -> tuple[EncodedPairs, list[np.ndarray]]:
        """Return the pairs and the batches of a part, planned once for all epochs that have it."""
        planned = self._planned  # Keras may begin an epoch in another thread.
        if planned is None or planned[0] != key:
            planned = self._planned = None  # Two plans at a time would take twice the memory.
            pairs = self.pairs if self.vary is None else self._vary(key)
            members = self._members(key) if self.vary is None else None
            planned = self._planned = key, pairs, self._new_plan(pairs, key, members)
        return planned[1:]

    def _new_plan(
        self, pairs: EncodedPairs, key: int, members: np.ndarray | None
    ) -> list[np.ndarray]:
        source_lengths, target_lengths = pairs.source_lengths, pairs.target_lengths
        if members is not None:
            source_lengths, target_lengths = source_lengths[members], target_lengths[members]
        plan = plan_batches(
            np.maximum(source_lengths, target_lengths),
            self.batch_tokens,
            num_replicas=self.num_replicas,
            seed=self.seed,
            epoch=key,
            shuffle=self.shuffle,
            group_by=source_lengths - target_lengths,
            widths=self.widths,
        )
        if members is None:
            return plan
        return [np.where(batch < 0, batch, members[batch]) for batch in plan]

    def _vary(self, key: int) -> EncodedPairs:
        """Return a part of a pass with its tokens, and start to segment the next part."""
        before = self._varied  # Keras may begin an epoch more than once; short epochs share parts.
        varied = {each: before.get(each) or self._segment(each) for each in (key, key + 1)}
        self._varied = varied
        return varied[key].result()

    def _segment(self, key: int) -> Future[EncodedPairs]:
        assert self.vary is not None
        number, part = divmod(key, len(self._parts) - 1)
        start, end = self._parts[part : part + 2]
        return self.vary.segment(number, start, self._order(number)[start:end])

    def _order(self, number: int) -> np.ndarray:
        """Return the pairs of a pass in random order."""
        ordered = self._ordered
        if ordered is None or ordered[0] != number:
            members = self._members(number)
            order = np.arange(len(self.pairs), dtype=np.int32) if members is None else members
            if self.shuffle:
                np.random.default_rng((self.seed, number, 2)).shuffle(order)
            ordered = self._ordered = number, order
        return ordered[1]

    def __iter__(self) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        """Yield the batches of the current epoch, and move on to the next after the last one."""
        epoch, done = self.epoch, self.step
        number, place = divmod(epoch * len(self) + done, self._pass_length)
        of_epoch = islice(self._from(number, place), len(self) - done)
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
        longest = max((offsets[kept + 1] - offsets[kept]).max() + 1 for _, offsets in pairs.sides)
        rows = {
            width: rows_per_batch(self.batch_tokens, width, is_static=True) for width in self.widths
        }
        return next(
            width
            for width in self.widths
            if width >= longest and rows[width] + -rows[width] % self.num_replicas == len(indices)
        )


def _bounds(size: int, parts: int) -> list[int]:
    """Return where each of some parts of equal size begins, and the end of the last."""
    return [size * part // parts for part in range(parts + 1)]
