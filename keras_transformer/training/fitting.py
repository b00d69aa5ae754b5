"""The epochs of a run, from where it is to its last one."""

import contextlib
import logging
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import ExperimentConfig, TrainingConfig
from keras_transformer.data import TokenBatches
from keras_transformer.text import Tokenizer
from keras_transformer.training.averaging import MovingAverage
from keras_transformer.training.checkpoint_callback import SaveCheckpoints
from keras_transformer.training.checkpoint_directory import Checkpoints, Position
from keras_transformer.training.epoch_state import EpochState
from keras_transformer.training.guards import FiniteLoss
from keras_transformer.training.logs import Logs
from keras_transformer.training.machines import ClusterStrategy, StopTogether, own_rows
from keras_transformer.training.progress import Progress
from keras_transformer.training.readings import Readings
from keras_transformer.training.safe_stop import SafeStop
from keras_transformer.training.scores import SELECTING
from keras_transformer.training.summaries import Summaries
from keras_transformer.training.tables import EpochTable, MetricsTable
from keras_transformer.training.validation import Validation

log = logging.getLogger(__name__)


def fit_epochs(
    config: ExperimentConfig,
    directory: Path,
    model: keras.Model,
    batches: TokenBatches,
    tokenizer: Tokenizer,
    validation: Validation | None,
    checkpoints: Checkpoints,
    strategy: tf.distribute.Strategy,
) -> None:
    """Train for the epochs that are left, if any.

    Args:
        config: The experiment.
        directory: The run directory.
        model: The compiled model, with the state of the newest checkpoint.
        batches: The training text.
        tokenizer: Of the source.
        validation: What happens after each epoch. Without one, as on a machine that is not the
            chief, nothing is written.
        checkpoints: Those of the run.
        strategy: The strategy of the model.

    Raises:
        FloatingPointError: If the loss or a weight becomes NaN or infinite.
    """
    training, state = config.training, EpochState(batches, checkpoints)
    average = _moving_average(training, checkpoints)
    save = SaveCheckpoints(
        checkpoints,
        state,
        training.checkpoint_steps,
        training.checkpoint_minutes,
        average,
        SELECTING[config.data.task],
    )
    stop = SafeStop(save.save_step if validation else lambda: None)
    callbacks: list[keras.callbacks.Callback] = [state, FiniteLoss(batches, tokenizer)]
    with contextlib.ExitStack() as stack:
        if validation:
            readings = Readings(training.epochs, len(batches), batches.tokens / len(batches))
            smoothing = training.label_smoothing
            progress = stack.enter_context(contextlib.closing(Progress(readings, smoothing)))
            callbacks += [
                *([average] if average else []),
                readings,
                validation,
                progress,
                EpochTable(directory / "epochs.csv"),
                MetricsTable(directory / "metrics.csv", readings),
                Summaries(directory / "tensorboard", readings, validation, smoothing),
                save,  # An epoch is complete when it has its file.
            ]
        callbacks.append(stop)
        if isinstance(strategy, ClusterStrategy):
            callbacks.append(StopTogether(strategy))  # The others wait for the files.
        stack.enter_context(stop.installed())
        is_finished, position = checkpoints.out_of_patience(), checkpoints.position()
        while position.epochs < training.epochs and not is_finished:
            # Keras begins every epoch at its first step, so the rest of one is a fit of its own.
            batches.epoch, batches.step = done, steps = position
            if validation:
                readings.done = steps
            dataset = batches.dataset()
            if isinstance(strategy, ClusterStrategy):
                dataset = own_rows(strategy, dataset)
            model.fit(
                dataset,
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
            message = "no better epoch in the last %d: training is finished"
            log.info(message, checkpoints.patience)


def _moving_average(training: TrainingConfig, checkpoints: Checkpoints) -> MovingAverage | None:
    return MovingAverage(training.ema_decay, checkpoints) if training.average == "ema" else None


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

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        super().on_train_batch_begin(self.done + batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        super().on_train_batch_end(self.done + batch, logs)
