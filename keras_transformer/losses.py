"""The label-smoothed loss (Section 5.4), and the cross entropies that it is made of."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

import functools
from typing import Any

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.utils.backends import check_dense, check_ids, fuses_formulas

__all__ = ["LabelSmoothedCrossEntropy", "distilled_cross_entropy", "smoothed_cross_entropy"]

_highest = functools.partial(ops.max, axis=-1, keepdims=True)

_SMALLEST = 1e-30
"""A probability that float32 holds with all its digits; below 1e-38 it loses them, then is 0."""


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """Compute the mean of `smoothed_cross_entropy` over tokens, without padding (Section 5.4).

    The mean is over the whole batch: under `tf.distribute`, each replica divides its sum by the
    number of tokens on all replicas. Dropout aside, any number of replicas makes the same update.

    Args:
        label_smoothing: Epsilon, the probability mass spread over the vocabulary.
        name: Name of the loss.
        reduction: `"mean"` over tokens, their `"sum"`, or `"none"` for the value of each.
        dtype: Dtype of the result, by default Keras's `floatx`. It is computed in float32.

    A label out of range is an error. A step that XLA or JAX compiles can't raise one, so there the
    loss and its gradient become NaN. On several replicas, so they do for labels [T, B] whose sizes
    only the step knows.

    Call arguments:
        y_true: int [B, T] or [B, T, 1], labels. Where they are 0 (padding) the loss is 0.
        y_pred: float [B, T, V], logits.
        sample_weight: Weights of sentences [B] or of tokens [B, T]; 1 by default.

    Returns:
        A scalar, or float [B, T] without reduction, in nats.

    Raises:
        ValueError: If `label_smoothing` is not in [0, 1), the reduction is none of these, or labels
            are out of range or don't have the shape of the logits.

    >>> loss = LabelSmoothedCrossEntropy(label_smoothing=0.1)
    >>> round(float(loss(ops.array([[3, 0]]), ops.zeros((1, 2, 8)))), 4)  # log(8)
    2.0794
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        name: str = "label_smoothed_cross_entropy",
        reduction: str | None = "mean",
        dtype: Any = None,
    ):
        if reduction not in ("mean", "sum", "none", None):
            raise ValueError(
                f"reduction must be 'mean', 'sum' or 'none', received {reduction!r}. Use 'mean' "
                "for the mean over the tokens of the batch."
            )
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not 0 <= label_smoothing < 1:
            raise ValueError(
                f"label_smoothing must be at least 0 and below 1, received {label_smoothing}."
            )
        self.label_smoothing = label_smoothing

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        y_pred = ops.convert_to_tensor(y_pred)
        y_true = as_labels(y_true, y_pred)
        values = self.call(y_true, y_pred)
        if self.reduction == "mean":
            values = token_mean(values, y_true, sample_weight)
        else:
            values = values * token_weights(y_true, sample_weight)
        if self.reduction == "sum":
            values = ops.sum(values)
        return ops.cast(values, self.dtype)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return smoothed_cross_entropy(y_true, y_pred, self.label_smoothing)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LabelSmoothedCrossEntropy":
        config = dict(config)
        # Files of version 0.1 have these options, which were 0 by default.
        removed = {name: config.pop(name, 0) for name in ("r_drop", "distillation")}
        if any(removed.values()):
            raise ValueError(
                f"A loss with {removed} comes from version 0.1 and can't be loaded. Load the model "
                "with compile=False, and compile it again; for distillation, use "
                "keras_transformer.training.TrainingTransformer."
            )
        return cls(**config)


def smoothed_cross_entropy(labels: Any, logits: Any, label_smoothing: float = 0.0) -> Any:
    """Return the cross entropy of each token against its smoothed label (Section 5.4).

    The label has probability 1 - epsilon, and epsilon is spread evenly over the whole vocabulary,
    the label included ([Szegedy et al., 2016](https://arxiv.org/abs/1512.00567)). The target
    distribution [B, T, V] is never formed, and the softmax is computed once.

    Args:
        labels: int [B, T].
        logits: float [B, T, V].
        label_smoothing: Epsilon.

    Returns:
        float32 [B, T], in nats; see `LabelSmoothedCrossEntropy` for labels out of range.

    >>> float(smoothed_cross_entropy(ops.array([[0]]), ops.zeros((1, 1, 4)))[0, 0])
    1.3862943649291992
    """
    labels, validity = checked_labels(labels, logits)
    return token_cross_entropy(labels, logits, label_smoothing) * validity


def token_cross_entropy(
    labels: Any, logits: Any, label_smoothing: float = 0.0, taught: Any = None, share: float = 0.0
) -> Any:
    """Return the cross entropy of labels that `checked_labels` has returned; see the formula."""
    # Where nothing is fused, a gradient written by hand is faster. With PyTorch, Keras makes it one
    # without a gradient of its own.
    is_plain = fuses_formulas() or keras.backend.backend() == "torch"
    cross_entropy = plain_cross_entropy if is_plain else _fast_cross_entropy
    return cross_entropy(labels, ops.cast(logits, "float32"), label_smoothing, taught, share)


def plain_cross_entropy(labels, logits, label_smoothing, taught=None, share=0.0):
    """Return log(sum(exp(logits))) - sum(target * logits), for the smoothed label as the target.

    A share of the target may be taught, as in `distilled_cross_entropy`.
    """
    logits = logits - ops.stop_gradient(_highest(logits))
    ids = ops.arange(logits.shape[-1], dtype="int32")
    is_label = ops.equal(ids, ops.expand_dims(labels, -1))
    expected = ops.sum(ops.where(is_label, logits, 0.0), axis=-1)
    if label_smoothing:
        mean = ops.mean(logits, axis=-1)
        expected = (1 - label_smoothing) * expected + label_smoothing * mean
    if taught is not None:
        expected = (1 - share) * expected + share * ops.sum(taught * logits, axis=-1)
    return ops.log(ops.sum(ops.exp(logits), axis=-1)) - expected


def _fast_cross_entropy(labels, logits, label_smoothing, taught=None, share=0.0):
    """Return `plain_cross_entropy` or `distilled_cross_entropy` of float32 logits.

    The gradient, softmax - target, is written by hand, and the softmax is computed once.
    """
    shape, size = ops.shape(labels), logits.shape[-1]
    labels = ops.reshape(ops.cast(labels, "int32"), (-1, 1))
    taught = None if taught is None else ops.reshape(taught, (-1, size))
    smoothing = (1 - share) * label_smoothing

    @ops.custom_gradient
    def cross_entropy(logits):
        # The backend's own softmax is one operation, on a CPU much faster than its parts.
        probabilities = ops.softmax(logits)
        at_label = ops.take_along_axis(logits, labels, axis=-1)
        label_probability = ops.take_along_axis(probabilities, labels, axis=-1)
        values = ops.cond(
            ops.all(label_probability > _SMALLEST),
            lambda: -ops.log(label_probability),
            lambda: _highest(logits) - at_label - ops.log(_highest(probabilities)),
        )
        if smoothing:
            values = values + smoothing * (at_label - ops.mean(logits, axis=-1, keepdims=True))
        if taught is not None:
            expected = ops.einsum("nv,nv->n", taught, logits)[:, None]
            values = values + share * (at_label - expected)

        return values, functools.partial(
            _cross_entropy_gradient, probabilities, labels, smoothing, taught, share
        )

    return ops.reshape(cross_entropy(ops.reshape(logits, (-1, size))), shape)


def _cross_entropy_gradient(probabilities, labels, smoothing, taught, share, upstream):
    """Return (softmax - target) * upstream."""
    gradients = probabilities * upstream - upstream * (smoothing / probabilities.shape[-1])
    if taught is not None:
        gradients = gradients - upstream * (share * taught)
    own = ops.take_along_axis(gradients, labels, axis=-1)
    own = own - upstream * (1 - share - smoothing)
    rows = ops.expand_dims(ops.arange(ops.shape(labels)[0], dtype="int32"), 1)
    places = ops.concatenate([rows, labels], 1)
    return ops.scatter_update(gradients, places, ops.squeeze(own, 1))


def distilled_cross_entropy(
    labels: Any, logits: Any, taught: Any, label_smoothing: float = 0.0, share: float = 0.5
) -> Any:
    """Return the cross entropy of each token against its label and the teachers' predictions.

    This is word-level distillation ([Kim and Rush, 2016](https://arxiv.org/abs/1606.07947)): a
    token's target is (1 - share) times its smoothed label plus share times the teachers'
    distribution.

    Args:
        labels: int [B, T].
        logits: float [B, T, V].
        taught: float [B, T, V], the teachers' probabilities. No gradient flows into them.
        label_smoothing: Epsilon; see `smoothed_cross_entropy`.
        share: The teachers' share of the target, from 0 to 1.

    Returns:
        float32 [B, T], in nats.

    >>> logits = ops.log(ops.array([[[0.5, 0.25, 0.25]]]))
    >>> half = distilled_cross_entropy(ops.array([[0]]), logits, ops.array([[[0.0, 1.0, 0.0]]]))
    >>> round(float(half[0, 0] / ops.log(2.0)), 3)  # one bit for the label, two for the teachers
    1.5
    """
    taught = ops.stop_gradient(ops.cast(taught, "float32"))
    labels, validity = checked_labels(labels, logits)
    return token_cross_entropy(labels, logits, label_smoothing, taught, share) * validity


def as_labels(labels: Any, logits: Any) -> Any:
    """Return labels [B, T] for logits [B, T, V]; a last axis of size 1 is dropped, as in Keras.

    Args:
        labels: int [B, T] or [B, T, 1].
        logits: float [B, T, V].

    Raises:
        ValueError: If the shapes don't fit.

    >>> tuple(as_labels(ops.array([[[3], [0]]]), ops.zeros((1, 2, 8))).shape)
    (1, 2)
    """
    check_dense(labels, "Labels")
    labels = ops.convert_to_tensor(labels)
    if getattr(labels.shape, "rank", 2) is None:
        raise ValueError(
            "Labels must be ids [B, T], received a tensor of unknown rank. Set it with "
            "tf.ensure_shape(labels, [None, None])."
        )
    received, expected = tuple(labels.shape), tuple(logits.shape)
    if len(received) == len(expected) and received[-1] == 1:
        labels, received = ops.squeeze(labels, -1), received[:-1]
    sizes = zip(received, expected[:-1], strict=False)
    if len(received) != len(expected) - 1 or any(None not in s and s[0] != s[1] for s in sizes):
        is_one_hot = len(received) == len(expected) and received[-1] == expected[-1]
        remedy = " Give one-hot labels as ids, ops.argmax(labels, axis=-1)." if is_one_hot else ""
        raise ValueError(
            "Labels must be ids [B, T] for logits [B, T, V], received labels of shape "
            f"{received} and logits of shape {expected}.{remedy}"
        )
    return labels


def check_range(labels: Any, size: int, in_graph: bool = True) -> Any:
    """Return labels; raise a ValueError if one is out of range, as `check_ids` does."""
    rule = f"Labels must be from 0 to {size - 1} ({PAD_ID}, the padding id, for tokens to ignore)"
    return check_ids(labels, size, rule, in_graph)


def checked_labels(labels: Any, logits: Any, in_graph: bool = True) -> tuple[Any, Any]:
    """Check that labels are in range, and return a factor that is NaN where they aren't.

    Args:
        labels: int [B, T] or [B, T, 1].
        logits: float [B, T, V].
        in_graph: Whether a TensorFlow graph asserts it too.

    Returns:
        The labels, int [B, T], or V - 1 instead of one that is out of range; and float32 [B, T], 1
        where a label is in range. On several replicas, labels [T, B] have NaN everywhere.

    Raises:
        ValueError: If a label is out of range, where its value is known; see `check_ids`.

    >>> labels, factor = checked_labels(ops.array([[[3]]]), ops.zeros((1, 1, 8)))
    >>> tuple(labels.shape), float(factor[0, 0])
    ((1, 1), 1.0)
    """
    size = logits.shape[-1]
    labels = check_range(as_labels(labels, logits), size, in_graph)
    one, nan = (ops.convert_to_tensor(x, "float32") for x in (1.0, float("nan")))
    if keras.backend.backend() == "tensorflow" and None in (*labels.shape, *logits.shape):
        import tensorflow as tf

        shapes = tf.shape(labels), tf.shape(logits)[:-1]
        if replica_count() > 1:
            # The next replica would wait for an assertion, which waits for these logits.
            one = tf.where(tf.reduce_all(tf.equal(*shapes)), one, nan)
        else:
            message = "Labels must have the shape [B, T] of logits [B, T, V]."
            with tf.control_dependencies([tf.debugging.assert_equal(*shapes, message)]):
                labels = tf.identity(labels)
    if keras.backend.standardize_dtype(labels.dtype) != "int64":
        labels = ops.cast(labels, "int32")
    is_valid = ops.logical_and(labels >= 0, labels < size)
    return ops.where(is_valid, labels, size - 1), ops.where(is_valid, one, nan)


def token_mean(values: Any, labels: Any, sample_weight: Any = None) -> Any:
    """Return the mean of the tokens' values over the whole batch, on all replicas.

    Args:
        values: float32 [B, T].
        labels: int [B, T]; padding doesn't count.
        sample_weight: Weights of sentences [B] or of tokens [B, T]; 1 by default.

    Returns:
        A float32 scalar: this replica's sum, divided by the count on all replicas. 0 for a batch
        of nothing but padding.

    >>> float(token_mean(ops.array([[1.0, 3.0, 9.0]]), ops.array([[5, 6, 0]])))
    2.0
    """
    weights = token_weights(labels, sample_weight)
    total = ops.sum(weights * values)
    count = sum_over_replicas(ops.sum(weights))
    return total / ops.where(count > 0, count, 1.0)


def token_weights(labels: Any, sample_weight: Any = None) -> Any:
    """Return the weight of each token: the given one, or 1, and 0 for padding.

    Args:
        labels: int [B, T].
        sample_weight: Weights of sentences [B] or of tokens [B, T]; 1 by default.

    Returns:
        float32 [B, T].

    >>> ops.convert_to_numpy(token_weights(ops.array([[5, 0]]))).tolist()
    [[1.0, 0.0]]
    """
    weights = ops.cast(ops.not_equal(labels, PAD_ID), "float32")
    if sample_weight is None:
        return weights
    given = ops.cast(sample_weight, "float32")
    if getattr(given.shape, "rank", 0) is None:
        raise ValueError(
            "sample_weight must be [B] or [B, T], received a tensor of unknown rank: the graph was "
            "traced with weights of another rank. Give all of one rank, or call compile again."
        )
    received, expected = tuple(given.shape), tuple(labels.shape)
    if len(received) == 1 < len(expected):
        given = ops.expand_dims(given, 1)
    sizes = zip(given.shape, expected, strict=False)
    fits = all(size in (1, None, wanted) or wanted is None for size, wanted in sizes)
    if received and not (fits and len(given.shape) == len(expected)):
        raise ValueError(
            "sample_weight must be [B] or [B, T] for labels [B, T], received shape "
            f"{received} for {expected}."
        )
    return weights * given


def sum_over_replicas(value: Any) -> Any:
    """Return the sum of a value over the replicas of `tf.distribute`; elsewhere the value itself.

    >>> sum_over_replicas(2.0)
    2.0
    """
    # Keras adds the replicas' gradients up but has no sum of anything else over replicas.
    if replica_count() == 1:
        return value
    import tensorflow as tf

    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


def replica_count() -> int:
    """Return the number of replicas of `tf.distribute` where a replica's step is made; else 1."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def has_part(model: keras.Model) -> bool:
    """Return whether a step is that of one of several replicas, whose loss Keras would misreport.

    Keras weights it by the sentences of the replica, and this loss has been divided by the tokens
    of all replicas.
    """
    return replica_count() > 1 and isinstance(model.loss, LabelSmoothedCrossEntropy)


def train_part(model: keras.Model, data: Any) -> Any:
    """Make a training step on a replica's part of a batch; see `keras.Model.train_step`."""
    import tensorflow as tf

    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = model.compute_loss(x, y, y_pred, sample_weight)
        scaled = model.optimizer.scale_loss(loss)
    variables = model.trainable_variables
    model.optimizer.apply_gradients(zip(tape.gradient(scaled, variables), variables, strict=True))
    track_loss(model, loss, ops.shape(y)[0])
    return model.compute_metrics(x, y, y_pred, sample_weight)


def evaluate_part(model: keras.Model, data: Any) -> Any:
    """Evaluate a replica's part of a batch; see `keras.Model.test_step`."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    y_pred = model(x, training=False)
    loss = model.compute_loss(x, y, y_pred, sample_weight, training=False)
    track_loss(model, loss, ops.shape(y)[0])
    return model.compute_metrics(x, y, y_pred, sample_weight)


def track_loss(model: keras.Model, loss: Any, rows: Any) -> None:
    """Update the metric `loss` of a model with the loss of a batch, or of a replica's part of it.

    Args:
        model: The model.
        loss: The loss of this replica, of which the loss of the batch is the sum over replicas.
        rows: The number of sentences on this replica.
    """
    if has_part(model):
        # On each replica that of the batch, since other machines don't see its metric.
        loss, rows = sum_over_replicas([ops.cast(value, "float32") for value in (loss, rows)])
    else:
        loss = loss * replica_count()
    tracker = next(metric for metric in model.metrics if metric.name == "loss")
    tracker.update_state(loss, sample_weight=rows)
