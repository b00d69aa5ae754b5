"""Label-smoothed cross entropy (Section 5.4), and that of two passes, R-Drop."""

import keras
from keras import ops

from keras_transformer.config import PAD_ID

_SMALLEST = 1e-30
"""A probability that float32 has with all its digits; below 1e-38 it has fewer, and then 0."""


def smoothed_cross_entropy(labels, logits, label_smoothing=0.0):
    """Return the cross entropy of each token against its smoothed label (Szegedy et al., 2016).

    The label has probability 1 - epsilon, and epsilon is spread evenly over the whole vocabulary,
    the label included. That distribution [B, T, V] is never formed, and the softmax only once.

    Args:
        labels: int [B, T].
        logits: float [B, T, V].
        label_smoothing: epsilon.

    Returns:
        float32 [B, T], in nats.

    >>> float(smoothed_cross_entropy(ops.array([[0]]), ops.zeros((1, 1, 4)))[0, 0])
    1.3862943649291992
    """
    flat_labels, uniform = _flat(labels), label_smoothing / logits.shape[-1]

    @ops.custom_gradient
    def cross_entropy(logits):
        # The backend's own softmax is one operation, on a CPU much faster than its parts.
        probabilities = ops.softmax(logits)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            gradients = probabilities * upstream - upstream * uniform
            return _subtract_at(flat_labels, gradients, upstream * (1 - label_smoothing))

        return _cross_entropy(flat_labels, logits, probabilities, label_smoothing), gradient

    return ops.reshape(cross_entropy(_rows(logits)), ops.shape(labels))


def r_drop_cross_entropy(labels, first, second, label_smoothing=0.0, alpha=5.0):
    """Return the cross entropy of two passes, which is higher the less they agree (R-Drop).

    Two passes over the same sentences differ by their dropout. To the mean of their cross
    entropies comes alpha / 2 times the mean of the two Kullback-Leibler divergences of one from
    the other ([Wu et al., 2021](https://arxiv.org/abs/2106.14448), whose loss is twice this).

    Args:
        labels: int [B, T].
        first: float [B, T, V], logits of the one pass.
        second: float [B, T, V], logits of the other.
        label_smoothing: epsilon, as of `smoothed_cross_entropy`.
        alpha: the weight of the divergences.

    Returns:
        float32 [B, T], in nats.

    >>> logits = ops.zeros((1, 1, 4))
    >>> float(r_drop_cross_entropy(ops.array([[0]]), logits, logits)[0, 0])  # they agree
    1.3862943649291992
    """
    flat_labels, uniform = _flat(labels), label_smoothing / first.shape[-1]

    @ops.custom_gradient
    def cross_entropy(first, second):
        p, q = ops.softmax(first), ops.softmax(second)
        entropies = [
            _cross_entropy(flat_labels, logits, probabilities, label_smoothing)
            for logits, probabilities in ((first, p), (second, q))
        ]
        # Both divergences together are the sum of (p - q) times the difference of the logits.
        difference = first - second
        expected = [ops.einsum("nv,nv->n", x, difference)[:, None] for x in (p, q)]
        values = (entropies[0] + entropies[1]) / 2 + alpha / 4 * (expected[0] - expected[1])

        def gradient(*args, upstream=None):
            half = (args[0] if upstream is None else upstream) / 2
            weight = alpha / 2 * half
            scaled = weight * difference
            of_first = p * (scaled + (half + weight - weight * expected[0]))
            of_first = of_first - (weight * q + half * uniform)
            of_second = q * ((half + weight + weight * expected[1]) - scaled)
            of_second = of_second - (weight * p + half * uniform)
            at_label = half * (1 - label_smoothing)
            return tuple(_subtract_at(flat_labels, x, at_label) for x in (of_first, of_second))

        return values, gradient

    return ops.reshape(cross_entropy(_rows(first), _rows(second)), ops.shape(labels))


def _flat(labels):
    return ops.expand_dims(ops.cast(ops.reshape(labels, (-1,)), "int32"), 1)


def _rows(logits):
    return ops.cast(ops.reshape(logits, (-1, logits.shape[-1])), "float32")


def _cross_entropy(labels, logits, probabilities, label_smoothing):
    """Return float32 [N, 1] for labels [N, 1], logits [N, V] and their softmax."""
    at_label = ops.take_along_axis(logits, labels, axis=-1)
    label_probability = ops.take_along_axis(probabilities, labels, axis=-1)
    values = ops.cond(
        ops.all(label_probability > _SMALLEST),
        lambda: -ops.log(label_probability),
        lambda: _highest(logits) - at_label - ops.log(_highest(probabilities)),
    )
    if label_smoothing:
        values = values + label_smoothing * (at_label - ops.mean(logits, axis=-1, keepdims=True))
    return values


def _subtract_at(labels, gradients, amount):
    """Subtract the amount [N, 1] from the gradients [N, V] at the labels [N, 1]."""
    rows = ops.expand_dims(ops.arange(ops.shape(labels)[0], dtype="int32"), 1)
    own = ops.take_along_axis(gradients, labels, axis=-1) - amount
    return ops.scatter_update(gradients, ops.concatenate([rows, labels], 1), ops.squeeze(own, 1))


def _highest(rows):
    return ops.max(rows, axis=-1, keepdims=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The mean of `smoothed_cross_entropy` over the tokens that are not padding (Section 5.4).

    The mean is taken over the whole batch: under `tf.distribute` each replica divides its sum by
    the number of tokens on all of them, so that any number of replicas makes the same step.

    Args:
        label_smoothing: epsilon, the probability mass spread over the vocabulary.
        r_drop: alpha of `r_drop_cross_entropy`: a `Transformer` with such a loss makes each step of
            `fit` on two passes. With 0, the default, on one.

    Call arguments:
        y_true: int [B, T] labels; where they are 0 (padding) the loss is 0.
        y_pred: float [B, T, V] logits, or a pair of them, of two passes.
        sample_weight: weights of sentences [B] or of tokens [B, T]; 1 by default.

    Returns:
        A scalar, float32, in nats a token.

    >>> loss = LabelSmoothedCrossEntropy(label_smoothing=0.1)
    >>> round(float(loss(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))), 4)  # the log of 8
    2.0794
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        r_drop: float = 0.0,
        name="label_smoothed_cross_entropy",
    ):
        super().__init__(name=name)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1, received {label_smoothing}."
            )
        if r_drop < 0:
            raise ValueError(f"r_drop must be at least 0, received {r_drop}.")
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        weights = token_weights(y_true, sample_weight)
        total = ops.sum(weights * self.call(y_true, y_pred))
        count = _sum_over_replicas(ops.sum(weights))
        return total / ops.where(count > 0, count, 1.0)

    def call(self, y_true, y_pred):
        if isinstance(y_pred, tuple):
            first, second = (ops.convert_to_tensor(logits) for logits in y_pred)
            return r_drop_cross_entropy(y_true, first, second, self.label_smoothing, self.r_drop)
        return smoothed_cross_entropy(y_true, ops.convert_to_tensor(y_pred), self.label_smoothing)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "r_drop": self.r_drop,
            "name": self.name,
        }


def token_weights(labels, sample_weight=None):
    """Return float32 [B, T]: the given weights, 1 by default, and 0 for padding.

    >>> ops.convert_to_numpy(token_weights(ops.array([[5, 0]]))).tolist()
    [[1.0, 0.0]]
    """
    weights = ops.cast(ops.not_equal(labels, PAD_ID), "float32")
    if sample_weight is None:
        return weights
    sample_weight = ops.cast(sample_weight, "float32")
    if len(sample_weight.shape) == 1:
        sample_weight = ops.expand_dims(sample_weight, 1)
    return weights * sample_weight


def _sum_over_replicas(value):
    # Keras adds the replicas' gradients up but has no sum of anything else over replicas.
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        context = tf.distribute.get_replica_context()
        if context is not None and context.num_replicas_in_sync > 1:
            return context.all_reduce(tf.distribute.ReduceOp.SUM, value)
    return value
