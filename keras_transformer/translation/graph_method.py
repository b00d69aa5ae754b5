"""Methods that run as TensorFlow graphs."""

import functools
from collections.abc import Callable
from typing import Any, Self

import keras
import tensorflow as tf

TEXT = tf.TensorSpec([None], tf.string, name="text")
HOST = "/CPU:0"
"""Where texts and the integers about them are; a GPU would compute them in many small steps."""

GRAPHS = "_graph_functions"
"""The attribute of an instance with its graphs, which its copies must not have."""


class graph_method:  # noqa: N801  A decorator.
    """Trace a method once per instance, and run its graph.

    Unlike a method decorated with `tf.function`, which holds a weak reference, it keeps its
    instance alive, so that `Translator(model, tokenizer).n_best(text)` works. If the instance has a
    `graph_version`, its methods are traced again whenever that changes.

    Args:
        *signature: The inputs; without any, each new kind of input is traced.

    Raises:
        RuntimeError: When a method is used with a Keras backend other than TensorFlow.

    >>> class Adder:
    ...     number = 2
    ...     @graph_method(tf.TensorSpec([], tf.int32))
    ...     def add(self, x):
    ...         return x + self.number
    >>> int(Adder().add(tf.constant(3)))
    5
    """

    def __init__(self, *signature: tf.TensorSpec):
        self._signature = signature or None

    def __call__(self, method: Callable[..., Any]) -> Self:
        functools.update_wrapper(self, method)
        self._method = method
        return self

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if keras.backend.backend() != "tensorflow":
            raise RuntimeError(
                f"{type(instance).__name__}.{self._method.__name__} needs the TensorFlow backend, "
                f"received {keras.backend.backend()!r}. Set KERAS_BACKEND=tensorflow, or generate "
                "with keras_transformer.keras_hub, which runs on every backend."
            )
        version = getattr(instance, "graph_version", None)
        if vars(instance).get("_traced_version", version) != version:
            vars(instance).pop(GRAPHS, None)
        vars(instance)["_traced_version"] = version
        functions = vars(instance).setdefault(GRAPHS, {})
        if (function := functions.get(self)) is None:
            function = tf.function(
                self._method.__get__(instance),
                input_signature=self._signature,
                autograph=False,
            )
            # Threads that come at the same time share one graph.
            function = functions.setdefault(self, function)
        return function
