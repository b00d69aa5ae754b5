"""What stops training before its last epoch: a loss that is not finite, and signals."""

import contextlib
import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import keras

from keras_transformer.data import TokenBatches
from keras_transformer.text import Tokenizer
from keras_transformer.training.checkpoint_files import not_finite

log = logging.getLogger(__name__)

_SHOWN = 3
"""Number of sentences of a batch that an error quotes."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class FiniteLoss(keras.callbacks.Callback):
    """Stop training when the loss or the weights are NaN or infinite.

    Put it before callbacks that validate or save: they never see such weights.

    Args:
        batches: The training text.
        tokenizer: The tokenizer of the source, to quote sentences.

    Raises:
        FloatingPointError: From `fit`, with the epoch, the step and sentences of the batch.
    """

    def __init__(self, batches: TokenBatches, tokenizer: Tokenizer):
        super().__init__()
        self.batches = batches
        self.tokenizer = tokenizer
        self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        # Keras has made the logs Python numbers for its own callbacks, so this waits for nothing.
        # The value is the mean of the epoch, which the first bad batch makes NaN or infinite.
        loss = (logs or {}).get("loss", 0.0)
        if not math.isfinite(loss):
            raise self._error(f"The loss must be finite, received {loss}", batch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if name := not_finite(self.model):
            problem = f"Weights must be finite, received NaN or infinity in {name}"
            raise self._error(problem, len(self.batches) - 1)

    def _error(self, problem: str, step: int) -> FloatingPointError:
        return FloatingPointError(
            f"{problem}, in epoch {self.epoch + 1} after step {step + 1} of {len(self.batches)}, "
            f"whose batch has {self._sentences(step)}. No checkpoint has this step. Check these "
            "sentences, or train in another directory with a lower training.learning_rate_scale or "
            "more training.warmup_steps."
        )

    def _sentences(self, step: int) -> str:
        """Return the first source sentences of a batch of this epoch, and how many there are."""
        self.batches.epoch, self.batches.step = self.epoch, 0  # The pipeline has moved on.
        inputs, _ = next(iter(self.batches.dataset().skip(step)))
        texts = [text.decode() for text in self.tokenizer.detokenize(inputs["source"]).numpy()]
        shown = [repr(text if len(text) <= 60 else f"{text[:60]}...") for text in texts[:_SHOWN]]
        rest = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        return f"the sentences {', '.join(shown)}{rest}"


class SafeStop(keras.callbacks.Callback):
    """Hold back Ctrl-C, SIGTERM and SIGHUP while the steps of an epoch run, to save the last one.

    After the step, the handler of the signal does what it would have done at once, such as to raise
    KeyboardInterrupt. A second signal is not held back, and neither is one during validation.
    Signals without a handler in Python stay as they are.

    Args:
        save: Saves the state after a step. It isn't called after the last step of an epoch.
    """

    def __init__(self, save: Callable[[], None]):
        super().__init__()
        self.save = save
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._is_in_steps = False
        self._held: int | None = None

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
        finally:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        if not self._is_in_steps:
            self._handlers[number](number, frame)
            return
        self._held = number
        log.warning(
            "%s: the run ends after this step, and saves it; a second signal ends it at once",
            signal.Signals(number).name,
        )

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._is_in_steps = True

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        is_last = batch + 1 == self.params["steps"]
        if is_last:
            self._is_in_steps = False
        if self._held is not None:
            if not is_last:
                self.save()
            held, self._held = self._held, None
            self._handlers[held](held, None)
