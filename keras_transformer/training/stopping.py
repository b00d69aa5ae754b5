"""What stops training at once: a loss or weights that are not finite, and signals."""

import contextlib
import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Literal

import keras

from keras_transformer.text import Tokenizer
from keras_transformer.training.resume import EpochState
from keras_transformer.utils.checkpoint_files import not_finite

log = logging.getLogger(__name__)

_SHOWN = 3
"""Number of sentences of a batch that an error quotes."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class FiniteLoss(keras.callbacks.Callback):
    """Stop training when the loss or the weights are NaN or infinite.

    Put it before callbacks that validate or save: they never see such weights.

    Raises:
        FloatingPointError: From `fit`, with the epoch, the step and sentences of the batch.
    """

    def __init__(self, state: EpochState, tokenizer: Tokenizer):
        super().__init__()
        self.state = state
        self.tokenizer = tokenizer

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Keras has made the logs Python numbers for its own callbacks, so this waits for nothing.
        # The value is the mean of the epoch, which the first bad batch makes NaN or infinite.
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            step = self.state.step_of(batch)
            raise self._error(f"The loss must be finite, received {loss}", step)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if name := not_finite(self.model):
            problem = f"Weights must be finite, received NaN or infinity in {name}"
            raise self._error(problem, self.state.step)

    def _error(self, problem: str, step: int) -> FloatingPointError:
        epoch, steps = self.state.epoch + 1, len(self.state.batches)
        return FloatingPointError(
            f"{problem}, in epoch {epoch} after step {step} of {steps}, whose batch has "
            f"{self._sentences(step)}. No checkpoint has this step. Check these sentences, or "
            "train in another directory with a lower training.learning_rate_scale or more "
            "training.warmup_steps."
        )

    def _sentences(self, step: int) -> str:
        """Return the first source sentences of the batch of a step, and how many there are."""
        batches = self.state.batches
        batches.epoch, batches.step = self.state.epoch, step - 1  # The pipeline has moved on.
        inputs, _ = next(iter(batches.dataset()))
        texts = [text.decode() for text in self.tokenizer.detokenize(inputs["source"]).numpy()]
        shown = [repr(text if len(text) <= 60 else f"{text[:60]}...") for text in texts[:_SHOWN]]
        rest = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return f"the sentences {', '.join(shown)}{rest}"


class SafeStop(keras.callbacks.Callback):
    """Hold back Ctrl-C, SIGTERM and SIGHUP while a step runs or an epoch is saved.

    After the step, which is saved, or after the epoch, the handler of the signal does what it would
    have done at once, such as to raise KeyboardInterrupt. A signal during validation is not held
    back. It ends `fit`, the last step is saved, and the run resumes with the validation. Neither is
    a second signal held back. Signals without a handler in Python stay as they are. Put it after
    the callbacks that save and report.
    """

    def __init__(self, state: EpochState, save: Callable[[], None]):
        super().__init__()
        self.state = state
        self.save = save
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._doing: Literal["steps", "validation", "saving"] | None = None
        self._held: int | None = None
        self._is_last_step_to_save = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Hold signals back in the block, in which `fit` is called, and then restore the handlers.

        Outside the main thread, which alone receives signals, nothing happens.
        """
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in _SIGNALS}
            self._handlers = {n: handler for n, handler in handlers.items() if callable(handler)}
            for number in self._handlers:
                signal.signal(number, self._hold)
        try:
            yield
        except BaseException:
            # The handler cannot save: it may run while TensorFlow traces a function.
            if self._is_last_step_to_save:
                self.save()
            raise
        finally:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        if self._doing in ("steps", "saving"):
            self._held = number
            what = "after this step, and saves it" if self._doing == "steps" else "with this epoch"
            message = "%s: the run ends %s; a second signal ends it at once"
            log.warning(message, signal.Signals(number).name, what)
            return
        self._is_last_step_to_save = self._doing == "validation"
        try:
            self._handlers[number](number, frame)
        except BaseException:
            # Python ignores what is raised in a destructor. Then the next callback raises it.
            self._held = number
            raise

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._doing = "steps"

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if self._held is not None:
            self.save()
            self._end()
        if self.state.is_over:
            self._doing = "validation"

    def begin_saving(self) -> None:
        """Hold signals back from now on until the end of the epoch."""
        self._doing = "saving"
        self._is_last_step_to_save = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._doing = None
        if self._held is not None:
            self._end()

    def _end(self) -> None:
        """Do what the signal that was held back asks for."""
        held, self._held = self._held, None
        assert held is not None
        self._handlers[held](held, None)
