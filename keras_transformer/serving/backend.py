"""The page in front of another model server, such as `tensorflow_model_server`."""

import asyncio
import contextlib
import logging
import re
import time
import urllib.parse
from pathlib import Path

import urllib3
from starlette.requests import Request
from starlette.responses import Response

from keras_transformer.serving.application import PREDICT, STATUS, Application
from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.http import WebServer
from keras_transformer.serving.metrics import Entry, Metrics
from keras_transformer.serving.page import Page
from keras_transformer.serving.queues import Turn, Workers
from keras_transformer.serving.settings import PageSettings
from keras_transformer.utils.versions import numbered_versions

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 5
_CONNECTIONS = 16
_READERS = 4  # Of status and metadata, which do not wait for Predict.
_CHUNK = 1 << 16


class PassThrough(Application):
    """Answers with the page, and passes requests for one model on to its server.

    No other path, model or server can be reached through it.
    """

    def __init__(self, settings: PageSettings):
        page = Page(lambda: {settings.name: _highest_version(settings.base)}, settings.limits)
        super().__init__(Metrics(), settings, page)
        self._metrics.models = {settings.name}
        self._settings = settings
        waiting = settings.limits.waiting
        self._workers = {
            "POST": Workers(_CONNECTIONS, waiting),
            "GET": Workers(_READERS, waiting),
        }
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS + _READERS, retries=False, headers={})

    async def _answer_rest(
        self, request: Request, path: str, body: bytes, entry: Entry
    ) -> Response:
        method = request.method.replace("HEAD", "GET")
        pattern = {"POST": PREDICT, "GET": STATUS}.get(method)
        match = pattern and pattern.fullmatch(path)
        url = match and self._url(match)
        if not url:
            raise ServingError(
                Code.NOT_FOUND,
                f"This server has the model {self._settings.name} only, and its Predict, status "
                "and metadata requests.",
            )
        seconds = self._settings.timeout
        deadline = time.monotonic() + seconds
        workers = self._workers[method]
        try:
            async with asyncio.timeout(seconds):
                turn = Turn([entry.client])
                status, content = await workers.run(
                    self._send, method, url, body, deadline, turn=turn
                )
        except TimeoutError as error:
            raise self._too_late() from error
        headers = {"X-Content-Type-Options": "nosniff"}
        return Response(content, status, headers, media_type="application/json")

    def _url(self, match: re.Match) -> str | None:
        """Return what a path asks of the other server; None if it must not be passed on."""
        parts = match.groupdict()
        if urllib.parse.unquote(parts["name"]) != self._settings.name:
            return None
        url = (
            f"{self._settings.backend}/v1/models/{urllib.parse.quote(self._settings.name, safe='')}"
        )
        if parts["version"] is not None:
            url += f"/versions/{parts['version']}"
        if parts["label"] is not None:
            label = urllib.parse.unquote(parts["label"])
            # What a server on the way might take for a part of the path, or decode again.
            if label in (".", "..") or not label.isprintable() or set(label) & set("/\\?#%"):
                return None
            url += f"/labels/{urllib.parse.quote(label, safe='')}"
        return url + (f":{parts['method']}" if "method" in parts else parts["metadata"] or "")

    def _too_late(self) -> ServingError:
        message = f"The model server did not answer in {self._settings.timeout:g} seconds"
        return ServingError(Code.DEADLINE_EXCEEDED, message, http=504)

    def _send(self, method: str, url: str, body: bytes, deadline: float) -> tuple[int, bytes]:
        """Return the status and the body of the server's answer, which must be complete in time.

        Raises:
            ServingError: If there is none.
        """
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._too_late()
        try:
            with self._pool.request(
                method,
                url,
                body=body if method == "POST" else None,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(_CONNECT_SECONDS, left), total=left),
                redirect=False,
                preload_content=False,
            ) as response:
                content = self._read(response, deadline)
        except urllib3.exceptions.ReadTimeoutError as error:
            raise self._too_late() from error
        except urllib3.exceptions.HTTPError as error:
            server = f"The model server at {self._settings.backend}"
            log.warning("%s: %s", server, error)
            broken = (urllib3.exceptions.ProtocolError, urllib3.exceptions.DecodeError)
            what = "broke off its answer" if isinstance(error, broken) else "cannot be reached"
            raise ServingError(Code.UNAVAILABLE, f"{server} {what}", http=502) from error
        return response.status, content

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        most = self._limits.answer_bytes
        chunks, size = [], 0
        while chunk := response.read1(_CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > most:
                message = f"The answer has more than {most} bytes"
                raise ServingError(Code.INTERNAL, message, http=502)
            if time.monotonic() > deadline:
                raise self._too_late()
        return b"".join(chunks)

    def stop(self) -> None:
        """Drop all requests."""
        for workers in self._workers.values():
            workers.stop()


def _highest_version(base: Path | None) -> Path | None:
    """Return the version whose card is shown, which may change while the page is served."""
    with contextlib.suppress(OSError):
        if base and (versions := numbered_versions(base)):
            return versions[max(versions)]
    return None


class PageServer(WebServer):
    """A server with the page only."""

    def __init__(self, settings: PageSettings):
        self._settings, self._application = settings, PassThrough(settings)
        super().__init__(self._application, settings)

    async def stop(self) -> None:
        """Refuse new requests, finish those that run, and close the port."""
        await super().stop()
        self.drop()

    def drop(self) -> None:
        """Answer requests that still run when the time to stop is over."""
        self._application.stop()

    def __str__(self) -> str:
        return f"page at {self._settings.host}:{self.rest_port}, of {self._settings.backend}"
