"""The loop of a search: steps until every sentence has ended."""

import tensorflow as tf

from keras_transformer.decoding.search import Select, Stages, take_rows


def run_loop(
    unfinished, extend, variables, state, stages: Stages | None = None, select: Select | None = None
):
    """Return `variables` after as many steps as the sentences need.

    Args:
        unfinished: `unfinished(position, *variables) -> bool [B]`, False for sentences that have
            ended, whose results later steps leave as they are.
        extend: `extend(position, *variables, state)` returns the same for the next position.
        variables: a tuple of tensors [B, ...] at position 0.
        state: what `step` is given first.
        stages: for a compiled graph.
        select: lets go of sentences that have ended; by default, and with stages, they run on as
            long as any is unfinished.
    """
    if stages is not None:
        return _run_in_stages(unfinished, extend, variables, state, stages)
    if select is not None:
        return _run_on_fewer(unfinished, extend, variables, state, select)
    return _loop(_more_than(0, unfinished), extend, (tf.constant(0), *variables, state))[1:-1]


def _run_in_stages(unfinished, extend, variables, state, stages):
    loop_vars = (tf.constant(0), *variables)
    is_unfinished = _more_than(0, unfinished)
    for size in stages.sizes:

        def is_unfinished_here(position, *rest, size=size):
            return (position < size) & is_unfinished(position, *rest)

        state = stages.enlarge(state, size)
        *loop_vars, state = tf.while_loop(is_unfinished_here, extend, (*loop_vars, state))
    return tuple(loop_vars[1:])


def _run_on_fewer(unfinished, extend, variables, state, select):
    """Run until a quarter of the sentences have ended, and again on the others alone.

    To let go of fewer at a time took longer, as the rows of all the others are moved.
    """

    def run_until_fewer(position, sentences, variables, state, results):
        condition = _more_than(tf.size(sentences) * 3 // 4, unfinished)
        position, *variables, state = _loop(condition, extend, (position, *variables, state))
        results = tuple(
            tf.tensor_scatter_nd_update(result, sentences[:, tf.newaxis], variable)
            for result, variable in zip(results, variables, strict=True)
        )
        left = tf.cast(tf.where(unfinished(position, *variables))[:, 0], tf.int32)
        sentences, variables = take_rows((sentences, tuple(variables)), left)
        return position, sentences, variables, select(state, left), results

    sentences = tf.range(tf.shape(variables[0])[0])
    loop_vars = (tf.constant(0), sentences, variables, state, variables)
    return _loop(
        lambda position, sentences, *rest: tf.size(sentences) > 0, run_until_fewer, loop_vars
    )[-1]


def _loop(condition, extend, loop_vars):
    shapes = tf.nest.map_structure(_shape, loop_vars)
    return tf.while_loop(condition, extend, loop_vars, shape_invariants=shapes)


def _more_than(number, unfinished):
    """Return the condition that more sentences than `number` are unfinished."""

    def condition(position, *rest):
        *variables, _ = rest
        return tf.reduce_sum(tf.cast(unfinished(position, *variables), tf.int32)) > number

    return condition


def _shape(tensor: tf.Tensor) -> tf.TensorShape:
    """Return the shape that a loop's tensor has in every step: rows and axes of size 0 may vary."""
    return tf.TensorShape([size if i and size else None for i, size in enumerate(tensor.shape)])
