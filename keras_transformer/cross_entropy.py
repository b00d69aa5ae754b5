"""Cross entropies of tokens, with their gradients written out: smoothed, of two passes, taught."""

from keras import ops

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


def distilled_cross_entropy(labels, logits, taught, label_smoothing=0.0, share=0.5):
    """Return the cross entropy of each token against its label and what teachers predict.

    This is the distillation of Hinton et al. (2015), word by word ([Kim and Rush,
    2016](https://arxiv.org/abs/1606.07947)): a token's target is (1 - share) times its smoothed
    label and share times the teachers' distribution.

    Args:
        labels: int [B, T].
        logits: float [B, T, V].
        taught: float [B, T, V], the teachers' probabilities; no gradient goes there.
        label_smoothing: epsilon, as of `smoothed_cross_entropy`.
        share: how much of the target is the teachers', from 0 to 1.

    Returns:
        float32 [B, T], in nats.

    >>> logits = ops.log(ops.array([[[0.5, 0.25, 0.25]]]))
    >>> half = distilled_cross_entropy(ops.array([[0]]), logits, ops.array([[[0.0, 1.0, 0.0]]]))
    >>> round(float(half[0, 0] / ops.log(2.0)), 3)  # one bit for the label, two for the teachers
    1.5
    """
    flat_labels, of_label = _flat(labels), 1 - share
    taught, smoothing = ops.stop_gradient(_rows(taught)), of_label * label_smoothing

    @ops.custom_gradient
    def cross_entropy(logits):
        probabilities = ops.softmax(logits)
        at_label = ops.take_along_axis(logits, flat_labels, axis=-1)
        expected = ops.einsum("nv,nv->n", taught, logits)[:, None]
        values = _cross_entropy(flat_labels, logits, probabilities, smoothing)

        def gradient(*args, upstream=None):
            upstream = args[0] if upstream is None else upstream
            uniform = smoothing / logits.shape[-1]
            gradients = upstream * (probabilities - share * taught - uniform)
            return _subtract_at(flat_labels, gradients, upstream * (of_label - smoothing))

        return values + share * (at_label - expected), gradient

    return ops.reshape(cross_entropy(_rows(logits)), ops.shape(labels))


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
