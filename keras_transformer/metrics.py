"""Metrics over tokens, padding left out; they add up over batches and replicas."""

import keras
from keras import ops

from keras_transformer.cross_entropy import smoothed_cross_entropy
from keras_transformer.losses import token_weights


class _TokenMean(keras.metrics.Metric):
    """The mean of a value over all tokens seen since the last reset."""

    def __init__(self, name, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def token_values(self, y_true, y_pred):
        raise NotImplementedError

    def update_state(self, y_true, y_pred, sample_weight=None):
        y_true, y_pred = ops.convert_to_tensor(y_true), ops.convert_to_tensor(y_pred)
        weights = token_weights(y_true, sample_weight)
        self.total.assign_add(ops.sum(weights * self.token_values(y_true, y_pred)))
        self.count.assign_add(ops.sum(weights))

    def result(self):
        return self.total / ops.maximum(self.count, 1e-30)


@keras.saving.register_keras_serializable(package="keras_transformer")
class NegativeLogLikelihood(_TokenMean):
    """The mean negative log-likelihood of the labels, in nats a token, without smoothing.

    Labels are int [B, T], predictions are logits [B, T, V].

    >>> metric = NegativeLogLikelihood()
    >>> metric.update_state(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))
    >>> round(float(metric.result()), 4)
    2.0794
    """

    def __init__(self, name="nll", dtype=None):
        super().__init__(name, dtype)

    token_values = staticmethod(smoothed_cross_entropy)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(_TokenMean):
    """The exponential of the mean negative log-likelihood per subword (Table 3).

    Labels are int [B, T], predictions are logits [B, T, V].

    >>> metric = Perplexity()
    >>> metric.update_state(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))
    >>> round(float(metric.result()), 4)
    8.0
    """

    def __init__(self, name="perplexity", dtype=None):
        super().__init__(name, dtype)

    token_values = staticmethod(smoothed_cross_entropy)

    def result(self):
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(_TokenMean):
    """The share of tokens whose logit is the highest.

    Labels are int [B, T], predictions are logits [B, T, V].

    >>> metric = TokenAccuracy()
    >>> metric.update_state(ops.array([[3, 0]]), ops.one_hot(ops.array([[3, 3]]), 8))
    >>> float(metric.result())
    1.0
    """

    def __init__(self, name="accuracy", dtype=None):
        super().__init__(name, dtype)

    def token_values(self, y_true, y_pred):
        best = ops.cast(ops.argmax(y_pred, axis=-1), y_true.dtype)
        return ops.cast(ops.equal(best, y_true), "float32")
