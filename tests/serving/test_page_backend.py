"""The page in front of another server."""

import functools
import gzip
import http.server
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from keras_transformer.serving.settings import Limits, PageSettings
from tests.helpers.page import Passing, ask, bleu_status

OK = b"HTTP/1.0 200 OK\r\n"


@pytest.fixture
def strange(request):
    """The address of a server that sends the test's bytes, in parts a tenth of a second apart."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            for number, part in enumerate(request.param):
                time.sleep(0.1 if number else 0)
                self.wfile.write(part)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


def test_requests_are_passed_on(passing, port):
    assert ask(passing.port, "GET", "/").body == ask(port, "GET", "/").body
    assert json.loads(ask(passing.port, "GET", "/page/model.json").body) == {"name": "shout"}
    assert bleu_status(passing.port) == 200
    model = "/v1/models/shout"
    for path in (model, f"{model}/versions/3", f"{model}/metadata", f"{model}/versions/4"):
        here, there = ask(passing.port, "GET", path), ask(port, "GET", path)
        assert (here.status, here.body) == (there.status, there.body)
    for path in (f"{model}:predict", f"{model}/versions/3:predict", f"{model}/labels/x:predict"):
        for body in ('{"instances": ["zwölf"]}', '{"inputs": 1}', "{"):
            here, there = (ask(each, "POST", path, body.encode()) for each in (passing.port, port))
            assert (here.status, here.body) == (there.status, there.body)
    body, compressed = gzip.compress(b'{"instances": ["a"]}'), {"Content-Encoding": "gzip"}
    response = ask(passing.port, "POST", f"{model}:predict", body, compressed)
    assert json.loads(response.body) == {"predictions": ["A"]}
    get, head = (ask(passing.port, method, model) for method in ("GET", "HEAD"))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(get.body))


PATHS = """
GET /v1/models/other
POST /v1/models/other:predict
GET /v1/models/shout/../other
GET /v1/models/shout/labels/%2e%2e%2f%2e%2e%2fother
GET /v1/models/shout/labels/../metadata
GET /v1/models/shout/labels/%2E/metadata
POST /v1/models/shout/labels/%252e%252e%252fother:predict
GET /v1/models/shout/labels/a%0ab
GET /v1/models/shout/labels/a%3fb
GET /v1/models/shout/labels/a%5cb
GET /v1/models/shout/versions/3/../../../../monitoring/prometheus/metrics
GET /v1/models/shout%2f..%2f..%2fmonitoring
GET /v1/models/shout:predict
POST /v1/models/shout
DELETE /v1/models/shout
GET /v1/http://localhost:1/
GET /v1/models/shout@localhost:1/
GET /v1/
"""


@pytest.mark.parametrize("method, path", [line.split() for line in PATHS.strip().splitlines()])
def test_nothing_else_of_the_server_is_reached(method, path, passing, plain):
    before = len(plain.server.paths)
    response = ask(passing.port, method, path, "{}" if method == "POST" else None)
    assert response.status == 404
    assert "has the model shout only" in json.loads(response.body)["error"]
    assert len(plain.server.paths) == before


def test_the_name_of_a_model_is_quoted(plain):
    with Passing(f"http://localhost:{plain.server.rest_port}", name="a b?#") as page:
        response = ask(page.port, "GET", "/v1/models/a%20b%3F%23")
    assert plain.server.paths[-1] == "/v1/models/a%20b%3F%23"
    assert response.status == 404


def test_a_server_that_is_away_is_one_sentence(caplog):
    with Passing("http://localhost:1") as page:
        response = ask(page.port, "GET", "/v1/models/shout")
    message = "The model server at http://localhost:1 cannot be reached"
    assert (response.status, json.loads(response.body)) == (502, {"error": message})
    assert any("refused" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    "strange, status, message",
    [
        (20 * [b""], 504, "did not answer in 0.3 seconds"),
        ([OK + b"\r\n", *(20 * [b" "])], 504, "did not answer in 0.3 seconds"),
        ([OK + b"\r\n[" + b" " * 5000 + b"]"], 502, "has more than 4096 bytes"),
        ([b"no HTTP\r\n\r\n"], 502, "broke off its answer"),
        ([OK + b"Content-Length: 9\r\n\r\n["], 502, "broke off its answer"),
    ],
    indirect=["strange"],
    ids=["never", "drip", "large", "broken", "cut"],
)
def test_an_answer_has_limits(strange, status, message):
    limits = Limits(answer_bytes=4096)
    with Passing(strange, timeout=0.3, limits=limits) as page:
        response = ask(page.port, "GET", "/v1/models/shout")
    assert response.status == status
    assert message in json.loads(response.body)["error"]


def test_status_does_not_wait_for_predict(plain):
    """Although more of those wait than there are workers."""
    go_on = threading.Event()
    plain.server.on_predict = lambda: go_on.wait(20)
    try:
        limits = Limits(waiting=40)  # Of which a client may have half.
        backend = f"http://localhost:{plain.server.rest_port}"
        with Passing(backend, timeout=1, limits=limits) as page:
            ask_predict = functools.partial(
                ask, page.port, "POST", "/v1/models/shout:predict", "{}"
            )
            with ThreadPoolExecutor(20) as pool:
                late = [pool.submit(ask_predict) for _ in range(20)]
                time.sleep(0.3)
                started = time.monotonic()
                assert ask(page.port, "GET", "/v1/models/shout").status == 200
                assert time.monotonic() - started < 0.5
                assert ask_predict().status == 503
                assert ask_predict(source=("127.0.0.2", 0)).status == 504
                assert {future.result().status for future in late} == {504}
                assert time.monotonic() - started < 2
    finally:
        go_on.set()
        plain.server.on_predict = lambda: None


REDIRECT = b"""HTTP/1.0 302 Found\r
Location: http://localhost:1/secret\r
Content-Type: text/html\r
Set-Cookie: a=b\r
\r
<script></script>"""


@pytest.mark.parametrize("strange", [[REDIRECT]], indirect=True)
def test_an_answer_is_only_ever_data_and_no_redirect(strange):
    with Passing(strange) as page:
        response = ask(page.port, "GET", "/v1/models/shout")
    assert (response.status, response.body) == (302, b"<script></script>")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert not {"location", "set-cookie"} & {name.lower() for name in response.headers}


ADDRESSES = """
localhost:8501 ftp://localhost http:// http://:8501 http://localhost:0 http://localhost:99999
http://user:word@localhost:8501 http://localhost:8501/?a=b file:///etc/passwd
"""


@pytest.mark.parametrize("address", ["", *ADDRESSES.split()])
def test_the_address_must_be_that_of_a_server(address):
    with pytest.raises(ValueError, match="address of a model server must be like http://localhost"):
        PageSettings(backend=address, name="x")


def test_a_prefix_of_the_address_is_kept():
    settings = PageSettings(backend="https://host.example/models/", name="x")
    assert settings.backend == "https://host.example/models"
