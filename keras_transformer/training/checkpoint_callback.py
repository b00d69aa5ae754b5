"""The callback that saves the state of a run, after epochs and after steps."""

import time
from typing import Any

import keras
import numpy as np

from keras_transformer.training.averaging import MovingAverage
from keras_transformer.training.checkpoint_directory import Checkpoints
from keras_transformer.training.checkpoints import not_finite
from keras_transformer.training.epoch_progress import progress_of
from keras_transformer.training.epoch_state import EpochState


class SaveCheckpoints(keras.callbacks.Callback):
    """Save the state after each epoch, and after steps or minutes within an epoch.

    The last step of an epoch has no checkpoint but that of the epoch, after its validation.

    Args:
        checkpoints: Those of the run.
        state: The epoch in progress.
        steps: Number of steps of an epoch between checkpoints; by default, they don't count.
        minutes: Time between checkpoints; by default, it doesn't count.
        average: The moving average to save with the weights, if there is one.
        selecting: The entry of the logs that selects the best epoch.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        state: EpochState,
        steps: int | None = None,
        minutes: float | None = None,
        average: MovingAverage | None = None,
        selecting: str = "val_bleu",
    ):
        super().__init__()
        self.checkpoints = checkpoints
        self.state = state
        self.steps = steps
        self.minutes = minutes
        self.average = average
        self.selecting = selecting
        self._saved_at = time.monotonic()

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self.state.step < self.params["steps"] and self._is_due():
            self.save_step()

    def _is_due(self) -> bool:
        if self.steps and self.state.step % self.steps == 0:
            return True
        return self.minutes is not None and time.monotonic() - self._saved_at >= 60 * self.minutes

    def save_step(self) -> None:
        """Save the state within an epoch, unless it is saved, or not finite."""
        state = self.state
        is_saved = self.checkpoints.position() == (state.epoch, state.step)
        # `FiniteLoss` ends the run at the next step, whose loss is not finite either.
        if not is_saved and not_finite(self.model) is None:
            progress = progress_of(self.model, state.seconds())
            arrays = {**progress, **state.text(), **self._averages()}
            self.checkpoints.save_step(self.model, state.epoch + 1, state.step, arrays)
        self._saved_at = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.checkpoints.save_epoch(
            self.model,
            epoch + 1,
            (logs or {})[self.selecting],
            self._averages(),
            metric=self.selecting.removeprefix("val_"),
        )
        self._saved_at = time.monotonic()
        if self.checkpoints.out_of_patience():
            self.model.stop_training = True

    def _averages(self) -> dict[str, np.ndarray]:
        return self.average.arrays() if self.average else {}
