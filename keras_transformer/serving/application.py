"""What the ASGI applications of this package share: paths, senders, log, metrics and errors."""

import asyncio
import fnmatch
import ipaddress
import logging
import re
import socket
import urllib.parse
from collections.abc import Container, Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.http import ClosingError, read_body
from keras_transformer.serving.json_format import encode
from keras_transformer.serving.metrics import CONTENT_TYPE, Entry, Metrics
from keras_transformer.serving.page import Page
from keras_transformer.serving.queues import Room
from keras_transformer.serving.settings import WebSettings

log = logging.getLogger(__name__)

METRICS = "/monitoring/prometheus/metrics"
LIVE, READY = "/livez", "/readyz"
_PROBES = (LIVE, METRICS, READY)
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
PREDICT = re.compile(rf"(?i:{_MODEL}):(?P<method>classify|regress|predict)", re.IGNORECASE)
STATUS = re.compile(rf"(?i:{_MODEL})(?P<metadata>/metadata)?", re.IGNORECASE)
_ADDRESS = re.compile("https?://([^/]+)", re.IGNORECASE)
"""What precedes a path if a client asks through a proxy, with its host."""
_NOT_FOUND = "<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>"


class Senders:
    """Refuses requests that a browser sends for a page of another site.

    A page elsewhere sends its own origin. If its name resolves to this server (DNS rebinding), the
    browser sends that name as the host.
    """

    def __init__(self, settings: WebSettings):
        own = ("localhost", "*.localhost", socket.gethostname(), socket.getfqdn(), settings.host)
        self._hosts = [name.lower().rstrip(".") for name in (*own, *settings.allowed_hosts)]
        self._origins = set(settings.allowed_origins)

    def check(self, request: Request) -> None:
        """Check where a request comes from; one without a host or an origin is from no browser.

        Raises:
            ClosingError: If its host is not a name of this server, or its origin another site.
        """
        host = request.headers.get("host", "")
        if host and not self._is_own(host):
            raise _refused("host", host, _name(host) or "NAME")
        # Images and scripts of a page have no origin, and a browser may be set to leave it out.
        is_foreign = request.headers.get("sec-fetch-site") == "cross-site"
        is_link = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
        origin = request.headers.get("origin", "null" if is_foreign and not is_link else None)
        if origin is None or origin.partition("://")[2].lower() == host.lower():
            return
        if not self._origins & {origin, "*"}:
            raise _refused("origin", origin, origin)

    def _is_own(self, host: str) -> bool:
        name = _name(host)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return any(fnmatch.fnmatchcase(name, pattern) for pattern in self._hosts)
        return True


class Application:
    """Answers HTTP requests: the page, probes, metrics, and a REST API that a subclass has."""

    paths: Container[str] = ()
    """Paths of the API besides those that begin with /v1/."""

    def __init__(self, metrics: Metrics, settings: WebSettings, page: Page | None = None):
        self._metrics, self._limits, self._page = metrics, settings.limits, page
        self._senders = Senders(settings)
        self._room = Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        path = scope["raw_path"].decode("ascii", "replace")
        if address := _ADDRESS.match(path):
            path = path[address.end() :] or "/"
            # RFC 9112 ignores the header, so this is the host to check.
            headers = [header for header in scope["headers"] if header[0] != b"host"]
            scope = {**scope, "headers": [*headers, (b"host", address[1].encode())]}
        request = Request(scope, receive)
        client = request.client.host if request.client else ""
        entry = Entry("REST", request.method, path[:200], client)
        if request.method == "POST" and (match := PREDICT.fullmatch(path)):
            entry.method, entry.model = "Predict", urllib.parse.unquote(match["name"])[:200]
        with self._metrics.request(entry):
            try:
                response = await self._answer(request, path, entry)
            except ClientDisconnect:
                entry.status = Code.CANCELLED.name
                return
            except ServingError as error:
                entry.status = error.code.name
                response = json_response({"error": error.message}, error.http_status)
                response.headers.update(error.headers)
                if isinstance(error, ClosingError):
                    response.headers["connection"] = "close"
            except asyncio.CancelledError:  # The server stops, and its time for that is over.
                entry.status = Code.UNAVAILABLE.name
                response = json_response({"error": "The server is stopping."}, 503)
            except Exception:
                log.exception("an error of the server")
                entry.status = Code.INTERNAL.name
                response = json_response({"error": "Internal error; see the server's log"}, 500)
            entry.http = response.status_code
            if entry.http >= 400 and entry.status == "OK":
                entry.status = f"HTTP {entry.http}"
            await response(scope, receive, send)

    async def _answer(self, request: Request, path: str, entry: Entry) -> Response:
        if request.method in ("GET", "HEAD") and path in _PROBES:
            return self._probe(path)
        self._senders.check(request)
        if path.lower().startswith("/v1/") or path in self.paths:
            with self._room.hold() as resize:
                body = await read_body(request, self._limits, resize)
                entry.bytes = len(body)
                work = self._answer_rest(request, path, body, entry)
                return await _for_client(request, work)
        if self._page and (response := await self._page.answer(request, path)):
            return response
        return HTMLResponse(_NOT_FOUND, 404)

    def _probe(self, path: str) -> Response:
        if path == METRICS:
            return Response(self._metrics.text(), media_type=CONTENT_TYPE)
        if path == LIVE:
            return PlainTextResponse("ok")
        models = self.ready()
        ready = all(models.values())
        return json_response({"ready": ready, "models": models}, 200 if ready else 503)

    def ready(self) -> dict[str, bool]:
        """Return whether each model can be used, by name."""
        return {}

    async def _answer_rest(
        self, request: Request, path: str, body: bytes, entry: Entry
    ) -> Response:
        """Answer a request of the API."""
        raise NotImplementedError


async def _for_client(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """Return the response that is worked out while its client waits.

    Raises:
        ClientDisconnect: If the client leaves; the work is cancelled.
    """

    async def leaves() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working, leaving = asyncio.create_task(work), asyncio.create_task(leaves())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


def json_response(answer: Any, status: int = 200, indent: int | None = 4) -> Response:
    """Return a response with a value as JSON."""
    return Response(encode(answer, indent), status, media_type="application/json")


def _name(host: str) -> str:
    """Return the name or address in a Host header, without a port.

    >>> [_name(host) for host in ("Mt.example.:8501", "[::1]:8501", "127.0.0.1", "[")]
    ['mt.example', '::1', '127.0.0.1', '']
    """
    try:
        return (urllib.parse.urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _refused(what: str, received: str, option: str) -> ClosingError:
    return ClosingError(
        Code.PERMISSION_DENIED,
        f"This server does not answer the {what} {received[:200]}. If it should, start it with "
        f"--allowed-{what}s {option[:200]}",
    )
