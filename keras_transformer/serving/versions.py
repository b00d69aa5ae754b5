"""The versions of a model: found, loaded, switched and dropped while the server runs."""

import asyncio
import contextlib
import dataclasses
import gc
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tensorflow as tf

from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.model import Model
from keras_transformer.serving.queues import Batcher
from keras_transformer.serving.settings import Settings
from keras_transformer.utils.memory import trim_memory
from keras_transformer.utils.versions import numbered_versions

log = logging.getLogger(__name__)

_FREE_SECONDS = 2
_MOST_ENDED = 10
"""Versions that have ended and are still reported."""


def _free() -> None:
    """Free the memory of versions that nothing refers to."""
    gc.collect()  # A graph refers to itself.
    trim_memory()


@dataclasses.dataclass(eq=False)
class Served:
    """A version that answers requests."""

    number: int
    path: Path
    model: Model
    free: asyncio.Semaphore
    batchers: dict[str, Batcher] = dataclasses.field(default_factory=dict)
    users: int = 0


@dataclasses.dataclass
class State:
    """The state of a version, as `GetModelStatus` reports it."""

    state: str
    """START, LOADING, AVAILABLE, UNLOADING or END."""
    code: Code = Code.OK
    message: str = ""


class Versions:
    """The highest version below a directory, which replaces the one before once it is warmed up.

    Args:
        settings: The directory, the model's name, and how often to look.
        threads: Batches that a version runs at a time.
        loaded: Called with each version that has been loaded.
    """

    def __init__(self, settings: Settings, threads: int, loaded: Callable[[Model], None]):
        self._settings, self._threads, self._loaded = settings, threads, loaded
        self._current: Served | None = None
        self._states: dict[int, State] = {}
        # Not asyncio's own executor, for whose threads the end of the event loop waits.
        self._loader = ThreadPoolExecutor(1, "load")
        self._failed: tuple[int, float] | None = None  # A version, and when to try it again.

    def states(self, name: str, number: int | None = None) -> dict[int, State]:
        """Return the state of each version by number, the highest first.

        Args:
            name: The model's name.
            number: Return the state of this version only.

        Raises:
            ServingError: If there is no such model or version.
        """
        if name != self._settings.name or not self._states:
            raise ServingError(Code.NOT_FOUND, f"Could not find any versions of model {name}")
        if number is None:
            return dict(sorted(self._states.items(), reverse=True))
        if number not in self._states:
            raise ServingError(Code.NOT_FOUND, f"Could not find version {number} of model {name}")
        return {number: self._states[number]}

    @contextlib.contextmanager
    def use(self, name: str, number: int | None = None) -> Iterator[Served]:
        """Keep a version loaded in the block.

        Args:
            name: The model's name.
            number: The version; None for the highest.

        Raises:
            ServingError: If it is not served.
        """
        served = self._current
        if served is None or name != self._settings.name or number not in (None, served.number):
            which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise ServingError(Code.NOT_FOUND, f"Servable not found for request: {which}")
        served.users += 1
        try:
            yield served
        finally:
            served.users -= 1
            current = self._current.number if self._current else None
            if served.number != current and not served.users:
                self._set(served.number, State("END"))
                # The request that ends still refers to it.
                asyncio.get_running_loop().call_later(_FREE_SECONDS, _free)

    async def load_first(self) -> None:
        """Load the highest version.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it does not load.
        """
        versions = numbered_versions(self._settings.base)
        if not versions:
            raise FileNotFoundError(f"There is no version of a model in {self._settings.base}.")
        number = max(versions)
        try:
            served = await self._load(number, versions[number])
        except (ServingError, tf.errors.OpError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{versions[number]} does not load: {reason}") from error
        self._switch(served)

    async def watch(self) -> None:
        """Follow the directory until the task is cancelled."""
        while True:
            await asyncio.sleep(self._settings.poll_seconds)
            try:
                await self.look()
            except OSError as error:  # Such as a network share that is away for a while.
                log.warning("cannot read %s: %s", self._settings.base, error)

    async def look(self) -> None:
        """Switch to the highest version, if it is not the one that is served."""
        base = self._settings.base
        # `numbered_versions` takes a missing directory for an empty one.
        await asyncio.to_thread(base.stat)
        versions = await asyncio.to_thread(numbered_versions, base)
        if not versions:
            if self._current is not None:
                log.warning("there is no version left in %s", base)
                self._switch(None)
            return
        number = max(versions)
        if self._current is not None and number == self._current.number:
            return
        if self._failed and number == self._failed[0] and time.monotonic() < self._failed[1]:
            return
        try:
            served = await self._load(number, versions[number])
        except Exception as error:
            message = " ".join(str(error).split())
            log.error("version %d of %s does not load: %s", number, base, message)
            self._failed = number, time.monotonic() + self._settings.retry_seconds
            code = error.code if isinstance(error, ServingError) else Code.UNKNOWN
            self._set(number, State("END", code, message))
        else:
            self._switch(served)

    async def _load(self, number: int, path: Path) -> Served:
        self._set(number, State("LOADING"))
        log.info("loading version %d and running its warm-up requests", number)
        started = time.monotonic()
        model = await asyncio.get_running_loop().run_in_executor(self._loader, Model, path)
        log.info("version %d is ready after %.1f s", number, time.monotonic() - started)
        self._loaded(model)
        return Served(number, path, model, asyncio.Semaphore(self._threads))

    def _switch(self, served: Served | None) -> None:
        before, self._current = self._current, served
        if served is not None:
            self._set(served.number, State("AVAILABLE"))
        if before is not None:
            # Requests that use it hold it; the last one ends it.
            self._set(before.number, State("UNLOADING" if before.users else "END"))
            del before
            _free()

    def _set(self, number: int, state: State) -> None:
        self._states[number] = state
        ended = sorted(number for number, state in self._states.items() if state.state == "END")
        for old in ended[:-_MOST_ENDED]:
            del self._states[old]
