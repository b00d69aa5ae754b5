"""A Transformer with two additions to `fit`: steps in parts on CPU cores, and distillation."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.losses import (
    LabelSmoothedCrossEntropy,
    distilled_cross_entropy,
    token_mean,
    token_weights,
)
from keras_transformer.model import Transformer


class TrainingTransformer(Transformer):
    """Train a `Transformer` with steps in parts, or on the predictions of teacher models.

    Each part of a step computes its share of the batch with operations of its own, from the
    embeddings to the gradients, which are then added up. Where TensorFlow runs several operations
    at a time with few threads each, this keeps more cores busy than dividing every operation.
    Dropout aside, the update is that of the whole batch.

    Distillation ([Kim and Rush, 2016](https://arxiv.org/abs/1606.07947)) trains on the averaged
    predictions of teacher models. Teachers stay as they are and aren't saved.

    Weights, checkpoints and the file that `save` writes are those of a plain `Transformer`. The
    loss must be a `LabelSmoothedCrossEntropy` for either addition.

    Args:
        config: The sizes of the model.
        parts: The number of parts of a step, such as `keras_transformer.training.prepare_cpu`
            returns. More than one needs TensorFlow and a single replica.
        teachers: Models with the same vocabularies and any sizes.
        distillation: The teachers' share of a token's target, from 0 to 1; the label has the rest.

    Call arguments:
        inputs: See `Transformer`.
        training: Whether dropout applies.

    Raises:
        ValueError: If `parts` is below 1, or above 1 on another backend than TensorFlow;
            `distillation` is not from 0 to 1; or a teacher has another vocabulary size.

    >>> config = TransformerConfig(vocab_size=50, num_layers=1, d_model=8, d_ff=16, num_heads=2)
    >>> model = TrainingTransformer(config, teachers=[Transformer(config)], distillation=0.5)
    >>> model.compile("sgd", LabelSmoothedCrossEntropy(0.1))
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        parts: int = 1,
        teachers: Sequence[Transformer] = (),
        distillation: float = 0.5,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        if parts < 1 or (parts > 1 and keras.backend.backend() != "tensorflow"):
            raise ValueError(
                "parts must be 1, or more with the TensorFlow backend, received "
                f"parts={parts} with {keras.backend.backend()}. Leave it out."
            )
        if not 0 <= distillation <= 1:
            raise ValueError(f"distillation must be from 0 to 1, received {distillation}.")
        _check_vocabularies(config, teachers)
        self.parts = parts
        self.distillation = distillation if teachers else 0.0

        def predict(inputs):
            predictions = [ops.softmax(teacher(inputs, training=False)) for teacher in teachers]
            return ops.stop_gradient(sum(predictions) / len(predictions))

        self._teach = predict  # Keras doesn't track layers inside a function.

    def compile(self, *args: Any, **kwargs: Any) -> None:
        if self.parts > 1 and kwargs.get("jit_compile", "auto") == "auto":
            kwargs["jit_compile"] = False  # XLA would compile a step for each shape of a batch.
        super().compile(*args, **kwargs)
        is_needed = self.parts > 1 or self.distillation
        # A subclass may have a value that is not a mean over tokens.
        is_mean = type(self.loss) is LabelSmoothedCrossEntropy and self.loss.reduction == "mean"
        if is_needed and not is_mean:
            raise ValueError(
                "Steps in parts and distillation need a loss whose mean over the batch follows "
                "from its means over parts, LabelSmoothedCrossEntropy; received "
                f"{self.loss!r}. Use that loss, or parts=1 and no teachers."
            )

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        if not (training and self.distillation):
            return super().compute_loss(x, y, y_pred, sample_weight, training=training)
        labels = ops.convert_to_tensor(y)
        values = distilled_cross_entropy(
            labels, y_pred, self._teach(x), self.loss.label_smoothing, self.distillation
        )
        return token_mean(values, labels, sample_weight)

    def train_step(self, *args: Any) -> Any:  # On JAX, a state comes before the data.
        if self.parts == 1:
            return super().train_step(*args)
        return _train_step_in_parts(self, *args)

    def save(self, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        """Save a plain `Transformer` with these weights, compiled like this model.

        Args:
            filepath: A path that ends in `.keras`.
            overwrite: Whether to replace an existing file.
            **kwargs: Other arguments of `keras.Model.save`.
        """
        model = self._copy(Transformer)
        if self.compiled:
            model.compile_from_config(self.get_compile_config())
            model.optimizer = self.optimizer
        model.save(filepath, overwrite=overwrite, **kwargs)


def _check_vocabularies(config: TransformerConfig, teachers: Sequence[Transformer]) -> None:
    own = config.vocab_size, config.target_size
    theirs = [(teacher.config.vocab_size, teacher.config.target_size) for teacher in teachers]
    if any(sizes != own for sizes in theirs):
        raise ValueError(
            f"Teachers must have the vocabularies of the model, of {own[0]} and {own[1]} tokens; "
            f"received teachers with {theirs}. Give models trained with the same vocabularies."
        )


def _train_step_in_parts(model: TrainingTransformer, data: Any) -> dict[str, Any]:
    """Make one step of the optimizer, with TensorFlow, on one replica.

    Args:
        model: A compiled model.
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
