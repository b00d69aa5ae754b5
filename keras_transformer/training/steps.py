"""Training steps with TensorFlow, of a batch or of its parts, and the norm of the gradient."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.config import PAD_ID
from keras_transformer.losses import sum_over_replicas, token_weights, track_loss
from keras_transformer.optimizers import FusedAdam


def whole_step(model: Any, data: Any) -> dict[str, Any]:
    """Make a step of the optimizer on a batch, as Keras does, and log the norm of the gradient.

    Args:
        model: A compiled `TrainingTransformer`.
        data: The argument of `train_step`: inputs, labels and perhaps weights, each [B, ...].

    Returns:
        The metrics by name, and the `gradient_norm` of this step.
    """
    data = keras.utils.unpack_x_y_sample_weight(data)
    if not model.compiles_gradients:
        loss, gradients = _gradients(model, data)
    else:
        compiled = _compiled(lambda count: _gradients(model, data, count))
        loss, gradients = compiled(_count_tokens(data))
    return _finished(model, gradients, loss, data[1])


def step_in_parts(model: Any, data: Any) -> dict[str, Any]:
    """Make the step of `whole_step` on one replica, whose parts are computed at the same time."""
    import tensorflow as tf

    if tf.distribute.in_cross_replica_context() or tf.distribute.has_strategy():
        raise ValueError(
            f"A step in parts needs a single replica, received parts={model.parts} under a "
            "distribution strategy. Use parts=1 there."
        )
    data = keras.utils.unpack_x_y_sample_weight(data)
    count, rows, losses = _count_tokens(data), ops.shape(data[1])[0], []
    ends = [rows * part // model.parts for part in range(model.parts + 1)]
    parts = [
        _map(lambda x, start=start, end=end: x[start:end], data)
        for start, end in itertools.pairwise(ends)
    ]
    with tf.GradientTape() as tape:
        # Assertions follow one another. Those of a loss wait for its logits, and would keep the
        # next part waiting if it came after them.
        logits_of_parts = [model(inputs, training=True) for inputs, *_ in parts]
        for (inputs, labels, weights), logits in zip(parts, logits_of_parts, strict=True):
            share = ops.sum(token_weights(labels, weights)) / count
            losses.append(share * model.compute_loss(inputs, labels, logits, weights))
            model.compute_metrics(inputs, labels, logits, weights)
        # TensorFlow may turn a chain of additions into a temporary variable, which outlives a data
        # set that ends, and fails in the next epoch (tensorflow/tensorflow#23780).
        loss = ops.sum(ops.stack(losses))
        scaled = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    return _finished(model, gradients, loss, data[1])


def accumulated_step(model: Any, data: Any) -> dict[str, Any]:
    """Make the step of `whole_step` with the gradients of parts that follow one another.

    A part's activations are freed before the next one, so a step takes the memory of a part and of
    one more gradient of every weight.
    """
    import tensorflow as tf

    data = keras.utils.unpack_x_y_sample_weight(data)
    rows, parts = ops.shape(data[1])[0], model.accumulation
    # XLA needs parts of one size, so rows of padding complete the batch.
    size = (rows + parts - 1) // parts
    padded = _map(
        lambda x: tf.pad(x, [[0, size * parts - rows]] + [[0, 0]] * (len(x.shape) - 1)), data
    )
    divided = _map(lambda x: ops.reshape(x, (parts, size, *ops.shape(x)[1:])), padded)

    def gradients_of_parts(count):
        def add_part(part, loss, sums):
            own, gradients = _gradients(model, _map(lambda x: x[part], divided), count)
            return part + 1, loss + own, [a + b for a, b in zip(sums, gradients, strict=True)]

        variables = model.trainable_variables
        start = 0, 0.0, [tf.zeros(variable.shape, variable.dtype) for variable in variables]
        return tf.while_loop(lambda part, *_: part < parts, add_part, start, parallel_iterations=1)[
            1:
        ]

    compute = _compiled(gradients_of_parts) if model.compiles_gradients else gradients_of_parts
    loss, gradients = compute(_count_tokens(data))
    return _finished(model, gradients, loss, data[1])


def _gradients(model, data, count=None):
    """Return the loss on this replica, and its gradients times the optimizer's loss scale.

    The loss is that of Keras; or, with the tokens of the whole batch as `count`, the sum over the
    tokens of `data` divided by it, which needs no other replica.
    """
    import tensorflow as tf

    inputs, labels, weights = data
    with tf.GradientTape() as tape:
        logits = model(inputs, training=True)
        if count is None:
            loss = model.compute_loss(inputs, labels, logits, weights)
        else:
            values = model.token_losses(inputs, labels, logits)
            loss = ops.sum(token_weights(labels, weights) * values) / count
        scaled = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    model.compute_metrics(inputs, labels, logits, weights)
    return loss, [None if g is None else tf.convert_to_tensor(g) for g in gradients]


def _compiled(function):
    """Return a function that XLA compiles, of what each replica does between sums over them."""
    import tensorflow as tf

    return tf.function(function, jit_compile=True, autograph=False)


def _count_tokens(data):
    """Return the number of tokens, weighted, of the batch of all replicas; at least 1 of none."""
    count = sum_over_replicas(ops.sum(token_weights(*data[1:])))
    return ops.where(count > 0, count, 1.0)


def _map(function, data):
    return keras.tree.map_structure(lambda x: None if x is None else function(x), data)


def _finished(model, gradients, loss, labels):
    """Update the weights and the loss metric, and return the logs of the step."""
    norm = apply_sum(model.optimizer, gradients, model.trainable_variables, model.clip_norm)
    # Rows of padding, which make a batch one that replicas can divide, have no weight.
    has_token = ops.any(ops.not_equal(labels, PAD_ID), axis=tuple(range(1, len(labels.shape))))
    track_loss(model, loss, rows=ops.sum(ops.cast(has_token, "float32")))
    is_finite = ops.isfinite(norm)  # With float16, the loss scale may be too high for a step.
    model.gradient_norm.update_state(
        ops.where(is_finite, norm, 0.0), ops.cast(is_finite, "float32")
    )
    return {**model.get_metrics_result(), "gradient_norm": norm}


def apply_sum(
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[Any],
    variables: Sequence[keras.Variable],
    clip_norm: float | None = None,
) -> Any:
    """Update variables with the sum of the replicas' gradients, and return the norm of that sum.

    Keras clips the gradient of each replica before it adds them up, and looks for overflow of
    float16 on the first replica only. Here both concern the sum, which all replicas have.

    Args:
        optimizer: The optimizer.
        gradients: The gradient of each variable on this replica, times the optimizer's loss scale,
            or None.
        variables: The trainable variables.
        clip_norm: The largest norm of the sum. A larger gradient is scaled down to it.

    Returns:
        The norm before clipping, a float32 scalar: the square root of the sum of the squares of all
        elements. It is NaN or infinite if the loss scale of float16 was too high.
    """
    import tensorflow as tf

    pairs = zip(gradients, variables, strict=True)
    # An untied embedding has tf.IndexedSlices, whose norm counts each occurrence of a token.
    known = [(tf.convert_to_tensor(value), of) for value, of in pairs if value is not None]
    sums, variables = [value for value, _ in known], [of for _, of in known]
    context = tf.distribute.get_replica_context()
    replicas = context.num_replicas_in_sync
    if replicas > 1:
        sums = context.all_reduce(tf.distribute.ReduceOp.SUM, sums)
    norm = tf.cast(tf.linalg.global_norm(sums), "float32") / optimizer.scale_loss(1.0)
    if clip_norm is not None:
        sums, _ = tf.clip_by_global_norm(sums, clip_norm, use_norm=norm)
    if replicas == 1:
        optimizer.apply(sums, variables)
    elif _is_plain(optimizer):
        context.merge_call(_update_mirrored, (optimizer, sums, variables, optimizer.learning_rate))
        optimizer.iterations.assign_add(1)
    else:  # The optimizer adds up once more.
        optimizer.apply([value / replicas for value in sums], variables)
    return norm


def _is_plain(optimizer):
    """Return whether all that `apply` does with sums of gradients is `update_step`."""
    return type(optimizer) is FusedAdam and not (
        optimizer.weight_decay
        or optimizer.clipnorm
        or optimizer.clipvalue
        or optimizer.gradient_accumulation_steps
        or optimizer.global_clipnorm
        or optimizer.loss_scale_factor
        or optimizer.use_ema
    )


def _update_mirrored(strategy, optimizer, gradients, variables, learning_rate):
    """Update the copies of each variable, whose gradients are the same on all replicas."""

    def update(variable, gradient, learning_rate):
        optimizer.update_step(gradient, variable, learning_rate)

    for gradient, variable in zip(gradients, variables, strict=True):
        arguments = (gradient, learning_rate)
        strategy.extended.update(variable.value, update, arguments, group=False)
