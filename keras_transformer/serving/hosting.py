"""Listening for HTTP, and running a server until a signal ends it."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import uvicorn

from keras_transformer.serving.http import limited_protocol
from keras_transformer.serving.settings import Limits

log = logging.getLogger(__name__)


class Startable(Protocol):
    """A server that `run_until_signal` runs."""

    async def start(self) -> None:
        """Open its ports."""

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set, or a task of the server ends."""

    async def stop(self) -> None:
        """Finish running requests, and close the ports."""

    def __str__(self) -> str: ...


def bind(host: str, port: int, option: str = "--rest-port") -> socket.socket:
    """Return a socket that does not listen yet.

    Args:
        host: The address.
        port: The port; 0 for a free one.
        option: The option that sets the port, for the error.

    Raises:
        OSError: If the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Give another "
            f"{option} or --host."
        ) from error
    return listener


class HttpServer(uvicorn.Server):
    """uvicorn's server with this package's limits, which leaves signals to `run_until_signal`.

    Args:
        application: The ASGI application.
        limits: What a client may ask for.
    """

    def __init__(self, application: Any, limits: Limits):
        config = uvicorn.Config(
            application,
            interface="asgi3",
            proxy_headers=False,  # The access log has the address of the connection.
            http=limited_protocol(limits.idle_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # Malformed requests are client errors and are not logged.
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=max(1, round(limits.idle_seconds)),
            timeout_graceful_shutdown=max(1, round(limits.stop_seconds)),
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


async def first_to_end(stop: asyncio.Event, tasks: set[asyncio.Task]) -> None:
    """Wait until `stop` is set.

    Raises:
        Exception: If one of the tasks ends before; the error is the task's own.
    """
    waiting = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if waiting in done:
        return
    for task in done:
        task.result()
    raise RuntimeError("the REST server has ended without an error")


def run_until_signal(
    make: Callable[[], Startable], stop_seconds: float, started: Callable[[], None] = lambda: None
) -> None:
    """Run a server until SIGTERM or SIGINT.

    After the first one, both have their handlers from before the call. By default, a second one
    then ends the process at once.

    Args:
        make: Returns the server; called in the event loop.
        stop_seconds: Seconds that running requests have then, for the log.
        started: Called once the ports are open.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    if before[signal.SIGINT] is signal.default_int_handler:
        before[signal.SIGINT] = signal.SIG_DFL  # KeyboardInterrupt would wait for what runs.
    asyncio.run(_run(make, before, stop_seconds, started))


async def _run(
    make: Callable[[], Startable],
    before: Mapping[signal.Signals, Any],
    stop_seconds: float,
    started: Callable[[], None],
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask_to_stop() -> None:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        stop.set()

    server = make()
    await server.start()
    for number in before:
        loop.add_signal_handler(number, ask_to_stop)
    log.info("ready: %s", server)
    started()
    try:
        await server.run_until(stop)
        log.info("stopping: running requests have %g seconds", stop_seconds)
    finally:
        await server.stop()
