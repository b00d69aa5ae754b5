"""The label-smoothed loss (Section 5.4), which may also compare two passes or learn of teachers."""

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.cross_entropy import (
    distilled_cross_entropy,
    r_drop_cross_entropy,
    smoothed_cross_entropy,
)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The mean of `smoothed_cross_entropy` over the tokens that are not padding (Section 5.4).

    The mean is taken over the whole batch: under `tf.distribute` each replica divides its sum by
    the number of tokens on all of them, so that any number of replicas makes the same step.

    Args:
        label_smoothing: epsilon, the probability mass spread over the vocabulary.
        r_drop: alpha of `r_drop_cross_entropy`: a `Transformer` with such a loss makes each step of
            `fit` on two passes. With 0, the default, on one.
        distillation: share of the teachers' predictions in a token's target, as of
            `distilled_cross_entropy`: a `Transformer` with such a loss learns in `fit` of those
            given to its `learn_from`. With 0, the default, of the labels alone.

    Call arguments:
        y_true: int [B, T] labels; where they are 0 (padding) the loss is 0.
        y_pred: float [B, T, V] logits; or a pair, of the logits of two passes, or of logits and
            the teachers' probabilities where there is `distillation`.
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
        distillation: float = 0.0,
        name="label_smoothed_cross_entropy",
    ):
        super().__init__(name=name)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1, received {label_smoothing}."
            )
        if r_drop < 0:
            raise ValueError(f"r_drop must be at least 0, received {r_drop}.")
        if not 0 <= distillation <= 1:
            raise ValueError(f"distillation must be from 0 to 1, received {distillation}.")
        if r_drop and distillation:
            raise ValueError(
                "The second prediction is of another pass or of teachers, received "
                f"r_drop={r_drop} and distillation={distillation}. Set one of them to 0."
            )
        self.label_smoothing = label_smoothing
        self.r_drop = r_drop
        self.distillation = distillation

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        weights = token_weights(y_true, sample_weight)
        total = ops.sum(weights * self.call(y_true, y_pred))
        count = _sum_over_replicas(ops.sum(weights))
        return total / ops.where(count > 0, count, 1.0)

    def call(self, y_true, y_pred):
        if isinstance(y_pred, tuple):
            first, second = (ops.convert_to_tensor(values) for values in y_pred)
            if self.distillation:
                return distilled_cross_entropy(
                    y_true, first, second, self.label_smoothing, self.distillation
                )
            return r_drop_cross_entropy(y_true, first, second, self.label_smoothing, self.r_drop)
        return smoothed_cross_entropy(y_true, ops.convert_to_tensor(y_pred), self.label_smoothing)

    def get_config(self):
        return {
            "label_smoothing": self.label_smoothing,
            "r_drop": self.r_drop,
            "distillation": self.distillation,
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
