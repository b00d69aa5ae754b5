"""A step of `model.fit` whose halves run side by side on two cores."""

import keras
from keras import ops

from keras_transformer.losses import LabelSmoothedCrossEntropy, token_weights


def steps_in_halves(model: keras.Model) -> bool:
    """Return whether a step of `model.fit` is to be made in halves.

    It is where TensorFlow runs two operations at a time with one thread each, as
    `keras_transformer.training.prepare_cpu` tells it to: a step on the whole batch would keep one
    core busy. The loss has to be a `LabelSmoothedCrossEntropy`, a mean over tokens, which is known
    from the means over the halves.
    """
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    threading = tf.config.threading
    return (
        threading.get_intra_op_parallelism_threads() == 1
        and threading.get_inter_op_parallelism_threads() == 2
        and not tf.config.list_physical_devices("GPU")
        and not tf.distribute.has_strategy()
        and not tf.executing_eagerly()
        and not model.jit_compile
        and type(model.loss) is LabelSmoothedCrossEntropy
    )


def train_step_in_halves(model: keras.Model, data) -> dict:
    """Make one step of the optimizer, with TensorFlow: dropout aside, that on the whole batch.

    Each half has operations of its own from the embeddings to the gradients, which are then added.
    There is one copy of the weights.

    Args:
        model: a compiled model whose loss is a `LabelSmoothedCrossEntropy`.
        data: as of `train_step`: inputs, labels and perhaps weights, with the rows B of a batch in
            front.

    Returns:
        What `train_step` does: the metrics by name.
    """
    import tensorflow as tf

    data = keras.utils.unpack_x_y_sample_weight(data)
    rows = ops.shape(data[1])[0]
    count = ops.sum(token_weights(*data[1:]))
    count = ops.where(count > 0, count, 1.0)
    losses = []
    with tf.GradientTape() as tape:
        for half in (slice(rows // 2), slice(rows // 2, None)):
            inputs, labels, weights = keras.tree.map_structure(
                lambda values, half=half: None if values is None else values[half], data
            )
            logits = model(inputs, training=True)
            share = ops.sum(token_weights(labels, weights)) / count
            losses.append(share * model.compute_loss(inputs, labels, logits, weights))
            model.compute_metrics(inputs, labels, logits, weights)
        # Of a chain of additions TensorFlow may make a temporary variable, which outlives a data
        # set that ends, and fails in the next epoch (tensorflow/tensorflow#23780).
        loss = ops.sum(ops.stack(losses))
        scaled = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    model.optimizer.apply(gradients, model.trainable_variables)
    tracker = next(metric for metric in model.metrics if metric.name == "loss")
    tracker.update_state(loss, sample_weight=rows)
    return model.get_metrics_result()
