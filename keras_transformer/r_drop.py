"""R-Drop: two predictions with different dropout are held to agree (Liang et al., 2021)."""

import keras
from keras import ops

from keras_transformer.losses import (
    smoothed_cross_entropy,
    softmax,
    sum_over_replicas,
    token_weights,
)


def each_row_twice(inputs: dict, labels):
    """Return a batch with each of its rows twice in a row, as `RDropLoss` takes it.

    Args:
        inputs: by their names, [B, ...] each.
        labels: [B, ...].

    >>> inputs, labels = each_row_twice({"source": ops.array([[4, 5], [6, 7]])}, ops.array([8, 9]))
    >>> ops.convert_to_numpy(inputs["source"]).tolist()
    [[4, 5], [4, 5], [6, 7], [6, 7]]
    """
    return {name: ops.repeat(ids, 2, axis=0) for name, ids in inputs.items()}, ops.repeat(
        labels, 2, axis=0
    )


def divergence_of_pairs(logits):
    """Return how far the two predictions for each sentence are apart.

    It is the mean of the Kullback-Leibler divergences of either distribution from the other.

    Args:
        logits: float [2B, T, V], those of rows 2i and 2i + 1 for the same sentence.

    Returns:
        float32 [B, T], in nats.

    >>> logits = ops.log(ops.array([[[0.5, 0.5]], [[0.8, 0.2]]]))
    >>> round(float(divergence_of_pairs(logits)[0, 0]), 4)  # 0.3 / 2 times the log of 4
    0.2079
    """

    @ops.custom_gradient
    def divergence(logits):
        probabilities, log_normaliser, highest = softmax(logits)
        one, other = probabilities[:, 0], probabilities[:, 1]
        shift = highest + log_normaliser
        # The log of one's probabilities less that of the other's.
        difference = logits[:, 0] - logits[:, 1] - (shift[:, 0] - shift[:, 1])
        from_other = ops.sum(one * difference, axis=-1, keepdims=True)
        from_one = -ops.sum(other * difference, axis=-1, keepdims=True)

        def gradient(*args, upstream=None):
            half = (args[0] if upstream is None else upstream) / 2
            of_one = half * (one * (difference + (1 - from_other)) - other)
            of_other = half * (other * ((1 - from_one) - difference) - one)
            return ops.stack([of_one, of_other], axis=1)

        return (from_other + from_one) / 2, gradient

    _, length, vocab_size = ops.shape(logits)
    pairs = ops.reshape(ops.cast(logits, "float32"), (-1, 2, length, vocab_size))
    return ops.squeeze(divergence(pairs), -1)


@keras.saving.register_keras_serializable(package="keras_transformer")
class RDropLoss(keras.losses.Loss):
    """Label-smoothed cross entropy, and alpha times how far two predictions are apart.

    Each sentence is in the batch twice, in rows 2i and 2i + 1 (see `each_row_twice`), so that the
    model predicts it with two drawings of its dropout. The value is half of what Liang et al.
    write, which has the cross entropies of both added up: the mean over tokens of the cross
    entropy, plus alpha / 2 times that of `divergence_of_pairs`. As `LabelSmoothedCrossEntropy`, it
    takes means over the batch of all replicas.

    Args:
        alpha: weight of the divergence, 5 in their translations.
        label_smoothing: epsilon, the probability mass spread over the vocabulary.

    Call arguments:
        y_true: int [2B, T] labels; where they are 0 (padding) the loss is 0.
        y_pred: float [2B, T, V] logits.
        sample_weight: weights of rows [2B] or of tokens [2B, T], the same for both rows of a
            sentence; 1 by default.

    Returns:
        A scalar, float32, in nats a token.

    >>> loss = RDropLoss(alpha=5, label_smoothing=0)
    >>> logits = ops.log(ops.array([[[0.1, 0.9]], [[0.1, 0.9]]]))
    >>> round(float(loss(ops.array([[1], [1]]), logits)), 4)  # They agree.
    0.1054
    """

    def __init__(self, alpha: float = 5.0, label_smoothing: float = 0.1, name="r_drop_loss"):
        super().__init__(name=name)
        if alpha < 0 or not 0 <= label_smoothing < 1:
            raise ValueError(
                "alpha must be at least 0, and label_smoothing at least 0 and below 1; received "
                f"{alpha} and {label_smoothing}."
            )
        self.alpha = alpha
        self.label_smoothing = label_smoothing

    def __call__(self, y_true, y_pred, sample_weight=None):
        y_true = ops.convert_to_tensor(y_true)
        y_pred = ops.cast(y_pred, "float32")  # Once for both terms.
        weights = token_weights(y_true, sample_weight)
        total = ops.sum(weights * smoothed_cross_entropy(y_true, y_pred, self.label_smoothing))
        # Of each sentence once: with both rows' tokens below, half of alpha.
        apart = ops.sum(weights[::2] * divergence_of_pairs(y_pred))
        count = sum_over_replicas(ops.sum(weights))
        return (total + self.alpha * apart) / ops.where(count > 0, count, 1.0)

    def get_config(self):
        return {
            "alpha": self.alpha,
            "label_smoothing": self.label_smoothing,
            "name": self.name,
        }
