"""The epochs of a run, from where it is to its last one."""

import contextlib
import logging
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig
from keras_transformer.training.averaging import MovingAverage
from keras_transformer.training.build import Built
from keras_transformer.training.check import Checked
from keras_transformer.training.checkpoints import Position
from keras_transformer.training.csv_tables import EpochTable, MetricsTable
from keras_transformer.training.machines import StopTogether
from keras_transformer.training.prepare import PreparedText
from keras_transformer.training.progress import Progress, Readings
from keras_transformer.training.resume import EpochState, SaveCheckpoints
from keras_transformer.training.stopping import FiniteLoss, SafeStop
from keras_transformer.training.tensorboard import Summaries
from keras_transformer.training.validation import NAMES, SELECTING

log = logging.getLogger(__name__)


def fit_epochs(
    config: ExperimentConfig, checked: Checked, text: PreparedText, built: Built
) -> None:
    """Train for the epochs that are left, if any.

    A machine that does not validate writes nothing.

    Raises:
        FloatingPointError: If the loss or a weight becomes NaN or infinite.
        ValueError: If the machines differ in their text.
    """
    training, checkpoints, machines = config.training, checked.checkpoints, checked.machines
    model, validation, batches = built.model, built.validation, text.batches
    _log_start(config, checked, text, built)
    machines.check_same_text(batches, checkpoints.position())
    state = EpochState(batches, checkpoints)
    average = MovingAverage(training.ema_decay, checkpoints) if training.average == "ema" else None
    save = SaveCheckpoints(
        checkpoints,
        state,
        training.checkpoint_steps,
        training.checkpoint_minutes,
        average,
        SELECTING[config.data.task],
    )
    stop = SafeStop(save.save_step if validation else lambda: None)
    readings = Readings(training.epochs, len(batches), batches.tokens / len(batches))
    callbacks: list[keras.callbacks.Callback] = [state, FiniteLoss(batches, text.tokenizers[0])]
    with contextlib.ExitStack() as stack:
        if validation:
            smoothing = training.label_smoothing
            progress = stack.enter_context(contextlib.closing(Progress(readings, smoothing)))
            callbacks += [
                *([average] if average else []),
                readings,
                validation,
                progress,
                EpochTable(checked.directory / "epochs.csv"),
                MetricsTable(checked.directory / "metrics.csv", readings),
                Summaries(checked.directory / "tensorboard", readings, validation, smoothing),
                save,  # An epoch is complete when it has its file.
            ]
        callbacks += [stop, StopTogether(machines)]  # Other machines wait for the files.
        stack.enter_context(stop.installed())
        is_finished, position = checkpoints.out_of_patience(), checkpoints.position()
        while position.epochs < training.epochs and not is_finished:
            # Keras begins every epoch at its first step, so the rest of one is a separate fit.
            batches.epoch, batches.step = done, steps = position
            readings.done = steps
            model.fit(
                machines.own_rows(batches.dataset()),
                initial_epoch=done,
                epochs=done + 1 if steps else training.epochs,
                shuffle=False,
                callbacks=_LaterSteps(
                    callbacks, steps, model=model, epochs=training.epochs, steps=len(batches)
                ),
            )
            # All machines know the same, even if files of the chief reach them later.
            is_finished, position = model.stop_training, Position(state.epoch + 1, 0)
    if is_finished:
        log.info("no better epoch in the last %d: training is finished", checkpoints.patience)


def _log_start(
    config: ExperimentConfig, checked: Checked, text: PreparedText, built: Built
) -> None:
    training, steps = config.training, len(text.batches)
    parameters, replicas = f"{built.model.count_params():,}", checked.machines.replicas
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU device"
    log.info("%s parameters, %d batches per epoch, %d %s", parameters, steps, replicas, kind)
    is_compiled = built.model.jit_compile or built.model.compiles_gradients
    log.info(
        "precision: %s, shapes of batches: %s, XLA: %s (for the devices of this machine, unless "
        "training.precision, data.static_shapes and training.jit_compile say otherwise)",
        training.precision,
        config.data.static_shapes or "any",
        "on" if is_compiled else "off",
    )
    counts = training.epochs * steps, training.warmup_steps, training.batch_tokens
    message = "steps in all: %s, warm-up: %s, tokens per batch: up to %s"
    log.info(message, *(f"{count:,}" for count in counts))
    selecting = SELECTING[config.data.task]
    log.info("%s of an epoch is the validation %s (greedy)", selecting, NAMES[selecting])
    if any(position := checked.checkpoints.position()):
        log.info("resuming after %s of %d", position, training.epochs)
    if checked.start and built.validation:
        scores = built.validation.measure()
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
