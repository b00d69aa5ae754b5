"""Signals that end a run, held back until a step has ended and is saved."""

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import keras

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
