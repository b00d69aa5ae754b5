"""HTTP: ports, limits of time and size, and a server that runs until a signal ends it."""

import asyncio
import collections
import contextlib
import functools
import gc
import logging
import math
import resource
import signal
import socket
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import h11
import uvicorn
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.settings import Limits, WebSettings

log = logging.getLogger(__name__)

_AT_ONCE = 1 << 14
"""Bytes that are read of a connection before the others. h11 needs 40 ms if each is a chunk."""
_GZIP = ("gzip", "x-gzip")
_HANDSHAKE_SECONDS = 5
_MOST_MEMBERS = 100
"""Parts of a gzip file; the end of the file is copied for each."""
_PROBE_SECONDS = 1
_SILENT_SECONDS = 2
"""Time that a client may send nothing of a body that is refused."""
STOP_MARGIN = 2
"""Seconds after `stop_seconds`, in which answers to dropped requests are sent."""


class WebServer:
    """A server of an ASGI application.

    Attributes:
        rest: The ASGI application.
        rest_port: The port for HTTP, once the server has started.
    """

    def __init__(self, application: Any, settings: WebSettings):
        self.rest, self.rest_port, self.limits = application, 0, settings.limits
        self._web = settings

    async def start(self) -> None:
        """Run `prepare`, then open the port.

        Raises:
            OSError: If it is taken.
        """
        # Refuses connections until it listens.
        listener = bind(self._web.host, self._web.rest_port)
        self.rest_port = listener.getsockname()[1]
        try:
            await self.prepare()
            listener.listen(2048)
        except BaseException:
            listener.close()
            raise
        self._http = _HttpServer(self.rest, self._web)
        self._serving = asyncio.create_task(self._http.serve([listener]))

    async def prepare(self) -> None:
        """Do what must succeed before clients can connect."""

    async def run_until(self, stop: asyncio.Event, *tasks: asyncio.Task) -> None:
        """Wait until `stop` is set.

        Raises:
            Exception: If HTTP or another task of the server ends before; the task's own error.
        """
        waiting = asyncio.create_task(stop.wait())
        everything = {waiting, self._serving, *tasks}
        done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if waiting in done:
            return
        for task in done:
            task.result()
        raise RuntimeError("the REST server has ended without an error")

    async def stop(self) -> None:
        """Refuse new requests, finish those that run, and close the port."""
        asyncio.get_running_loop().call_later(self.limits.stop_seconds, self.drop)
        self._http.should_exit = True
        await self._serving

    def drop(self) -> None:
        """Answer requests that still run when the time to stop is over."""


def serve(make: Callable[[], WebServer], started: Callable[[], None] = lambda: None) -> None:
    """Run a server until SIGTERM or SIGINT.

    After the first one, both have their handlers from before the call. By default, a second one
    then ends the process at once.

    Args:
        make: Returns the server; called in the event loop.
        started: Called once the ports are open.

    Raises:
        OSError: If a port is taken.
        ValueError: If the model does not load.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    if before[signal.SIGINT] is signal.default_int_handler:
        before[signal.SIGINT] = signal.SIG_DFL  # KeyboardInterrupt would wait for what runs.

    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError):  # macOS has a lower one. Each connection is a file.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    gc.freeze()  # Modules stay, and to look through them takes 0.2 s each time a model is freed.

    async def run() -> None:
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
            log.info("stopping: running requests have %g seconds", server.limits.stop_seconds)
        finally:
            await server.stop()

    asyncio.run(run())


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


class _HttpServer(uvicorn.Server):
    """uvicorn's server with this package's limits, which leaves signals to `serve`."""

    def __init__(self, application: Any, settings: WebSettings):
        limits = settings.limits
        if settings.allowed_origins:
            application = CORSMiddleware(
                application,
                allow_origins=settings.allowed_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["*"],
            )
        self._application, self._limits = application, limits

        class Protocol(_LimitedProtocol):
            limits = settings.limits

        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            proxy_headers=False,  # The access log has the address of the connection.
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # Malformed requests are client errors and are not logged.
            access_log=False,
            server_header=False,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
            ssl_ciphers="DEFAULT",  # uvicorn's default has differed between versions.
            timeout_keep_alive=max(1, round(limits.idle_seconds)),
            timeout_graceful_shutdown=round(limits.stop_seconds + STOP_MARGIN),
        )
        super().__init__(config)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(receive, send, self._limits.body_seconds)
        await self._application(scope, exchange.receive, exchange.send)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the port, where a TLS handshake and its end have less time than usual."""
        loop: Any = asyncio.get_running_loop()
        if self.config.ssl is None:
            return await super().startup(sockets)
        loop.create_server = functools.partial(
            loop.create_server,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            ssl_shutdown_timeout=_HANDSHAKE_SECONDS,
        )
        try:
            await super().startup(sockets)
        finally:
            del loop.create_server

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield


class _LimitedProtocol(H11Protocol, asyncio.BufferedProtocol):
    """uvicorn's protocol, which closes connections whose clients are idle for too long.

    A client must read an answer and send the whole head of the next request in `idle_seconds`;
    uvicorn limits only the time until its first byte. An address may have half of the connections:
    its further ones are closed. If several together have too many, the one with the most loses the
    longest idle.
    """

    limits: Limits
    deadline: asyncio.TimerHandle | None = None
    half_closed = False

    def connection_made(self, transport: Any) -> None:
        self.buffer = memoryview(bytearray(_AT_ONCE))  # TLS writes into slices.
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        connections: set[Any] = self.connections
        counts = collections.Counter(one.address for one in connections)
        [(busiest, _)] = counts.most_common(1)
        if counts[self.address] > max(self.limits.connections // 2, 1):
            self._drop()
        elif len(connections) > self.limits.connections:
            theirs = (one for one in connections if one.address == busiest)
            min(theirs, key=_LimitedProtocol.ends)._drop()
        self._expect_request()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before and not self.transport.get_write_buffer_size():
            self._expect_nothing()

    def eof_received(self) -> Any:
        # A client that has sent its whole request may still read the answer.
        cycle = self.cycle
        waits = cycle is not None and not cycle.response_complete and not cycle.more_body
        self.half_closed = waits
        if waits and cycle.scope["http_version"] != "1.0":
            self.loop.call_later(_PROBE_SECONDS, self._probe)
        return waits or None  # None closes the connection.

    def _probe(self) -> None:
        """Write what a client that waits skips. If it has left, the second time fails."""
        if self.conn.our_state is h11.SEND_RESPONSE and not self.transport.is_closing():
            event = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            self.transport.write(self.conn.send(event))
            self.loop.call_later(_PROBE_SECONDS, self._probe)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        unread = self.transport.get_write_buffer_size()
        if self.half_closed:
            self.transport.close()
        if unread or self.cycle.response_complete:  # Not if the next request runs already.
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def ends(self) -> float:
        """Return when the connection is closed if the client remains idle."""
        return self.deadline.when() if self.deadline else math.inf

    def _drop(self) -> None:
        self.connections.discard(self)
        self.transport.abort()

    def _expect_request(self) -> None:
        self._expect_nothing()
        self.deadline = self.loop.call_later(self.limits.idle_seconds, self._end)

    def _end(self) -> None:
        if self.transport.get_write_buffer_size():  # `close` would wait until it is read.
            self.transport.abort()
        elif self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _expect_nothing(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


class _Exchange:
    """A request and its answer, which ends once a body that is refused is read to its end.

    A client that sends everything first would find its connection reset, and no answer.
    """

    def __init__(self, receive: Receive, send: Send, seconds: float):
        self._receive, self._send, self._seconds = receive, send, seconds
        self._is_more, self._is_refused = True, False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_more = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._is_refused = message["status"] >= 400
        elif self._is_refused and self._is_more and not message.get("more_body"):
            await self._send({**message, "more_body": True})
            await self._read_rest()
            message = {"type": "http.response.body"}
        await self._send(message)

    async def _read_rest(self) -> None:
        # The server may stop meanwhile, which cancels the task.
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(self._seconds):
                while self._is_more:
                    await asyncio.wait_for(self.receive(), _SILENT_SECONDS)


class ClosingError(ServingError):
    """The connection is closed after the answer, because the body is not read to its end."""


async def read_body(
    request: Request, limits: Limits, resize: Callable[[int], None] = lambda size: None
) -> bytes:
    """Return a request's body, decompressed.

    Args:
        request: The request.
        limits: Its largest size, and the time that it has.
        resize: Called with the bytes that have arrived; it may refuse them with an error.

    Raises:
        ClosingError: If it is too large or too slow.
        ServingError: If it is not the gzip file that its headers announce, or has another encoding.
    """
    too_large = ClosingError(
        Code.INVALID_ARGUMENT, f"The request is larger than {limits.request_bytes} bytes", http=413
    )
    if int(request.headers.get("content-length", "0")) > limits.request_bytes:
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.request_bytes:
                    raise too_large
                resize(size)
                chunks.append(chunk)
    except TimeoutError as error:
        message = f"The request did not arrive within {limits.body_seconds:g} seconds"
        raise ClosingError(Code.DEADLINE_EXCEEDED, message, http=408) from error
    body = b"".join(chunks)
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in _GZIP:
        text = await asyncio.to_thread(_decompress, body, limits.request_bytes, too_large)
        resize(len(text))
        return text
    if encoding not in ("", "identity"):
        message = f"The Content-Encoding of a request must be gzip or none, received {encoding}"
        headers = {"Accept-Encoding": "gzip"}
        raise ServingError(Code.INVALID_ARGUMENT, message, http=415, headers=headers)
    return body


def _decompress(body: bytes, most: int, too_large: ServingError) -> bytes:
    text, rest = b"", body
    for _ in range(_MOST_MEMBERS):
        decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            text += decompressor.decompress(rest, most + 1 - len(text))
        except zlib.error as error:
            raise invalid(f"Failed to decompress the request: {error}") from error
        if len(text) > most:
            raise too_large
        if not decompressor.eof:
            raise invalid("Failed to decompress the request: it ends too early")
        if not (rest := decompressor.unused_data.lstrip(b"\0")):  # Zeros may fill a block.
            return text
    raise invalid(f"Failed to decompress the request: it has over {_MOST_MEMBERS} gzip members")
