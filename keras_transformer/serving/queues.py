"""Bounded queues in front of a model: the threads that run it, and batches of several requests."""

import asyncio
import collections
import contextlib
import dataclasses
import functools
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.parts import Arrays
from keras_transformer.serving.session import usual_batch_size, usual_runs
from keras_transformer.utils.memory import available_memory

Run = Callable[[Arrays, Sequence[str]], Awaitable[Arrays]]
T = TypeVar("T")

LARGE = 1 << 16
"""Bytes of a request; fewer are read in a millisecond, whatever is in them."""

# A version's own file precedes the one that all versions share, as in TensorFlow Serving.
_FILES = ("batching_params.pbtxt", "../serving/batching.config")
_MOST_PASSES = 3  # How often a younger request of the same client may precede a call.
_MUCH_LONGER = 8  # How many times as long as another a request takes that lets it pass.
_CALLS_OF_A_THREAD = 64
_ENTRY = re.compile(r"(\w+)\s*:?\s*\{\s*value\s*:\s*(-?\d+)\s*;?\s*\}\s*")


async def off_loop(function: Callable[..., T], *args: Any, large: bool) -> T:
    """Return `function(*args)`, called in a thread if it takes long."""
    return await asyncio.to_thread(function, *args) if large else function(*args)


class Room:
    """Memory for large requests, until they are answered; small ones always have room.

    >>> room = Room(1_000_000)
    >>> with room.hold(900_000), room.hold(1000), room.hold() as resize:
    ...     resize(900_000)
    Traceback (most recent call last):
    keras_transformer.serving.errors.ServingError: Too many large requests wait. Try again later.
    """

    def __init__(self, size: int | None = None):
        self._left = available_memory() // 16 if size is None else size

    @contextlib.contextmanager
    def hold(self, size: int = 0) -> Iterator[Callable[[int], None]]:
        """Keep room for a request of the given size in the block.

        Yields:
            A function to call with the bytes of a request that grows.

        Raises:
            ServingError: If there is none.
        """
        held = 0

        def resize(size: int) -> None:
            nonlocal held
            more = (0 if size <= LARGE else size) - held
            if more > self._left:
                message = "Too many large requests wait. Try again later."
                raise ServingError(Code.RESOURCE_EXHAUSTED, message, http=503)
            held, self._left = held + more, self._left - more

        try:
            resize(size)
            yield resize
        finally:
            self._left += held


def _end(answer: asyncio.Future, result: Any, error: BaseException | None = None) -> None:
    """Give a caller its answer, if it still waits."""
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


@dataclasses.dataclass(eq=False)
class Turn:
    """A request that is run in parts, by which `FairQueue` decides whose part is next."""

    clients: Sequence[str] = ("",)
    """Addresses of the clients that wait for it."""
    seconds: float = 0
    """How long its parts have taken."""
    estimate: float = 0
    """How long its next part is expected to take."""
    began: float = dataclasses.field(default_factory=time.monotonic)
    """When it came."""

    @property
    def cost(self) -> float:
        """What it will have taken after its next part."""
        return self.seconds + self.estimate


@dataclasses.dataclass(eq=False)
class Call:
    """A function that waits for a thread: a part of a request, or all of it."""

    turn: Turn
    function: Callable[[], Any]
    answer: asyncio.Future
    passes: int = 0
    """How often a younger request of the same client preceded it."""


class FairQueue:
    """Calls of several clients, and whose is next (fair queueing).

    That is a call of the client that had the least time. A client that comes, or comes back, has
    the time that each waiting client has had by then: it owes nothing for the time when nobody
    waited, and saves none while it is away. Its requests are run in the order in which they came,
    but one that takes many times as long as another lets that one pass; every fourth call is that
    of the oldest request, so that none waits forever.

    Attributes:
        waiting: Calls that have not begun.
        running: Calls that have.
    """

    def __init__(self) -> None:
        self.waiting: list[Call] = []
        self.running: list[Call] = []
        self._clock = 0.0  # The time that a client has had that has waited all along.
        self._seconds: dict[str, float] = {}  # What clients have had that are ahead of it.

    def __len__(self) -> int:
        return len(self.waiting) + len(self.running)

    def count_of(self, turn: Turn) -> int:
        """Return the calls of the client of a request that has the fewest."""
        turns = self._turns()
        return min(sum(client in each.clients for each in turns) for client in turn.clients)

    def begin(self) -> Call:
        """Take the call that is next, and charge its client what it is expected to take."""
        call = self._next()
        self.waiting.remove(call)
        self.running.append(call)
        self._charge(call.turn, call.turn.estimate)
        return call

    def end(self, call: Call, seconds: float) -> None:
        """Charge the client of a call what it took, and let the time of all others pass."""
        clients = {client for turn in self._turns() for client in turn.clients}
        self.running.remove(call)
        call.turn.seconds += seconds
        self._charge(call.turn, seconds - call.turn.estimate)
        self._clock += seconds / len(clients)
        self._seconds = {one: time for one, time in self._seconds.items() if time > self._clock}
        if not self:
            self._clock, self._seconds = 0.0, {}

    def _turns(self) -> list[Turn]:
        return [call.turn for call in (*self.waiting, *self.running)]

    def _next(self) -> Call:
        had = [min(map(self._had, call.turn.clients)) for call in self.waiting]
        least = min(had)
        calls = [call for call, time in zip(self.waiting, had, strict=True) if time == least]
        calls.sort(key=lambda call: call.turn.began)
        if calls[0].passes == _MOST_PASSES:
            return calls[0]
        most = _MUCH_LONGER * min(call.turn.cost for call in calls)
        first = next(call for call in calls if call.turn.cost <= most)
        calls[0].passes += first is not calls[0]
        return first

    def _had(self, client: str) -> float:
        return max(self._clock, self._seconds.get(client, 0))

    def _charge(self, turn: Turn, seconds: float) -> None:
        for client in turn.clients:
            self._seconds[client] = self._had(client) + seconds / len(turn.clients)


class Workers:
    """Threads that run the calls of several clients, in the order of a `FairQueue`.

    They are replaced now and then: for each shape of a model's tensors that a thread has met,
    TensorFlow keeps kernels of oneDNN until the thread ends, which may take 100 MB.

    Args:
        threads: Calls that run at a time.
        waiting: Calls that may run or wait; a client may have half of them.
    """

    def __init__(self, threads: int, waiting: int):
        self._threads, self._most = threads, waiting
        self._lock = threading.Lock()
        self._queue = FairQueue()
        self._free = threading.Semaphore(threads)  # Threads that end may still run a call.
        self._pool = self._new_pool()
        self._ended = 0  # Calls of these threads.
        self._is_stopped = False

    @property
    def pending(self) -> int:
        """The number of calls that run or wait."""
        return len(self._queue)

    async def run(self, function: Callable[..., T], *args: Any, turn: Turn | None = None) -> T:
        """Return `function(*args)`, called in a thread.

        If the caller is cancelled, a call that has not begun is dropped; one that runs keeps its
        place until it ends. Without a `turn`, the call is a request of its own.

        Raises:
            ServingError: If too many calls wait, of this client or of all, or `stop` is called.
        """
        answer = asyncio.get_running_loop().create_future()
        call = Call(turn or Turn(), functools.partial(function, *args), answer)
        with self._lock:
            if self._is_stopped:
                raise _stopping()
            if self.pending >= self._most or 2 * self._queue.count_of(call.turn) >= self._most:
                message = f"Server Threadpool Exhausted: {self.pending} requests wait."
                raise ServingError(Code.RESOURCE_EXHAUSTED, message, http=503)
            self._queue.waiting.append(call)
        try:
            self._submit()
            return await answer
        finally:
            with self._lock:
                if call in self._queue.waiting:  # The client has gone.
                    self._queue.waiting.remove(call)

    def _submit(self) -> None:
        """Let a thread run the next call."""
        if self._ended >= self._threads * _CALLS_OF_A_THREAD:
            new = self._new_pool()
            with contextlib.suppress(RuntimeError):  # The system starts no thread.
                new.submit(self._run_next)
                self._pool.shutdown(wait=False)  # Once it has run what was submitted.
                self._pool, self._ended = new, 0
                return
        self._pool.submit(self._run_next)

    def _new_pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, thread_name_prefix="predict")

    def _run_next(self) -> None:
        with self._free:
            with self._lock:
                if not self._queue.waiting:
                    return
                call = self._queue.begin()
            started = time.monotonic()
            result, error = None, None
            try:
                result = call.function()
            except BaseException as caught:
                error = caught
            with self._lock:
                self._queue.end(call, time.monotonic() - started)
                self._ended += 1
        with contextlib.suppress(RuntimeError):  # The event loop has ended.
            call.answer.get_loop().call_soon_threadsafe(_end, call.answer, result, error)

    def stop(self) -> None:
        """Drop calls that have not begun, and answer all callers that the server is stopping."""
        with self._lock:
            self._is_stopped = True
            calls = [*self._queue.waiting, *self._queue.running]
            self._queue.waiting.clear()
        for call in calls:
            _end(call.answer, None, _stopping())
        self._pool.shutdown(wait=False, cancel_futures=True)


def _stopping() -> ServingError:
    return ServingError(Code.UNAVAILABLE, "The server is stopping.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batching:
    """How requests of several clients become one batch; the fields are TensorFlow Serving's.

    >>> Batching(max_batch_size=8, max_enqueued_batches=2).most_waiting
    16
    """

    max_batch_size: int = dataclasses.field(default_factory=usual_batch_size)
    """Rows of a batch; a request of more is refused."""
    batch_timeout_micros: int = 5000
    """Microseconds that the first request of a batch waits for others."""
    max_enqueued_batches: int = 100
    """Batches that may wait, half of them of one client; further requests are refused."""
    num_batch_threads: int = dataclasses.field(default_factory=usual_runs)
    """Batches that run at a time."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.name != "batch_timeout_micros" and getattr(self, field.name) < 1:
                raise ValueError(
                    f"{field.name} must be positive, received {getattr(self, field.name)}. Correct "
                    "it in batching_params.pbtxt or serving/batching.config."
                )

    @property
    def most_waiting(self) -> int:
        """The number of rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches

    @classmethod
    def read(cls, version: Path) -> "Batching":
        """Read the files that came with a version; values that they do not have are the defaults.

        Raises:
            ValueError: If a file has anything but these fields, or a value is not positive.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        values: dict[str, int] = {}
        for file in reversed(_FILES):
            path = version / file
            if not path.exists():
                continue
            text = re.sub("#.*", "", path.read_text(encoding="utf-8")).strip()
            entries = {name: int(value) for name, value in _ENTRY.findall(text)}
            others = [_ENTRY.sub("", text), *(name for name in entries if name not in known)]
            if strange := [each for each in others if each]:
                raise ValueError(
                    f"{path} must hold {', '.join(known)} only, each as NAME {{ value: NUMBER }}; "
                    f"received {' '.join(strange[0].split())[:80]!r}. Remove it, or serve with "
                    "--engine tensorflow."
                )
            values |= entries
        return cls(**values)


@dataclasses.dataclass(eq=False)
class _Task:
    inputs: Arrays
    client: str
    rows: int
    longest: int
    answer: asyncio.Future
    arrived: float


class Batcher:
    """Joins the requests for one signature, in the order in which they arrive.

    A batch runs once it is full, or once its first request has waited `batch_timeout_micros`, and
    a thread is free. Requests that arrive meanwhile form the next batch.

    Args:
        run: Runs the signature on inputs [B, ...] for clients, and returns outputs [B, ...].
        settings: Sizes and times.
        free: Limits how many batches run at a time; all signatures of a model share it.
        observe: Called with the rows of each batch, and the seconds that its first request waited.
        is_slow: Returns whether a number of rows, and the length of the longest, take too long.
    """

    def __init__(
        self,
        run: Run,
        settings: Batching,
        free: asyncio.Semaphore,
        observe: Callable[[int, float], None] = lambda rows, seconds: None,
        is_slow: Callable[[int, int], bool] = lambda rows, longest: False,
    ):
        self._run, self._settings, self._free, self._observe = run, settings, free, observe
        self._is_slow = is_slow
        self._waiting: collections.deque[_Task] = collections.deque()
        self._rows = 0
        self._full = asyncio.Event()
        self._dispatcher: asyncio.Task | None = None
        self._running: set[asyncio.Task] = set()

    async def submit(self, inputs: Arrays, client: str = "", longest: int = 1) -> Arrays:
        """Return the outputs for inputs [B, ...], computed together with other requests.

        Args:
            inputs: At most `max_batch_size` rows.
            client: The client's address.
            longest: The length of the longest row.

        Raises:
            ServingError: If inputs have different numbers of rows, or the queue is full.
        """
        sizes = {len(array) for array in inputs.values()}
        if len(sizes) != 1:
            raise invalid(
                "Batching Run() input tensors must have equal 0th-dimension size, received "
                f"{sorted(sizes)}"
            )
        (rows,) = sizes
        if not rows:
            return await self._run(inputs, [client])  # Nothing to join.
        most = self._settings.most_waiting
        own = sum(task.rows for task in self._waiting if task.client == client)
        if self._rows + rows > most or 2 * own >= most:
            raise ServingError(
                Code.UNAVAILABLE,
                "The batch scheduling queue to which this task was submitted is full; "
                f"max_enqueued_batches is {self._settings.max_enqueued_batches}",
            )
        answer: asyncio.Future[Arrays] = asyncio.get_running_loop().create_future()
        task = _Task(inputs, client, rows, longest, answer, time.monotonic())
        self._waiting.append(task)
        self._count(rows)
        if self._dispatcher is None:
            self._dispatcher = asyncio.create_task(self._dispatch())
        try:
            return await answer
        finally:
            if task in self._waiting:  # The client has gone.
                self._waiting.remove(task)
                self._count(-rows)

    def _count(self, rows: int) -> None:
        self._rows += rows
        if self._rows >= self._settings.max_batch_size:
            self._full.set()
        else:
            self._full.clear()

    async def _dispatch(self) -> None:
        while self._waiting:
            await self._free.acquire()
            if self._waiting and not self._full.is_set():
                until = self._waiting[0].arrived + self._settings.batch_timeout_micros / 1e6
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), max(0, until - time.monotonic()))
            batch = self._take()
            if not batch:
                self._free.release()
                continue
            running = asyncio.create_task(self._answer(batch))
            self._running.add(running)
            running.add_done_callback(self._running.discard)
        self._dispatcher = None

    def _take(self) -> list[_Task]:
        batch: list[_Task] = []
        rows = longest = 0
        while self._waiting and rows + self._waiting[0].rows <= self._settings.max_batch_size:
            longest = max(longest, self._waiting[0].longest)
            if batch and self._is_slow(rows + self._waiting[0].rows, longest):
                break
            task = self._waiting.popleft()
            self._count(-task.rows)
            if not task.answer.done():
                batch.append(task)
                rows += task.rows
        return batch

    async def _answer(self, batch: list[_Task]) -> None:
        rows = sum(task.rows for task in batch)
        self._observe(rows, time.monotonic() - batch[0].arrived)
        try:
            if len(batch) > 1 and await self._answer_together(batch, rows):
                return
            for task in batch:
                if not task.answer.done():
                    await self._answer_alone(task)
        finally:
            self._free.release()

    async def _answer_together(self, batch: list[_Task], rows: int) -> bool:
        """Return whether the batch is answered. If one request spoils it, each is run alone."""
        try:
            # Shapes beyond the rows may differ, which only some models accept.
            inputs = {
                name: np.concatenate([task.inputs[name] for task in batch])
                for name in batch[0].inputs
            }
            outputs = await self._run(inputs, [task.client for task in batch])
        except Exception:  # Each request gets its own answer, or its own error.
            return False
        if any(not array.ndim or len(array) != rows for array in outputs.values()):
            return False
        start = 0
        for task in batch:
            part = {name: array[start : start + task.rows] for name, array in outputs.items()}
            start += task.rows
            _end(task.answer, part)
        return True

    async def _answer_alone(self, task: _Task) -> None:
        try:
            outputs = await self._run(task.inputs, [task.client])
        except Exception as error:
            _end(task.answer, None, error)
        else:
            _end(task.answer, outputs)
