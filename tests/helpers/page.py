"""Requests to the server's page, and the page in front of another server."""

import asyncio
import http.client
import threading
from types import SimpleNamespace

from keras_transformer.serving.backend import PageServer
from keras_transformer.serving.settings import PageSettings


def ask(port, method, path, body=None, headers=None, source=None):
    """Return a response with its body; `path` is sent as it is, from a source address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, 30, source_address=source)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        return SimpleNamespace(status=response.status, headers=response.headers, body=content)
    finally:
        connection.close()


def bleu_status(port):
    """Return the status of a small request for BLEU."""
    return ask(port, "POST", "/page/bleu", '{"translations": ["a"], "references": ["a"]}').status


class Passing:
    """The page in front of a model server, in a thread."""

    def __init__(self, backend, **settings):
        given = {"name": "shout", "rest_port": 0, **settings}
        self.settings = PageSettings(backend=backend, **given)

    def __enter__(self):
        self._ready, self._stop = threading.Event(), None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    async def _run(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = PageServer(self.settings)
        await server.start()
        self.port = server.rest_port
        self._ready.set()
        await server.run_until(self._stop)
        await server.stop()
