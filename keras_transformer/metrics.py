"""Metrics over tokens, without padding; they add up over batches and replicas.

A label out of range is an error where its value is known; in a graph, the result is NaN.
"""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

import abc
from typing import Any

import keras
from keras import ops

from keras_transformer.losses import (
    checked_labels,
    token_cross_entropy,
    token_weights,
)

__all__ = ["NegativeLogLikelihood", "Perplexity", "TokenAccuracy"]


class _TokenMean(keras.metrics.Metric, abc.ABC):
    """The mean of a value over all tokens since the last reset."""

    def __init__(self, name: str, dtype: str | None = None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    @abc.abstractmethod
    def token_values(self, labels: Any, logits: Any) -> Any:
        """Return float32 [B, T] for labels [B, T] and logits [B, T, V]."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_pred = ops.convert_to_tensor(y_pred)
        labels, validity = checked_labels(y_true, y_pred, in_graph=False)
        weights = token_weights(labels, sample_weight)
        # Not a product: for XLA, 0 times NaN is 0.
        values = self.token_values(labels, y_pred) + (validity - 1)
        self.total.assign_add(ops.sum(weights * values))
        self.count.assign_add(ops.sum(weights))

    def result(self) -> Any:
        return self.total / ops.maximum(self.count, 1e-30)


@keras.saving.register_keras_serializable(package="keras_transformer")
class NegativeLogLikelihood(_TokenMean):
    """Compute the mean negative log-likelihood of the labels, in nats per token, unsmoothed.

    Args:
        name: Name of the metric.
        dtype: Data type of the result; float32 by default.

    Labels are int [B, T], predictions are logits [B, T, V].

    >>> metric = NegativeLogLikelihood()
    >>> metric.update_state(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))
    >>> round(float(metric.result()), 4)  # log(8)
    2.0794
    """

    def __init__(self, name: str = "nll", dtype: str | None = None):
        super().__init__(name, dtype)

    token_values = staticmethod(token_cross_entropy)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(_TokenMean):
    """Compute the exponential of the mean negative log-likelihood per token (Table 3).

    Args:
        name: Name of the metric.
        dtype: Data type of the result; float32 by default.

    Labels are int [B, T], predictions are logits [B, T, V].

    >>> metric = Perplexity()
    >>> metric.update_state(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))
    >>> round(float(metric.result()), 4)
    8.0
    """

    def __init__(self, name: str = "perplexity", dtype: str | None = None):
        super().__init__(name, dtype)

    token_values = staticmethod(token_cross_entropy)

    def result(self) -> Any:
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(_TokenMean):
    """Compute the share of tokens whose label has the highest logit.

    Args:
        name: Name of the metric.
        dtype: Data type of the result; float32 by default.

    Labels are int [B, T], predictions are logits [B, T, V].

    >>> metric = TokenAccuracy()
    >>> metric.update_state(ops.array([[3, 0]]), ops.one_hot(ops.array([[3, 3]]), 8))
    >>> float(metric.result())
    1.0
    """

    def __init__(self, name: str = "accuracy", dtype: str | None = None):
        super().__init__(name, dtype)

    def token_values(self, labels: Any, logits: Any) -> Any:
        best = ops.cast(ops.argmax(logits, axis=-1), labels.dtype)
        return ops.cast(ops.equal(best, labels), "float32")
