"""The loop that all searches run: one token at a time, until every sentence is finished."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import tensorflow as tf

from keras_transformer.decoding.search import SearchOptions, State, take_rows

Record = TypeVar("Record", bound=NamedTuple)
"""A named tuple of tensors [B, ...]: what a search knows of its sentences at some position."""


def run_loop(
    is_unfinished: Callable[[tf.Tensor, Record], tf.Tensor],
    extend: Callable[[tf.Tensor, Record, State], tuple[tf.Tensor, Record, State]],
    record: Record,
    state: State,
    options: SearchOptions,
) -> Record:
    """Return the record after all sentences are finished.

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
    if options.stages is not None:
        return _run_in_stages(is_unfinished, extend, record, state, options.stages)
    if options.select is not None:
        return _run_on_fewer(is_unfinished, extend, record, state, options.select)
    return _loop(_more_than(0, is_unfinished), extend, (tf.constant(0), record, state))[1]


def _run_in_stages(is_unfinished, extend, record, state, stages):
    position = tf.constant(0)
    any_unfinished = _more_than(0, is_unfinished)
    for length in stages.lengths:

        def goes_on(position, record, state, length=length):
            return (position < length) & any_unfinished(position, record, state)

        state = stages.enlarge(state, length)
        position, record, state = tf.while_loop(goes_on, extend, (position, record, state))
    return record


def _run_on_fewer(is_unfinished, extend, record, state, select):
    """Run until a quarter of the sentences are finished, then again on the others alone.

    Dropping fewer at a time is slower, because each drop moves the rows of all other sentences.
    """

    def run_until_fewer(position, sentences, record, state, results):
        condition = _more_than(tf.size(sentences) * 3 // 4, is_unfinished)
        position, record, state = _loop(condition, extend, (position, record, state))
        rows = sentences[:, tf.newaxis]
        results = tf.nest.map_structure(
            lambda result, tensor: tf.tensor_scatter_nd_update(result, rows, tensor),
            results,
            record,
        )
        left = tf.cast(tf.where(is_unfinished(position, record))[:, 0], tf.int32)
        sentences, record = take_rows((sentences, record), left)
        return position, sentences, record, select(state, left), results

    sentences = tf.range(tf.shape(record[0])[0])
    return _loop(
        lambda position, sentences, *rest: tf.size(sentences) > 0,
        run_until_fewer,
        (tf.constant(0), sentences, record, state, record),
    )[-1]


def _loop(condition, extend, loop_vars):
    shapes = tf.nest.map_structure(_shape, loop_vars)
    return tf.while_loop(condition, extend, loop_vars, shape_invariants=shapes)


def _more_than(number, is_unfinished):
    """Return the condition that more than `number` sentences are unfinished."""

    def condition(position, record, state):
        return tf.reduce_sum(tf.cast(is_unfinished(position, record), tf.int32)) > number

    return condition


def _shape(tensor):
    """Return the shape of a tensor in all steps: the rows and axes of size 0 may vary."""
    return tf.TensorShape([size if i and size else None for i, size in enumerate(tensor.shape)])
