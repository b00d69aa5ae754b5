"""The threads that run a model."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from keras_transformer.serving.errors import busy

T = TypeVar("T")


class Workers:
    """A thread pool with a bounded queue.

    Attributes:
        pending: The number of calls that run or wait.

    Args:
        threads: Calls that run at a time.
        waiting: Calls that may run or wait.
    """

    def __init__(self, threads: int, waiting: int):
        self.pending = 0
        self._waiting = waiting
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="predict")

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return `function(*args)`, called in a thread.

        If the caller is cancelled, a call that has not begun is dropped; one that runs keeps its
        place until it ends.

        Raises:
            ServingError: If too many calls wait.
        """
        with self._lock:
            if self.pending >= self._waiting:
                raise busy(f"Server Threadpool Exhausted: {self.pending} requests wait.")
            self.pending += 1
        future = self._pool.submit(function, *args)
        future.add_done_callback(self._ended)
        return await asyncio.wrap_future(future)

    def _ended(self, future: Future) -> None:
        with self._lock:
            self.pending -= 1

    def stop(self) -> None:
        """Drop calls that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)
