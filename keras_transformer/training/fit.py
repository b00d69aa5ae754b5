"""Train the epochs of a run that are left, from where it is."""

import contextlib
import logging

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.data import TokenBatches
from keras_transformer.training.averaging import MovingAverage
from keras_transformer.training.check import Checked
from keras_transformer.training.checkpoints import Checkpoints
from keras_transformer.training.csv_tables import EpochTable, MetricsTable
from keras_transformer.training.machines import Machines, StopTogether
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.progress import Progress, Readings
from keras_transformer.training.recipe import most_steps
from keras_transformer.training.resume import EpochState, RunLimit, SaveCheckpoints
from keras_transformer.training.stopping import FiniteLoss, SafeStop
from keras_transformer.training.tensorboard import Summaries
from keras_transformer.training.validation import NAMES, SELECTING, Validation
from keras_transformer.utils.checkpoint_files import Position

log = logging.getLogger(__name__)


def fit_epochs(
    config: ExperimentConfig,
    checked: Checked,
    text: PreparedText,
    model: TrainingTransformer,
    validation: Validation | None,
) -> None:
    """Train for the epochs that are left.

    A machine that does not validate writes nothing.

    Args:
        config, checked, text: The run.
        model, validation: What `build_model` returned.

    Raises:
        FloatingPointError: If the loss or a weight becomes NaN or infinite.
        ValueError: If the machines differ in their text.
    """
    training, checkpoints, machines = config.training, checked.checkpoints, checked.machines
    batches, position = text.batches, checkpoints.position()
    _log_start(config, checked, text, model, validation)
    machines.check_same_text(batches, position)
    state = EpochState(batches, checkpoints)
    limit = RunLimit(training, checkpoints, position.epochs * len(batches) + position.steps)
    averages = [MovingAverage(training.ema_decay, checkpoints)] if training.average == "ema" else []
    save = SaveCheckpoints(
        state,
        [limit, *averages],
        SELECTING[config.data.task],
        steps=training.checkpoint_steps,
        minutes=training.checkpoint_minutes,
    )
    stop = SafeStop(state, save.save_step if validation else lambda: None)
    readings = Readings(training.epochs, state, limit)
    progress = Progress(readings, training.label_smoothing)
    callbacks: list[keras.callbacks.Callback] = [
        state,
        FiniteLoss(state, text.tokenizers[0]),
        limit,
    ]
    if validation:
        directory = checked.directory
        callbacks += [
            *averages,
            readings,
            validation,
            keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: stop.begin_saving()),
            save,  # An epoch is complete when it has its file, and is reported then.
            EpochTable(directory / "epochs.csv", checkpoints),
            progress,
            MetricsTable(directory / "metrics.csv", readings),
            Summaries(directory / "tensorboard", readings, validation, training.label_smoothing),
        ]
    callbacks += [stop, StopTogether(machines)]  # Other machines wait for the files.
    with contextlib.closing(progress), stop.installed():
        is_finished = checkpoints.out_of_patience() or limit.is_reached()
        while position.epochs < training.epochs and not is_finished:
            _fit_from(position, training.epochs, model, batches, machines, callbacks)
            # All machines know the same, even if files of the chief reach them later.
            is_finished, position = model.stop_training, Position(state.epoch + 1, 0)
    _log_end(checkpoints, limit)


def _log_end(checkpoints: Checkpoints, limit: RunLimit) -> None:
    if checkpoints.out_of_patience():
        log.info("no better epoch in the last %d: training is finished", checkpoints.patience)
    elif limit.is_reached():
        log.info("training.max_steps or training.max_minutes is reached: training is finished")


def _fit_from(
    position: Position,
    epochs: int,
    model: TrainingTransformer,
    batches: TokenBatches,
    machines: Machines,
    callbacks: list[keras.callbacks.Callback],
) -> None:
    """Train to the end of an epoch in progress, or, between two, to the last epoch."""
    batches.epoch, batches.step = done, steps = position
    if steps == len(batches):
        _end_epoch(model, done, callbacks)
        return
    # Keras begins every epoch at its first step, so the rest of one is a separate fit.
    model.fit(
        machines.own_rows(batches.dataset()),
        initial_epoch=done,
        epochs=done + 1 if steps else epochs,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
    )


def _end_epoch(model: keras.Model, epoch: int, callbacks: list[keras.callbacks.Callback]) -> None:
    """Validate and save an epoch that has made all its steps, as the end of `fit` would have."""
    model.stop_training = False  # `fit` sets it too.
    called = keras.callbacks.CallbackList(callbacks, model=model)
    called.on_train_begin()
    called.on_epoch_begin(epoch)
    logs = {name: float(value) for name, value in model.get_metrics_result().items()}
    called.on_epoch_end(epoch, logs)
    called.on_train_end()


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
    name = NAMES[selecting.removeprefix("val_")]
    log.info("%s of an epoch is the validation %s (greedy)", selecting, name)
    if validation and (count := len(validation.pairs)) < len(text.validation_pairs):
        whole = f"{len(text.validation_pairs):,}"
        message = "epochs are validated on %s of %s pairs; ± is the 95%% interval for all of them"
        log.info(message, f"{count:,}", whole)
    if any(position := checked.checkpoints.position()):
        log.info("resuming after %s of %d", position, training.epochs)
    if checked.start and validation:
        scores = validation.measure()
        message = "before training: val_nll %.4f, validation %s (greedy) %.2f"
        log.info(message, scores["val_nll"], name, scores[selecting])
