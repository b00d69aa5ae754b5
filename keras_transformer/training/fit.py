"""The model of a run, and its epochs from where it is to its last one."""

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.training.averaging import MovingAverage
from keras_transformer.training.check import Checked
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.csv_tables import EpochTable, MetricsTable
from keras_transformer.training.machines import Machines, StopTogether
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.progress import Progress, Readings
from keras_transformer.training.recipe import most_steps, run_recipe
from keras_transformer.training.resume import EpochState, SaveCheckpoints
from keras_transformer.training.run_directory import claim
from keras_transformer.training.stopping import FiniteLoss, RunLimit, SafeStop
from keras_transformer.training.tensorboard import Summaries
from keras_transformer.training.validation import NAMES, SELECTING, Validation, greedy_validation
from keras_transformer.translation.saved import SavedTranslator
from keras_transformer.utils.checkpoint_files import Position
from keras_transformer.utils.devices import has_gpu

log = logging.getLogger(__name__)


def fit_epochs(config: ExperimentConfig, checked: Checked, text: PreparedText) -> None:
    """Build the model of a run, claim its directory, and train for the epochs that are left.

    A machine that does not validate writes nothing.

    Raises:
        FloatingPointError: If the loss or a weight becomes NaN or infinite.
        ValueError: If the model to start from is int8 or damaged, a checkpoint is damaged, or the
            machines differ in their text.
    """
    training, checkpoints, machines = config.training, checked.checkpoints, checked.machines
    model, validation = _build_model(config, checked, text)
    batches = text.batches
    _log_start(config, checked, text, model, validation)
    position = checkpoints.position()
    machines.check_same_text(batches, position)
    state = EpochState(batches, checkpoints)
    limit = RunLimit(training, checkpoints, position.epochs * len(batches) + position.steps)
    average = MovingAverage(training.ema_decay, checkpoints) if training.average == "ema" else None
    save = SaveCheckpoints(
        checkpoints,
        state,
        training.checkpoint_steps,
        training.checkpoint_minutes,
        average,
        limit,
        SELECTING[config.data.task],
    )
    stop = SafeStop(save.save_step if validation else lambda: None)
    readings = Readings(training.epochs, len(batches), batches.tokens / len(batches), limit)
    finite = FiniteLoss(batches, text.tokenizers[0])
    callbacks: list[keras.callbacks.Callback] = [state, finite, limit]
    with contextlib.ExitStack() as stack:
        if validation:
            smoothing = training.label_smoothing
            progress = stack.enter_context(contextlib.closing(Progress(readings, smoothing)))
            callbacks += [
                *([average] if average else []),
                readings,
                validation,
                keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: stop.begin_saving()),
                save,  # An epoch is complete when it has its file, and is reported then.
                EpochTable(checked.directory / "epochs.csv", checkpoints),
                progress,
                MetricsTable(checked.directory / "metrics.csv", readings),
                Summaries(checked.directory / "tensorboard", readings, validation, smoothing),
            ]
        callbacks += [stop, StopTogether(machines)]  # Other machines wait for the files.
        stack.enter_context(stop.installed())
        is_finished = checkpoints.out_of_patience() or limit.is_reached()
        while position.epochs < training.epochs and not is_finished:
            # Keras begins every epoch at its first step, so the rest of one is a separate fit.
            batches.epoch, batches.step = done, steps = position
            readings.done = steps
            counted = _LaterSteps(
                callbacks, steps, model=model, epochs=training.epochs, steps=len(batches)
            )
            if steps == len(batches):
                _end_epoch(model, done, counted)
            else:
                model.fit(
                    machines.own_rows(batches.dataset()),
                    initial_epoch=done,
                    epochs=done + 1 if steps else training.epochs,
                    shuffle=False,
                    callbacks=counted,
                )
            # All machines know the same, even if files of the chief reach them later.
            is_finished, position = model.stop_training, Position(state.epoch + 1, 0)
    _log_end(checkpoints, limit)


def _build_model(
    config: ExperimentConfig, checked: Checked, text: PreparedText
) -> tuple[TrainingTransformer, Validation | None]:
    """Return a run's compiled model, with the weights to go on from, and what validates it, if any.

    The directory is claimed before these weights are loaded.
    """
    machines = checked.machines
    model = compiled_model(config, machines, checked.teachers)
    freeze_output_bias(model, text.tokenizers[0])
    validation = None
    if machines.is_chief:
        share = config.training.batch_tokens // machines.replicas
        pairs = text.validation_pairs
        validation = greedy_validation(config, model, text.tokenizers, pairs, share)
    first_weights = _first_weights(checked.start) if checked.start else None
    # Only encoded text is written before this, so that a mistake leaves the directory free.
    if machines.cluster is None:
        claim(checked.directory, config, text.tokenizers, text.inputs, checked.start)
    with machines.strategy.scope():
        checked.checkpoints.restore(model)
        if first_weights:
            model.set_weights(first_weights)
    return model, validation


def freeze_output_bias(model: Transformer, source: Tokenizer) -> None:
    """Freeze the bias on the logits of a model of many languages, as Hugging Face does.

    M2M100 and NLLB have none, and could not be written back with one.

    Args:
        model: The model of a run, or one that averages of its weights are loaded into.
        source: Its tokenizer.
    """
    if source.languages and model.output_bias is not None:
        model.output_bias.trainable = False


def compiled_model(
    config: ExperimentConfig, machines: Machines, teachers: Sequence[Transformer] = ()
) -> TrainingTransformer:
    """Return a new model with random weights, compiled with the optimizer and the loss of its run.

    Args:
        config: The experiment.
        machines: The devices of the run.
        teachers: Models for distillation.
    """
    training, compiles = config.training, config.training.jit_compile
    is_single, is_whole = machines.replicas == 1, training.accumulation == 1
    if compiles is None:  # For batches of many shapes, XLA would compile as many steps.
        compiles = has_gpu() and is_single and config.data.static_shapes is not None
    keras.utils.set_random_seed(training.seed)  # The teachers have drawn random numbers.
    with machines.strategy.scope():
        model = TrainingTransformer(
            config.model,
            parts=machines.parts if is_single and is_whole and not compiles else 1,
            accumulation=training.accumulation,
            clip_norm=training.clip_norm,
            teachers=teachers,
            distillation=training.distillation,
            dtype=training.precision,
        )
        model.compile(**{**run_recipe(model, training), "jit_compile": compiles})
    return model


def _first_weights(start: SavedTranslator) -> list[np.ndarray]:
    """Read the weights of the model that a run starts from."""
    model = start.read_model()
    if model.quantization_mode is not None:
        raise ValueError(
            f"A run needs a model that can be trained, received {start.path.parent}, which is "
            f"{model.quantization_mode}. Start from the model that was quantized."
        )
    return model.without_lora().get_weights()


def _log_end(checkpoints: Checkpoints, limit: RunLimit) -> None:
    if checkpoints.out_of_patience():
        log.info("no better epoch in the last %d: training is finished", checkpoints.patience)
    elif limit.is_reached():
        log.info("training.max_steps or training.max_minutes is reached: training is finished")


def _end_epoch(model: keras.Model, epoch: int, callbacks: keras.callbacks.CallbackList) -> None:
    """Validate and save an epoch that has made all its steps, as the end of `fit` would have."""
    model.stop_training = False  # `fit` sets it too.
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(epoch)
    logs = {name: float(value) for name, value in model.get_metrics_result().items()}
    callbacks.on_epoch_end(epoch, logs)
    callbacks.on_train_end()


def _log_start(
    config: ExperimentConfig,
    checked: Checked,
    text: PreparedText,
    model: TrainingTransformer,
    validation: Validation | None,
) -> None:
    training, steps = config.training, len(text.batches)
    parameters, replicas = f"{model.count_params():,}", checked.machines.replicas
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU device"
    log.info("%s parameters, %d batches per epoch, %d %s", parameters, steps, replicas, kind)
    is_compiled = model.jit_compile or model.compiles_gradients
    log.info(
        "precision: %s, shapes of batches: %s, XLA: %s (chosen for the devices when the run began, "
        "unless training.precision, data.static_shapes and training.jit_compile say otherwise)",
        training.precision,
        config.data.static_shapes or "any",
        "on" if is_compiled else "off",
    )
    in_all = most_steps(training, steps)
    counts = in_all, training.warmup_steps, training.batch_tokens
    message = "steps in all: %s, warm-up: %s, tokens per batch: up to %s"
    log.info(message, *(f"{count:,}" for count in counts))
    selecting = SELECTING[config.data.task]
    log.info("%s of an epoch is the validation %s (greedy)", selecting, NAMES[selecting])
    if validation and (count := len(validation.pairs)) < len(text.validation_pairs):
        whole = f"{len(text.validation_pairs):,}"
        message = "epochs are validated on %s of %s pairs; ± is the 95%% interval for all of them"
        log.info(message, f"{count:,}", whole)
    if any(position := checked.checkpoints.position()):
        log.info("resuming after %s of %d", position, training.epochs)
    if checked.start and validation:
        scores = validation.measure()
        found = scores["val_nll"], NAMES[selecting], scores[selecting]
        log.info("before training: val_nll %.4f, validation %s (greedy) %.2f", *found)


class _LaterSteps(keras.callbacks.CallbackList):
    """Callbacks that count the steps of an epoch from its beginning, also where a fit resumes it.

    Args:
        callbacks: The callbacks.
        done: The number of steps that are done.
        **params: The model, and the numbers of epochs and of steps of an epoch.
    """

    def __init__(self, callbacks: list[keras.callbacks.Callback], done: int, **params: Any):
        super().__init__(callbacks, add_history=True, **params)
        self.done = done

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_begin(self.done + batch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_end(self.done + batch, logs)
