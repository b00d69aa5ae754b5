"""A Transformer with additions to `fit`: divided steps, distillation, clipping of the gradient."""

import warnings
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy, distilled_cross_entropy, token_mean
from keras_transformer.model import Transformer
from keras_transformer.training.steps import accumulated_step, step_in_parts, whole_step
from keras_transformer.utils.devices import has_gpu


class TrainingTransformer(Transformer):
    """Train a `Transformer` with steps that divide a batch, or on the predictions of teachers.

    Each part of a step computes its share of the batch with separate operations, from the
    embeddings to the gradients, which are then added up. With `parts`, this happens at the same
    time: where TensorFlow runs several operations at a time with few threads each, it keeps more
    cores busy than dividing every operation. With `accumulation`, parts follow one another, so that
    a step needs the memory of a part. Dropout aside, both make the update of the whole batch,
    however many tokens and padding the parts have.

    With TensorFlow, `compile(jit_compile=True)` compiles a whole step by XLA on a single replica;
    on several, it compiles the gradient of each, and their sum and the update stay outside.

    With TensorFlow, the logs of `fit` have a `gradient_norm`: the norm of the whole batch's
    gradient, all weights and all replicas taken together, before clipping. The logs of a batch have
    the norm of its step, and the logs of an epoch the mean over its steps.

    Distillation ([Kim and Rush, 2016](https://arxiv.org/abs/1606.07947)) trains on the averaged
    predictions of teacher models. Teachers stay as they are and aren't saved.

    Weights, checkpoints and the file that `save` writes equal those of a plain `Transformer`. The
    loss must be a `LabelSmoothedCrossEntropy` for each addition.

    Args:
        config: The sizes of the model.
        parts: The number of parts of a step, such as `keras_transformer.training.prepare_cpu`
            returns. More than one needs TensorFlow and a single replica.
        accumulation: The number of parts of a step that follow one another, on any number of
            replicas. More than one needs TensorFlow.
        clip_norm: The largest norm of the whole batch's gradient; a larger one is scaled down to
            it. An optimizer's own `global_clipnorm` concerns the gradient of each replica. It needs
            TensorFlow. By default, nothing is clipped.
        teachers: Models with the same vocabularies and any sizes.
        distillation: The teachers' share of a token's target, from 0 to 1; the label has the rest.

    Call arguments:
        inputs: See `Transformer`.
        training: Whether dropout applies.

    Raises:
        ValueError: If `parts` or `accumulation` is below 1, or above 1 on another backend than
            TensorFlow, or both are above 1; `clip_norm` is not positive, or given on another
            backend; `distillation` is not from 0 to 1; or a teacher has another vocabulary size.

    >>> config = TransformerConfig(vocab_size=50, num_layers=1, d_model=8, d_ff=16, num_heads=2)
    >>> model = TrainingTransformer(config, teachers=[Transformer(config)], distillation=0.5)
    >>> model.compile("sgd", LabelSmoothedCrossEntropy(0.1))
    """

    def __init__(
        self,
        config: TransformerConfig,
        *,
        parts: int = 1,
        accumulation: int = 1,
        clip_norm: float | None = None,
        teachers: Sequence[Transformer] = (),
        distillation: float = 0.5,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        for name, value in (("parts", parts), ("accumulation", accumulation)):
            if value < 1 or (value > 1 and not _has_tensorflow()):
                raise ValueError(
                    f"{name} must be 1, or more with the TensorFlow backend, received "
                    f"{name}={value} with {keras.backend.backend()}. Leave it out."
                )
        if parts > 1 and accumulation > 1:
            raise ValueError(
                "A step has parts at the same time or one after another, received "
                f"parts={parts} and accumulation={accumulation}. Leave one of them out."
            )
        if clip_norm is not None and not (clip_norm > 0 and _has_tensorflow()):
            raise ValueError(
                "clip_norm must be positive and needs the TensorFlow backend, received "
                f"{clip_norm} with {keras.backend.backend()}. Leave it out; on other backends, "
                "give the optimizer global_clipnorm."
            )
        if not 0 <= distillation <= 1:
            raise ValueError(f"distillation must be from 0 to 1, received {distillation}.")
        _check_vocabularies(config, teachers)
        self.parts = parts
        self.accumulation = accumulation
        self.clip_norm = clip_norm
        self.compiles_gradients = False
        if _has_tensorflow():
            self.gradient_norm = keras.metrics.Mean("gradient_norm")
        self.distillation = distillation if teachers else 0.0

        def predict(inputs):
            predictions = [ops.softmax(teacher(inputs, training=False)) for teacher in teachers]
            return ops.stop_gradient(sum(predictions) / len(predictions))

        self._teach = predict  # Keras doesn't track layers inside a function.

    def compile(self, *args: Any, **kwargs: Any) -> None:
        is_divided = self.parts > 1 or self.accumulation > 1
        if self.parts > 1 and kwargs.get("jit_compile", "auto") == "auto":
            kwargs["jit_compile"] = False  # Parts are for CPUs, where XLA makes them slower.
        super().compile(*args, **kwargs)
        # XLA of TensorFlow compiles for one device, so without the sums over replicas.
        self.compiles_gradients = (
            _has_tensorflow()
            and self.jit_compile
            and self.distribute_strategy.num_replicas_in_sync > 1
        )
        if self.compiles_gradients:
            self.jit_compile = False
            if not has_gpu():
                message = (
                    "Steps that XLA compiles for several CPU devices can wait for each other "
                    "without end where TensorFlow has few threads. Set TF_NUM_INTRAOP_THREADS=16."
                )
                warnings.warn(message, stacklevel=2)
        is_needed = is_divided or self.distillation or self.compiles_gradients
        # A subclass may have a value that is not a mean over tokens.
        is_mean = type(self.loss) is LabelSmoothedCrossEntropy and self.loss.reduction == "mean"
        if is_needed and not is_mean:
            raise ValueError(
                "Steps that divide a batch, steps of several replicas that XLA compiles, and "
                "distillation need a loss whose mean over the batch follows from its parts, "
                f"LabelSmoothedCrossEntropy; received {self.loss!r}. Use that loss, or parts=1, "
                "accumulation=1, jit_compile=False and no teachers."
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
        return token_mean(self.token_losses(x, labels, y_pred), labels, sample_weight)

    def token_losses(self, inputs: Any, labels: Any, logits: Any) -> Any:
        """Return the training loss of each token.

        Args:
            inputs: The inputs of the model.
            labels: int [B, T].
            logits: float [B, T, V], its outputs.

        Returns:
            float32 [B, T], also where the label is padding.
        """
        if not self.distillation:
            return self.loss.call(labels, logits)
        return distilled_cross_entropy(
            labels, logits, self._teach(inputs), self.loss.label_smoothing, self.distillation
        )

    def _is_compiled_by_xla(self):
        return super()._is_compiled_by_xla() or self.compiles_gradients

    def _plain_steps(self):
        make_step, compiles_gradients = super()._plain_steps(), self.compiles_gradients

        def plain_step(iterator):
            self.compiles_gradients = False  # It may be traced now.
            try:
                return make_step(iterator)
            finally:
                self.compiles_gradients = compiles_gradients

        return plain_step

    def train_step(self, *args: Any) -> Any:  # On JAX, a state comes before the data.
        if not _has_tensorflow():
            return super().train_step(*args)
        if self.accumulation > 1:
            return accumulated_step(self, *args)
        return step_in_parts(self, *args) if self.parts > 1 else whole_step(self, *args)

    def get_metrics_result(self) -> dict[str, Any]:
        """Return the metrics by name; the gradient norm only after a step of training."""
        results = super().get_metrics_result()
        if _has_tensorflow():
            import tensorflow as tf

            # In the graph of a step, what trains adds the norm of that step.
            if not (tf.executing_eagerly() and float(results["gradient_norm"])):
                del results["gradient_norm"]
        return results

    def save(self, filepath: Any, overwrite: bool = True, **kwargs: Any) -> None:
        """Save a plain `Transformer` with these weights, compiled like this model.

        Args:
            filepath: A path that ends in `.keras`.
            overwrite: Whether to replace an existing file.
            **kwargs: Other arguments of `keras.Model.save`.
        """
        model = self._copy(Transformer)
        if self.compiled:
            # Not what suits the devices of this machine.
            model.compile_from_config({**self.get_compile_config(), "jit_compile": "auto"})
            model.optimizer = self.optimizer
        model.save(filepath, overwrite=overwrite, **kwargs)


def _has_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _check_vocabularies(config: TransformerConfig, teachers: Sequence[Transformer]) -> None:
    own = config.vocab_size, config.target_size
    theirs = [(teacher.config.vocab_size, teacher.config.target_size) for teacher in teachers]
    if any(sizes != own for sizes in theirs):
        raise ValueError(
            f"Teachers must have the vocabularies of the model, of {own[0]} and {own[1]} tokens; "
            f"received teachers with {theirs}. Give models trained with the same vocabularies."
        )
