"""Label-smoothed cross entropy (Section 5.4)."""

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
    vocab_size = logits.shape[-1]
    flat_labels = ops.expand_dims(ops.cast(ops.reshape(labels, (-1,)), "int32"), 1)
    uniform = label_smoothing / vocab_size

    @ops.custom_gradient
    def cross_entropy(logits):
        # The backend's own softmax is one operation, on a CPU much faster than its parts.
        probabilities = ops.softmax(logits)
        at_label = ops.take_along_axis(logits, flat_labels, axis=-1)
        label_probability = ops.take_along_axis(probabilities, flat_labels, axis=-1)
        values = ops.cond(
            ops.all(label_probability > _SMALLEST),
            lambda: -ops.log(label_probability),
            lambda: _highest(logits) - at_label - ops.log(_highest(probabilities)),
        )
        if label_smoothing:
            mean = ops.mean(logits, axis=-1, keepdims=True)
            values = values + label_smoothing * (at_label - mean)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            # Softmax minus the smoothed label, whose one place that differs is then overwritten.
            gradients = probabilities * upstream - upstream * uniform
            own = upstream * (label_probability - uniform - (1 - label_smoothing))
            rows = ops.expand_dims(ops.arange(ops.shape(flat_labels)[0], dtype="int32"), 1)
            places = ops.concatenate([rows, flat_labels], axis=1)
            return ops.scatter_update(gradients, places, ops.squeeze(own, 1))

        return values, gradient

    flat_logits = ops.cast(ops.reshape(logits, (-1, vocab_size)), "float32")
    return ops.reshape(cross_entropy(flat_logits), ops.shape(labels))


def _highest(rows):
    return ops.max(rows, axis=-1, keepdims=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The mean of `smoothed_cross_entropy` over the tokens that are not padding (Section 5.4).

    The mean is taken over the whole batch: under `tf.distribute` each replica divides its sum by
    the number of tokens on all of them, so that any number of replicas makes the same step.

    Args:
        label_smoothing: epsilon, the probability mass spread over the vocabulary.

    Call arguments:
        y_true: int [B, T] labels; where they are 0 (padding) the loss is 0.
        y_pred: float [B, T, V] logits.
        sample_weight: weights of sentences [B] or of tokens [B, T]; 1 by default.

    Returns:
        A scalar, float32, in nats a token.

    >>> loss = LabelSmoothedCrossEntropy(label_smoothing=0.1)
    >>> round(float(loss(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))), 4)  # the log of 8
    2.0794
    """

    def __init__(self, label_smoothing: float = 0.1, name="label_smoothed_cross_entropy"):
        super().__init__(name=name)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1, received {label_smoothing}."
            )
        self.label_smoothing = label_smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        weights = token_weights(y_true, sample_weight)
        total = ops.sum(weights * self.call(y_true, ops.convert_to_tensor(y_pred)))
        count = _sum_over_replicas(ops.sum(weights))
        return total / ops.where(count > 0, count, 1.0)

    def call(self, y_true, y_pred):
        return smoothed_cross_entropy(y_true, y_pred, self.label_smoothing)

    def get_config(self):
        return {"label_smoothing": self.label_smoothing, "name": self.name}


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
