"""Limits on the time and size of HTTP requests."""

import asyncio
import zlib
from typing import Any

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.settings import Limits


class BodyError(ServingError):
    """A body that was not read to its end, so that the connection cannot be used again."""


def limited_protocol(idle_seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, which closes connections whose clients are idle for too long.

    Args:
        idle_seconds: Time in which the client must read an answer and send the whole head of the
            next request. uvicorn limits only the time until its first byte.
    """

    class Protocol(H11Protocol):
        deadline: asyncio.TimerHandle | None = None
        half_closed = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_request()

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
            return waits or None  # None closes the connection.

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

        def _expect_request(self) -> None:
            self._expect_nothing()
            self.deadline = self.loop.call_later(idle_seconds, self._end)

        def _end(self) -> None:
            if self.transport.get_write_buffer_size():  # `close` would wait until it is read.
                self.transport.abort()
            elif self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def _expect_nothing(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
                self.deadline = None

    return Protocol


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return a request's body, decompressed.

    Args:
        request: The request.
        limits: Its largest size, and the time that it has.

    Raises:
        BodyError: If it is too large or too slow.
        ServingError: If it is not the gzip file that its headers announce.
    """
    too_large = BodyError(
        Code.INVALID_ARGUMENT, f"The request is larger than {limits.request_bytes} bytes", http=413
    )
    length = request.headers.get("content-length", "0")
    if int(length) > limits.request_bytes:  # h11 accepts only digits.
        raise too_large
    chunks, size = [], 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > limits.request_bytes:
                    raise too_large
                chunks.append(chunk)
    except TimeoutError as error:
        message = f"The request did not arrive within {limits.body_seconds:g} seconds"
        raise BodyError(Code.DEADLINE_EXCEEDED, message, http=408) from error
    body = b"".join(chunks)
    if request.headers.get("content-encoding", "").lower() == "gzip":
        return _decompress(body, limits.request_bytes, too_large)
    return body


def _decompress(body: bytes, most: int, too_large: ServingError) -> bytes:
    decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        text = decompressor.decompress(body, most + 1)
    except zlib.error as error:
        raise invalid(f"Failed to decompress the request: {error}") from error
    if len(text) > most:
        raise too_large
    if not decompressor.eof:
        raise invalid("Failed to decompress the request: it ends too early")
    return text
