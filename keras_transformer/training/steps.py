"""Training steps that divide a batch, with TensorFlow: at the same time, or one after another."""

from typing import Any

import keras
from keras import ops

from keras_transformer.losses import sum_over_replicas, token_weights


def step_in_parts(model: Any, data: Any) -> dict[str, Any]:
    """Make a step of the optimizer whose parts are computed at the same time, on one replica.

    Args:
        model: A compiled `TrainingTransformer`.
        data: The argument of `train_step`: inputs, labels and perhaps weights, each [B, ...].

    Returns:
        The metrics by name.
    """
    import tensorflow as tf

    if tf.distribute.in_cross_replica_context() or tf.distribute.has_strategy():
        raise ValueError(
            f"A step in parts needs a single replica, received parts={model.parts} under a "
            "distribution strategy. Use parts=1 there."
        )
    data = keras.utils.unpack_x_y_sample_weight(data)
    rows = ops.shape(data[1])[0]
    count = ops.sum(token_weights(*data[1:]))
    count = ops.where(count > 0, count, 1.0)
    ends = [rows * part // model.parts for part in range(1, model.parts)]
    losses = []
    with tf.GradientTape() as tape:
        for part in map(slice, [None, *ends], [*ends, None]):
            inputs, labels, weights = keras.tree.map_structure(
                lambda values, part=part: None if values is None else values[part], data
            )
            logits = model(inputs, training=True)
            share = ops.sum(token_weights(labels, weights)) / count
            losses.append(share * model.compute_loss(inputs, labels, logits, weights))
            model.compute_metrics(inputs, labels, logits, weights)
        # TensorFlow may turn a chain of additions into a temporary variable, which outlives a data
        # set that ends, and fails in the next epoch (tensorflow/tensorflow#23780).
        loss = ops.sum(ops.stack(losses))
        scaled = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    model.optimizer.apply(gradients, model.trainable_variables)
    tracker = next(metric for metric in model.metrics if metric.name == "loss")
    tracker.update_state(loss, sample_weight=rows)
    return model.get_metrics_result()


def accumulated_step(model: Any, data: Any) -> dict[str, Any]:
    """Make a step of the optimizer with the gradients of parts that follow one another.

    A part's activations are freed before the next one, so a step takes the memory of a part and of
    one more gradient of every weight.

    Args:
        model: A compiled `TrainingTransformer`.
        data: The argument of `train_step`: inputs, labels and perhaps weights, each [B, ...].

    Returns:
        The metrics by name.
    """
    import tensorflow as tf

    data = keras.utils.unpack_x_y_sample_weight(data)
    rows, parts, variables = ops.shape(data[1])[0], model.accumulation, model.trainable_variables
    count = sum_over_replicas(ops.sum(token_weights(*data[1:])))
    count = ops.where(count > 0, count, 1.0)

    def add_part(part, loss, sums):
        of_part = slice(rows * part // parts, rows * (part + 1) // parts)
        inputs, labels, weights = keras.tree.map_structure(
            lambda values: None if values is None else values[of_part], data
        )
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)
            values = model.token_losses(inputs, labels, logits)
            share = ops.sum(token_weights(labels, weights) * values) / count
            scaled = model.optimizer.scale_loss(share)
        gradients = tape.gradient(scaled, variables)
        model.compute_metrics(inputs, labels, logits, weights)
        sums = [total + tf.convert_to_tensor(g) for total, g in zip(sums, gradients, strict=True)]
        return part + 1, loss + share, sums

    start = 0, 0.0, [tf.zeros(variable.shape, variable.dtype) for variable in variables]
    _, loss, gradients = tf.while_loop(
        lambda part, *_: part < parts, add_part, start, parallel_iterations=1
    )
    model.optimizer.apply(gradients, variables)
    tracker = next(metric for metric in model.metrics if metric.name == "loss")
    # The mean over replicas of what Keras expects to be the mean of a replica's rows.
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    tracker.update_state(loss * replicas, sample_weight=rows)
    return model.get_metrics_result()
