"""Functions around Keras's compiled steps: plain steps where XLA fails, and a check of labels."""

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from keras_transformer.utils.errors import one_line

log = logging.getLogger(__name__)

MAX_SHAPES = 12
"""The most shapes of batches that steps are compiled for."""

Function = Callable[[Iterator[Any]], Any]
"""Make a step on the next batch of an iterator, as Keras's `train_function`, and return its logs.
"""


def compiled_or_plain(compiled: Function, plain: Function) -> Function:
    """Return a function that makes compiled steps for few shapes of batches, and plain ones else.

    A step that XLA refuses is made plain on the same batch, as are all later ones, and a line in
    the log says so. So do steps on batches of further shapes than the first `MAX_SHAPES`.

    Args:
        compiled: Makes compiled steps.
        plain: Makes the same steps without XLA.
    """
    import tensorflow as tf

    traced: dict[tuple[str, str], Callable[[Any], Any]] = {}
    shapes: set[Any] = set()
    functions = {"compiled": compiled, "plain": plain}
    is_refused = False

    def run(name, iterator, data):
        spec = getattr(iterator, "element_spec", None)
        if (name, str(spec)) not in traced:
            traced[name, str(spec)] = _of_data(functions[name], spec)
        return traced[name, str(spec)](data)

    def step(iterator):
        nonlocal is_refused
        data = next(iterator)
        shape = tuple(np.shape(x) for x in tf.nest.flatten(data, expand_composites=True))
        is_new = shape not in shapes
        if is_refused or (is_new and len(shapes) == MAX_SHAPES):
            if not any(name == "plain" for name, _ in traced):
                message = "XLA compiles steps for up to %d shapes of batches; others are slower"
                log.warning(message, MAX_SHAPES)
            return run("plain", iterator, data)
        try:
            outputs = run("compiled", iterator, data)
            shapes.add(shape)
            return outputs
        except tf.errors.ResourceExhaustedError:
            raise
        except tf.errors.OpError as error:
            if not is_new:
                raise
            outputs = run("plain", iterator, data)  # Another error has another cause than XLA.
            is_refused = True
            log.warning("XLA refuses a step, so steps are not compiled: %s", _cause(error))
            return outputs

    return step


def checked_first(
    model: keras.Model, function: Callable[..., Any], check: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a `train_function` or `test_function` of JAX that checks labels before a step.

    Args:
        model: The model.
        function: Makes a step from its state and an iterator of batches.
        check: Raises a ValueError if the labels of a batch are wrong.
    """

    def step(state, iterator):
        batches = list(itertools.islice(iterator, model.steps_per_execution))
        try:
            for batch in batches:
                labels = keras.utils.unpack_x_y_sample_weight(batch)[1]
                if labels is not None:
                    check(labels)
        except ValueError:  # `fit` and `evaluate` have emptied the variables.
            kinds = [model.trainable_variables, model.non_trainable_variables]
            kinds += [model.optimizer.variables] if len(state) == 4 else []
            for kind, values in zip([*kinds, model.metrics_variables], state, strict=True):
                for variable, value in zip(kind, values, strict=True):
                    variable.assign(value)
            raise
        return function(state, iter(batches))

    return step


def _of_data(function, spec):
    """Return a function of a batch that is traced once, for the shapes that an iterator names."""
    import tensorflow as tf

    if spec is None:
        return lambda data: function(iter([data]))
    flat = tf.nest.flatten(spec)

    @tf.function(input_signature=flat, autograph=False)
    def step(*tensors):
        return function(iter([tf.nest.pack_sequence_as(spec, tensors)]))

    return lambda data: step(*tf.nest.flatten(data))


def _cause(error):
    """Return what TensorFlow says, without where."""
    return one_line(error).rpartition("<stack traces unavailable>")[2].strip()[:300]
