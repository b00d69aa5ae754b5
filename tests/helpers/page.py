"""Requests to the server's page, and the page in front of another server."""

import http.client
from types import SimpleNamespace

from keras_transformer.serving.backend import PageServer
from keras_transformer.serving.settings import PageSettings
from tests.helpers.model_server import InThread


def ask(port, method, path, body=None, headers=None, source=None):
    """Return a response with its body; `path` is sent as it is, from a source address."""
    connection = http.client.HTTPConnection("127.0.0.1", port, 60, source_address=source)
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


class Passing(InThread):
    """The page in front of a model server, in a thread."""

    def __init__(self, backend, name="shout", rest_port=0, **settings):
        settings = PageSettings(backend=backend, name=name, rest_port=rest_port, **settings)
        super().__init__(lambda: PageServer(settings))

    @property
    def port(self):
        return self.rest_port
