"""Training steps that XLA compiles with TensorFlow, and plain ones where it can't or shouldn't."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

from keras_transformer.utils.errors import one_line

log = logging.getLogger(__name__)

MAX_SHAPES = 12
"""The most shapes of batches that steps are compiled for; each takes up to a minute on a GPU."""

Function = Callable[[Iterator[Any]], Any]
"""Make a step on the next batch of an iterator, as Keras's `train_function`, and return its logs.
"""


def compiled_or_plain(compiled: Function, make_plain: Callable[[], Function]) -> Function:
    """Return a function that makes compiled steps for few shapes of batches, and plain ones else.

    A step that XLA refuses is made plain on the same batch, as are all later ones, and a line in
    the log says so. So do steps on batches of further shapes than the first `MAX_SHAPES`.

    Args:
        compiled: Makes compiled steps.
        make_plain: Returns a function that makes the same steps without XLA.
    """
    import tensorflow as tf

    traced: dict[tuple[str, str], Callable[[Any], Any]] = {}
    shapes: set[Any] = set()
    plain: Function | None = None
    is_refused = False

    def run(name, iterator, data):
        nonlocal plain
        spec = getattr(iterator, "element_spec", None)
        if (name, str(spec)) not in traced:
            if name == "plain" and plain is None:
                plain = make_plain()
            traced[name, str(spec)] = _of_data(plain if name == "plain" else compiled, spec)
        return traced[name, str(spec)](data)

    def step(iterator):
        nonlocal is_refused
        data = next(iterator)
        tensors = tf.nest.flatten(data, expand_composites=True)
        shape = tuple(tuple(tensor.shape) for tensor in tensors)
        is_new = shape not in shapes
        if is_refused or (is_new and len(shapes) == MAX_SHAPES):
            if plain is None:
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
