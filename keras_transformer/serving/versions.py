"""The versions of models: found, loaded, switched and dropped while the server runs."""

import asyncio
import contextlib
import dataclasses
import gc
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.model import Model
from keras_transformer.serving.queues import Batcher, Batching
from keras_transformer.serving.session import has_gpu, usual_batch_size
from keras_transformer.serving.settings import ModelConfig, Settings, parse_model_config
from keras_transformer.utils.errors import one_line
from keras_transformer.utils.memory import trim_memory
from keras_transformer.utils.versions import numbered_versions

log = logging.getLogger(__name__)

Load = Callable[[str, int, Path], Awaitable["Served"]]
"""Loads the version with a number and a path of the model with a name."""
T = TypeVar("T")

_FREE_SECONDS = 2
_TRIM_SECONDS = 10  # Memory that is freed more often is soon needed again.
_MOST_ENDED = 10
"""Versions that have ended and are still reported."""


def _in_thread(function: Callable[..., T], *args: Any) -> Future[T]:
    """Call a function in a thread of its own, which takes what TensorFlow keeps for it along.

    It is none of asyncio's, for which the end of the event loop waits.
    """
    pool = ThreadPoolExecutor(1, "load")
    result = pool.submit(function, *args)
    pool.shutdown(wait=False)
    return result


def _free_later() -> None:
    with contextlib.suppress(RuntimeError):  # The system starts no thread.
        _in_thread(_free)


def _free() -> None:
    """Free the memory of versions that nothing refers to."""
    gc.collect()  # An error that was raised refers to the version.
    trim_memory()


@dataclasses.dataclass(eq=False)
class Served:
    """A version that answers requests."""

    name: str
    number: int
    path: Path
    model: Model
    batching: Batching | None
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


class ModelVersions:
    """The versions of a model that are served; a new one takes over once it is warmed up.

    Args:
        config: The model; `take` replaces it.
        load: Loads a version.
        free: Frees the memory of versions that nothing refers to.
        retry_seconds: Seconds until a version that did not load is tried again.
    """

    def __init__(
        self, config: ModelConfig, load: Load, free: Callable[[], object], retry_seconds: float
    ):
        self.config, self._load, self._free, self._retry_seconds = config, load, free, retry_seconds
        self.served: dict[int, Served] = {}
        self._states: dict[int, State] = {}
        self._labels = dict(config.labels)
        self._failed: dict[Path, float] = {}  # When to try them again.

    def take(self, config: ModelConfig) -> None:
        """Replace the configuration, whose versions the next look loads.

        New labels are known at once, and others move once their new versions are served.
        """
        self.config = config
        self._labels = {
            label: self._labels.get(label, number) for label, number in config.labels.items()
        }

    def states(self, which: int | str | None = None) -> dict[int, State]:
        """Return the states by number, the highest first, of all versions or the one that is named.

        Raises:
            ServingError: If there is no such version.
        """
        number = self._number(which)
        if not self._states:
            message = f"Could not find any versions of model {self.config.name}"
            raise ServingError(Code.NOT_FOUND, message)
        if number is None:
            return dict(sorted(self._states.items(), reverse=True))
        if number not in self._states:
            message = f"Could not find version {number} of model {self.config.name}"
            raise ServingError(Code.NOT_FOUND, message)
        return {number: self._states[number]}

    @contextlib.contextmanager
    def use(self, which: int | str | None = None) -> Iterator[Served]:
        """Keep a version loaded in the block.

        Args:
            which: The number or the label of the version; None for the highest.

        Raises:
            ServingError: If it is not served.
        """
        number = self._number(which)
        served = self.served.get(max(self.served, default=0) if number is None else number)
        if served is None:
            name = self.config.name
            which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
            raise ServingError(Code.NOT_FOUND, f"Servable not found for request: {which}")
        served.users += 1
        try:
            yield served
        finally:
            served.users -= 1
            if self.served.get(served.number) is not served and not served.users:
                if served.number not in self.served:
                    self._set(served.number, State("END"))
                # The request that ends still refers to it.
                asyncio.get_running_loop().call_later(_FREE_SECONDS, self._free)

    def _number(self, which: int | str | None) -> int | None:
        if not isinstance(which, str):
            return which
        if which not in self._labels:
            raise invalid(f"Unrecognized servable version label: {which}")
        return self._labels[which]

    async def load_first(self) -> None:
        """Load the versions to serve.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If none loads.
        """
        base, wanted = self.config.base, sorted(self.config.specific)
        try:
            errors = await self.look()
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"There is no directory {base} for the model {self.config.name}. Correct its path."
            ) from error
        if self.served:
            _log(errors)
            return
        for path, cause in errors.items():
            if isinstance(cause, ServingError):
                raise ValueError(f"{path} does not load: {one_line(cause)}") from cause
            raise cause
        numbers = f" {', '.join(map(str, wanted))}" if wanted else ""
        raise FileNotFoundError(f"There is no version{numbers} of a model in {base}.")

    async def look(self) -> dict[Path, Exception]:
        """Load and drop versions, so that those that are wanted are served.

        Returns:
            The error of each version that does not load.

        Raises:
            OSError: If the directory cannot be read.
        """
        base = self.config.base
        errors: dict[Path, Exception] = {}
        # `numbered_versions` takes a missing directory for an empty one.
        await asyncio.to_thread(base.stat)
        found = await asyncio.to_thread(numbered_versions, base)
        wanted = self.config.choose(found)
        if not wanted and self.served:
            log.warning("there is no version left in %s", base)
        for number in self.config.specific - found.keys() - self._states.keys():
            message = f"there is no version {number} in {base}"
            log.warning("%s: %s", self.config.name, message)
            self._set(number, State("END", Code.NOT_FOUND, message))
        self.drop(wanted)
        for number, path in wanted.items():
            if number in self.served and self.served[number].path == path:
                continue
            if time.monotonic() < self._failed.get(path, 0):
                continue
            self._set(number, State("LOADING"))
            is_new = number not in self.served
            try:
                self.served[number] = await self._load(self.config.name, number, path)
            except Exception as error:
                errors[path] = error
                self._failed[path] = time.monotonic() + self._retry_seconds
                code = error.code if isinstance(error, ServingError) else Code.UNKNOWN
                self._set(number, State("END", code, one_line(error)))
            else:
                self._set(number, State("AVAILABLE"))
                self.drop(wanted)
                if not is_new:
                    self._free()
        self._labels = {  # A label moves once its new version is served.
            label: number if number in self.served else self._labels.get(label, number)
            for label, number in self.config.labels.items()
        }
        return errors

    def drop(self, wanted: Mapping[int, Path]) -> None:
        """Drop the versions that are not wanted, unless no wanted one is served yet."""
        if wanted and not wanted.keys() & self.served.keys():
            return
        for number in self.served.keys() - wanted.keys():
            # Requests that use it hold it; the last one ends it.
            users = self.served.pop(number).users
            self._set(number, State("UNLOADING" if users else "END"))
            self._free()

    def _set(self, number: int, state: State) -> None:
        self._states[number] = state
        ended = sorted(
            number
            for number, state in self._states.items()
            if state.state == "END" and number not in self.config.specific
        )
        for old in ended[:-_MOST_ENDED]:
            del self._states[old]


class Versions:
    """The versions of all models of a server."""

    def __init__(self, settings: Settings, metrics: Metrics):
        self._settings, self._metrics = settings, metrics
        self._models: dict[str, ModelVersions] = {}
        self._content = b""
        self._take(settings.models)

    def _take(self, configs: Iterable[ModelConfig]) -> None:
        """Serve these models, and drop all others."""
        before, self._models = self._models, {}
        for config in configs:
            model = before.pop(config.name, None) or self.of(config.name)
            model.take(config)
            self._models[config.name] = model
        for name, model in before.items():
            log.info("the model %s is not served any longer", name)
            model.drop({})

    async def _load(self, name: str, number: int, path: Path) -> Served:
        log.info("loading version %d of %s and running its warm-up requests", number, name)
        started = time.monotonic()
        with self._metrics.load(path):
            batching = Batching.read(path) if self._settings.batching else None
            model = await asyncio.wrap_future(_in_thread(Model, path))
        log.info("version %d of %s is ready after %.1f s", number, name, time.monotonic() - started)
        self._metrics.warmup(name, model.warmup_seconds)
        if batching and batching.max_batch_size < usual_batch_size() and has_gpu():
            message = "max_batch_size of %s is %d; a GPU answers more requests with %d"
            log.warning(message, name, batching.max_batch_size, usual_batch_size())
        free = asyncio.Semaphore(batching.num_batch_threads if batching else 1)
        return Served(name, number, path, model, batching, free)

    def __contains__(self, name: object) -> bool:
        return name in self._models

    def of(self, name: str) -> ModelVersions:
        """Return the versions of a model; none if there is no such model."""
        if name in self._models:
            return self._models[name]
        unknown = ModelConfig(name=name, base=Path())
        return ModelVersions(unknown, self._load, _free_later, self._settings.retry_seconds)

    def ready(self) -> dict[str, bool]:
        """Return whether each model has a version that is served, by name."""
        return {name: bool(model.served) for name, model in self._models.items()}

    async def load_first(self) -> None:
        """Load the versions of all models.

        Raises:
            FileNotFoundError: If a model has none.
            ValueError: If a model does not load.
        """
        for model in self._models.values():
            await model.load_first()

    async def watch(self, looked: Callable[[], object]) -> None:
        """Follow the file of the models, and their directories, until the task is cancelled.

        Memory that runs have left free goes back to the system meanwhile.

        Args:
            looked: Called after each look at a model.
        """
        trimmed = time.monotonic()
        while True:
            await asyncio.sleep(self._settings.poll_seconds)
            if path := self._settings.model_config_file:
                await self._follow(path)
            for model in list(self._models.values()):
                try:
                    _log(await model.look())
                except OSError as error:  # Such as a network share that is away for a while.
                    log.warning("cannot read %s: %s", model.config.base, error)
                looked()
            if time.monotonic() > trimmed + _TRIM_SECONDS:
                await asyncio.to_thread(trim_memory)
                trimmed = time.monotonic()

    async def _follow(self, path: Path) -> None:
        """Take the models of a file, if it has changed."""
        try:
            content = await asyncio.to_thread(path.read_bytes)
            if content != self._content:
                self._content = content  # A mistake is reported once.
                self._take(parse_model_config(content, path))
        except (OSError, ValueError) as error:
            log.error("the models stay as they are: %s", error)


def _log(errors: Mapping[Path, Exception]) -> None:
    for path, error in errors.items():
        log.error("%s does not load: %s", path, one_line(error))
