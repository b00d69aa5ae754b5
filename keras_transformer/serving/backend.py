"""The page in front of another model server, such as `tensorflow_model_server`."""

import asyncio
import urllib.parse
from collections.abc import Callable

import urllib3
from starlette.requests import Request
from starlette.responses import Response

from keras_transformer.serving.application import PREDICT, STATUS, Application
from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.hosting import HttpServer, bind, first_to_end, run_until_signal
from keras_transformer.serving.http import read_body
from keras_transformer.serving.metrics import Entry, Metrics
from keras_transformer.serving.page import Page
from keras_transformer.serving.settings import PageSettings
from keras_transformer.serving.workers import Workers

_CONNECT_SECONDS = 5
_CONNECTIONS = 16


class PassThrough(Application):
    """Answers with the page, and passes requests for one model on to its server.

    No other path, model or server can be reached through it.

    Args:
        settings: The server, and the model.
    """

    def __init__(self, settings: PageSettings):
        page = Page(settings.name, lambda: settings.version, settings.limits)
        super().__init__(Metrics(settings.name), page)
        self._settings = settings
        self._workers = Workers(_CONNECTIONS, settings.limits.waiting)
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=settings.timeout)
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS, retries=False, timeout=timeout, headers={}
        )

    async def _answer_rest(self, request: Request, path: str, entry: Entry) -> Response:
        body = await read_body(request, self._settings.limits)
        entry.bytes = len(body)
        pattern = {"POST": PREDICT, "GET": STATUS}.get(request.method)
        match = pattern and pattern.fullmatch(path)
        if not match or urllib.parse.unquote(match["name"]) != self._settings.name:
            raise ServingError(
                Code.NOT_FOUND,
                f"This server has the model {self._settings.name} only, and its Predict, status "
                "and metadata requests.",
            )
        rest = path[match.end("name") :]
        name = urllib.parse.quote(self._settings.name, safe="")
        url = f"{self._settings.backend}/v1/models/{name}{rest}"
        status, content = await self._workers.run(self._send, request.method, url, body)
        entry.status = "OK" if status < 400 else f"HTTP {status}"
        headers = {"X-Content-Type-Options": "nosniff"}
        return Response(content, status, headers, media_type="application/json")

    def _send(self, method: str, url: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the server's answer."""
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        most = self._settings.limits.answer_bytes
        try:
            response = self._pool.request(
                method,
                url,
                body=body if method == "POST" else None,
                headers=headers,
                redirect=False,
                preload_content=False,
            )
            try:
                content = response.read(most + 1)
                if len(content) > most:
                    response.close()
                    raise ServingError(
                        Code.INTERNAL, f"The answer has more than {most} bytes.", http=502
                    )
            finally:
                response.release_conn()
        except urllib3.exceptions.ReadTimeoutError as error:
            message = f"The model server did not answer in {self._settings.timeout:g} seconds"
            raise ServingError(Code.DEADLINE_EXCEEDED, message, http=504) from error
        except urllib3.exceptions.HTTPError as error:
            message = f"The model server at {self._settings.backend} does not answer"
            raise ServingError(Code.UNAVAILABLE, message, http=502) from error
        return response.status, content

    def stop(self) -> None:
        """Drop requests that have not begun."""
        self._workers.stop()


class PageServer:
    """A server with the page only.

    Attributes:
        rest: The ASGI application.
        rest_port: The port, once the server has started.

    Args:
        settings: What is shown, and where.
    """

    def __init__(self, settings: PageSettings):
        self._settings, self.rest = settings, PassThrough(settings)
        self.rest_port = 0

    async def start(self) -> None:
        """Open the port.

        Raises:
            OSError: If it is taken.
        """
        listener = bind(self._settings.host, self._settings.rest_port)
        self.rest_port = listener.getsockname()[1]
        listener.listen(2048)
        self._http = HttpServer(self.rest, self._settings.limits)
        self._serving = asyncio.create_task(self._http.serve([listener]))

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set, or the server ends with an error."""
        await first_to_end(stop, {self._serving})

    async def stop(self) -> None:
        """Refuse new requests, finish those that run, and close the port."""
        self._http.should_exit = True
        await self._serving
        self.rest.stop()

    def __str__(self) -> str:
        return f"page at {self._settings.host}:{self.rest_port}, of {self._settings.backend}"


def serve_page(settings: PageSettings, started: Callable[[], None] = lambda: None) -> None:
    """Serve the page until SIGTERM or SIGINT.

    Args:
        settings: What is shown, and where.
        started: Called once the port is open.

    Raises:
        OSError: If the port is taken.
    """
    run_until_signal(lambda: PageServer(settings), settings.limits.stop_seconds, started)
