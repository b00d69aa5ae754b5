"""What all searches share: their step function, options, loop and result."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar

import tensorflow as tf

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID

State = Any
"""A nest (tuple, list, dict) of tensors that one step passes on to the next.

A tensor may grow from step to step, like a cache that is concatenated to, along axes of size 0 in
the initial state or of a size unknown to the graph.
"""

Step = Callable[[tf.Tensor, tf.Tensor, tf.Tensor, State], tuple[tf.Tensor, State]]
"""`step(ids, parents, position, state) -> (logits, state)`: all that a search knows of a model.

- `ids`: int32 [R], the tokens chosen last, all bos at first. In greedy search a row is a sentence;
  in beam search row b * N + n is beam n of sentence b.
- `parents`: int32 [R], the rows of the previous step that `ids` continue. A parent belongs to the
  same sentence; in greedy search it is the row itself. The search does not reorder the state: a
  step does, with `take_rows(state, parents)` or anything equivalent.
- `position`: int32 [], counted from 0.
- `logits`: float32 [R, V], of the next token. They need not be normalized: adding a constant to a
  row has no effect.

The state may omit what no step changes, as `step` can be a closure. With a `Select`, the state must
hold everything that depends on the sentence, and rows are numbered again after sentences are
dropped.

Each row of the logits and the state may depend only on its own sentence and past.
"""

Rule = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]
"""`rule(logits, history, position) -> logits`: changes the logits before the softmax.

`history` int32 [R, L] holds the tokens of each row, without bos; values from `position` on are
arbitrary. Rules apply one after the other.
"""

Select = Callable[[State, tf.Tensor], State]
"""`select(state, sentences) -> state` keeps the rows of the given sentences of a state.

It lets a search drop finished sentences while others go on. `sentences` int32 [A] are ascending,
numbered as in the previous step, and may be none. Rules must be the same for all rows.
"""


class Stages(NamedTuple):
    """How a search runs in a graph that is compiled for fixed shapes.

    The search is a sequence of loops, each with a state of a fixed length, so that a short
    translation does not pay for the longest possible one. The last length is the L of the result,
    and must be at least the limit of every sentence.

    Attributes:
        lengths: Ascending numbers of tokens.
        enlarge: `enlarge(state, length) -> state` makes room for `length` tokens.
    """

    lengths: tuple[int, ...]
    enlarge: Callable[[State, int], State]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options of every search, which takes them as keyword arguments of the same names.

    Attributes:
        rules: Change the logits of the next token, one after the other; see `Rule`.
        stages: Run the search in a graph of fixed shapes, as XLA needs: a `Stages`, such as
            `ModelStep.stages`.
        select: Drop finished sentences while others go on: a `Select`, such as
            `ModelStep.select`. Not used with `stages`.
        excluded: float32 [V], -1e9 for tokens that no translation contains although their
            probability counts, and 0 for others. A step that adds it to its logits itself takes
            their probability away, too.
        style: Whose search it is in its details: a name of `STYLES`.
        device: "cpu", or "gpu" for a graph that XLA compiles for a GPU: which of several equivalent
            operations to choose.
        bos_id: The id that `step` receives first.
        eos_id: The id that ends a translation.
        pad_id: The id that fills the positions after the end.

    >>> SearchOptions(eos_id=1).eos_id
    1
    """

    rules: Sequence[Rule] = ()
    stages: Stages | None = None
    select: Select | None = None
    excluded: Any = None
    style: str = "paper"
    device: str = "cpu"
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID
    pad_id: int = PAD_ID


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` as keyword arguments, for type checkers."""

    rules: Sequence[Rule]
    stages: Stages | None
    select: Select | None
    excluded: Any
    style: str
    device: str
    bos_id: int
    eos_id: int
    pad_id: int


IMPOSSIBLE = float("-inf")
"""The log-probability of an impossible translation."""

BAN = -1e6
"""Added to the logits of banned tokens; finite, so that no sum of bans is NaN."""

UNFILLED_SCORE = -1e9
"""The score of a missing translation in a result; finite, because JSON has no infinity."""


class SearchResult(NamedTuple):
    """The N best translations of each sentence, best first.

    If fewer than N translations have a probability above 0, which takes a tiny vocabulary or limit,
    the remaining ones have length 0, score -1e9 and only padding.

    Attributes:
        ids: int32 [B, N, L], the tokens without bos, including eos unless the limit came first,
            then padding. L is the maximum length in the batch.
        scores: float32 [B, N], log-probability / length penalty.
        lengths: int32 [B, N], the number of tokens, including eos.
    """

    ids: tf.Tensor
    scores: tf.Tensor
    lengths: tf.Tensor


def history_length(max_lengths: tf.Tensor, stages: Stages | None) -> tf.Tensor | int:
    """Return L, the number of tokens that the histories of a search have room for."""
    if stages is not None:
        return stages.lengths[-1]
    return tf.maximum(tf.reduce_max(max_lengths), 1)  # The maximum of no numbers is negative.


def apply_rules(
    rules: Sequence[Rule], logits: tf.Tensor, history: tf.Tensor, position: tf.Tensor
) -> tf.Tensor:
    """Return the logits [R, V] after all rules, for a history [..., L] of R rows."""
    if rules:
        history = tf.reshape(history, [-1, tf.shape(history)[-1]])
    for rule in rules:
        logits = rule(logits, history, position)
    return logits


Record = TypeVar("Record", bound=NamedTuple)
"""A named tuple of tensors [B, ...]: what a search knows of its sentences at some position."""


def run_loop(
    is_unfinished: Callable[[tf.Tensor, Record], tf.Tensor],
    extend: Callable[[tf.Tensor, Record, State], tuple[tf.Tensor, Record, State]],
    record: Record,
    state: State,
    options: SearchOptions,
) -> Record:
    """Return the record after all sentences are finished, one token at a time.

    Args:
        is_unfinished: `is_unfinished(position, record)` returns a bool [B]. Later steps do not
            change the result of a finished sentence.
        extend: `extend(position, record, state)` returns all three for the next position.
        record: The record at position 0.
        state: The state that `step` receives first.
        options: Its `stages` and `select` choose how the loop runs. Without both, finished
            sentences stay in the batch until the last one is finished.

    Returns:
        The record, with all B sentences.
    """

    def num_unfinished(position, record, state):
        return tf.reduce_sum(tf.cast(is_unfinished(position, record), tf.int32))

    loop_vars = tf.constant(0), record, state
    if options.stages is not None:
        return _run_in_stages(num_unfinished, extend, loop_vars, options.stages)
    if options.select is not None:
        return _run_on_fewer(is_unfinished, num_unfinished, extend, loop_vars, options.select)
    return _loop(lambda *now: num_unfinished(*now) > 0, extend, loop_vars)[1]


def _run_in_stages(num_unfinished, extend, loop_vars, stages):
    position, record, state = loop_vars
    for length in stages.lengths:

        def goes_on(position, record, state, length=length):
            return (position < length) & (num_unfinished(position, record, state) > 0)

        state = stages.enlarge(state, length)
        position, record, state = tf.while_loop(goes_on, extend, (position, record, state))
    return record


def _run_on_fewer(is_unfinished, num_unfinished, extend, loop_vars, select):
    """Run until a quarter of the sentences are finished, then again on the others alone.

    Dropping fewer at a time is slower, because each drop moves the rows of all other sentences.
    """

    def run_until_fewer(sentences, results, *loop_vars):
        few = tf.size(sentences) * 3 // 4
        position, record, state = _loop(lambda *now: num_unfinished(*now) > few, extend, loop_vars)
        rows = sentences[:, tf.newaxis]
        results = tf.nest.map_structure(
            lambda result, tensor: tf.tensor_scatter_nd_update(result, rows, tensor),
            results,
            record,
        )
        left = tf.cast(tf.where(is_unfinished(position, record))[:, 0], tf.int32)
        sentences, record = take_rows((sentences, record), left)
        return sentences, results, position, record, select(state, left)

    record = loop_vars[1]
    sentences = tf.range(tf.shape(record[0])[0])
    return _loop(
        lambda sentences, *rest: tf.size(sentences) > 0,
        run_until_fewer,
        (sentences, record, *loop_vars),
    )[1]


def _loop(condition, extend, loop_vars):
    """Run a `tf.while_loop` in which the number of rows and axes of size 0 may vary."""

    def shape(tensor):
        sizes = [size if i and size else None for i, size in enumerate(tensor.shape)]
        return tf.TensorShape(sizes)

    shapes = tf.nest.map_structure(shape, loop_vars)
    return tf.while_loop(condition, extend, loop_vars, shape_invariants=shapes)


def to_result(
    ids: tf.Tensor, scores: tf.Tensor, lengths: tf.Tensor, pad_id: int, stages: Stages | None
) -> SearchResult:
    """Return the result for ids [B, N, L], which may hold anything beyond `lengths` [B, N]."""
    exists = scores > IMPOSSIBLE
    lengths = tf.where(exists, lengths, 0)
    if stages is None:
        ids = ids[:, :, : tf.maximum(tf.reduce_max(lengths), 0)]
    ids = tf.where(tf.range(tf.shape(ids)[2]) < lengths[:, :, tf.newaxis], ids, pad_id)
    return SearchResult(ids, tf.where(exists, scores, UNFILLED_SCORE), lengths)


def repeat_rows(state: State, n: int) -> State:
    """Repeat every row of every tensor `n` times, from [B, ...] to [B * n, ...].

    >>> repeat_rows({"a": tf.constant([5, 7])}, 2)["a"].numpy().tolist()
    [5, 5, 7, 7]
    """
    return tf.nest.map_structure(lambda tensor: tf.repeat(tensor, n, axis=0), state)


def take_rows(state: State, rows: tf.Tensor) -> State:
    """Return the rows, int32 [R], of every tensor of `state`.

    >>> take_rows({"a": tf.constant([5, 7])}, [1, 1])["a"].numpy().tolist()
    [7, 7]
    """
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, rows), state)


class StepAround:
    """A `Step` around another one: a state is that of the step inside, and a record of its own.

    Attributes:
        step: The step inside.
        beam_size: N, the number of beams or samples of the search.
    """

    step: Step
    beam_size: int

    def stages(self, stages: Stages | None) -> Stages | None:
        """Return the `stages` of the search, given those of the step inside."""
        if stages is None:
            return None
        return Stages(
            stages.lengths, lambda state, length: (stages.enlarge(state[0], length), state[1])
        )

    def select(self, select: Select | None) -> Select | None:
        """Return the `select` of the search, given the one of the step inside."""
        if select is None:
            return None
        return lambda state, rows: (select(state[0], rows), take_rows(state[1], rows))

    def _continued(self, record: Record, parents: tf.Tensor) -> Record:
        """Return a record [B, N, ...] of the beams that the rows `parents` [B * N] are."""
        if self.beam_size == 1:
            return record
        parents = tf.reshape(parents % self.beam_size, [-1, self.beam_size])
        taken = (tf.gather(each, parents, batch_dims=1) for each in record)
        return type(record)(*map(with_shape_of, record, taken))


def with_shape_of(expected: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
    """Return the tensor with the static shape of another, which a compiled loop must keep."""
    tensor.set_shape(expected.shape)
    return tensor
