"""Pages of other sites that try to use the server through the browser of its user."""

import http.server
import threading

import pytest

from tests.helpers.model_server import ModelServer
from tests.serving.conftest import connect, samples

pytestmark = pytest.mark.slow

FETCH = """([port, options]) => fetch(`http://localhost:${port}/v1/models/parrot:predict`, {
    method: "POST", body: '{"instances": ["a dog"]}', ...options,
}).then((response) => response.text())"""
JSON = {"headers": {"Content-Type": "application/json"}}


@pytest.fixture
def elsewhere(browser):
    """A page of another site, whose name resolves to this machine, and its origin."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<title>x</title>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        origin = f"http://elsewhere.example:{server.server_address[1]}"
        page.goto(origin)
        yield page, origin
        page.close()
        server.shutdown()


def test_another_site_cannot_use_the_server(elsewhere, parrot):
    page, _ = elsewhere
    client, name = connect(parrot), "tensorflow:serving:request_count"
    before = samples(client, name)
    assert page.evaluate(FETCH, [parrot.rest_port, {"mode": "no-cors"}]) == ""  # Text, unasked.
    for options in ({}, JSON):
        with pytest.raises(Exception, match="Failed to fetch"):
            page.evaluate(FETCH, [parrot.rest_port, options])
    changed = {
        key: value for key, value in samples(client, name).items() if before.get(key) != value
    }
    refused = ("REST", "parrot", "PERMISSION_DENIED", "")
    assert changed == {refused: before.get(refused, 0) + 2}  # And no preflight succeeded.


def test_a_name_that_resolves_to_the_server_is_refused(elsewhere, parrot):
    page, _ = elsewhere
    for path in ("", "page/model.json", "v1/models/parrot"):
        response = page.goto(f"http://elsewhere.example:{parrot.rest_port}/{path}")
        assert response.status == 403
        assert "--allowed-hosts elsewhere.example" in response.text()


def test_an_allowed_site_can(elsewhere, parrot):
    page, origin = elsewhere
    (model,) = parrot.settings.models
    with ModelServer(model.base, "parrot", allowed_origins=[origin]) as server:
        for options in ({}, JSON):
            assert "A DOG" in page.evaluate(FETCH, [server.rest_port, options])
