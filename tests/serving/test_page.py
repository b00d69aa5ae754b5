"""The page: its files, what it says about the model, BLEU, and the page in front of a server."""

import asyncio
import gzip
import http.client
import http.server
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from keras_transformer.evaluation import score
from keras_transformer.serving.about import about
from keras_transformer.serving.backend import PageServer
from keras_transformer.serving.page import HEADERS, Page
from keras_transformer.serving.settings import Limits, PageSettings
from tests.helpers.model_server import ModelServer
from tests.helpers.tiny import ROOT, run_python
from tests.serving.conftest import connect

FILES = ROOT / "keras_transformer" / "serving" / "page"
SHIPPED = ROOT / "saved_models" / "multi30k_en_de" / "1"


def ask(port, method, path, body=None, headers=None):
    """Return a response with its body; `path` is sent as it is."""
    connection = http.client.HTTPConnection("localhost", port, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        return SimpleNamespace(status=response.status, headers=response.headers, body=content)
    finally:
        connection.close()


def bleu(port, body):
    body = body if isinstance(body, str | bytes) else json.dumps(body)
    response = ask(port, "POST", "/page/bleu", body)
    return response.status, json.loads(response.body)


@pytest.fixture(scope="module")
def port(plain):
    return plain.server.rest_port


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


@pytest.fixture(scope="module")
def passing(plain):
    with Passing(f"http://localhost:{plain.server.rest_port}") as page:
        yield page


@pytest.fixture
def strange(request):
    """The address of a server whose answer is the test's own."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            request.param(self)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()


# The files


def test_the_page_is_at_the_root(port):
    response = ask(port, "GET", "/")
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.body == (FILES / "index.html").read_bytes()
    head = ask(port, "HEAD", "/")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == response.headers["content-length"]


def test_what_the_files_refer_to_is_served(port):
    names = {"index.html"}
    for file in FILES.iterdir():
        text = file.read_text(encoding="utf-8")
        found = re.findall(r'(?:href|src)="page/([^"]+)"|from "\./([^"]+)"', text)
        names |= {one or other for one, other in found}
    assert names == {file.name for file in FILES.iterdir()}  # And nothing else is there.
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    for name in names - {"index.html"}:
        response = ask(port, "GET", f"/page/{name}")
        assert response.status == 200
        assert response.headers["content-type"].startswith(kinds[name.rpartition(".")[2]])


def test_the_page_has_nothing_from_elsewhere_and_no_html_from_text():
    for file in FILES.iterdir():
        text = file.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?:|[\"'(]//|@import|url\(", text), file
        if file.suffix == ".js":
            unsafe = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
            assert not re.search(unsafe, text), file
    page = (FILES / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?![^>]*\ssrc=)", page)


@pytest.mark.parametrize("path", ["/", "/page/page.js", "/page/page.css", "/page/model.json"])
def test_every_file_has_the_strict_headers(path, port):
    response = ask(port, "GET", path)
    assert response.status == 200
    for name, value in HEADERS.items():
        assert response.headers.get_all(name) == [value]
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}


@pytest.mark.parametrize(
    "path",
    [
        "/index.html",
        "/page",
        "/page/",
        "/page/index.html",
        "/page/page.css/",
        "/page/page.py",
        "/page/PAGE.css",
        "//page/page.css",
        "/page//page.css",
        "/page/../page.py",
        "/page/..%2fpage.py",
        "/page/%2e%2e/page.py",
        "/page/%2e%2e%2f%2e%2e%2fsetup.py",
        "/page/page.css%00.html",
        "/page/" + "a" * 5000,
        "/favicon.ico",
    ],
)
def test_other_paths_are_not_found(path, port, passing):
    for each in (port, passing.port):
        response = ask(each, "GET", path)
        assert response.status == 404
        assert b"Not Found" in response.body


def test_a_stray_file_is_not_served(tmp_path, monkeypatch):
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_bytes(b"a page")
    (tmp_path / "page" / ".DS_Store").write_bytes(b"")
    monkeypatch.setattr("importlib.resources.files", lambda name: tmp_path)
    assert list(Page("x", lambda: None, Limits())._files) == ["/"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_not_found(method, port):
    assert ask(port, method, "/", "{}").status == 404
    assert ask(port, method, "/page/page.css", "{}").status == 404


def test_the_page_can_be_left_out(base):
    with ModelServer(base, "shout", page=False) as server:
        for path in ("/", "/page/page.css", "/page/model.json"):
            assert ask(server.rest_port, "GET", path).status == 404
        assert bleu_status(server.rest_port) == 404
        assert connect(server).post({"inputs": ["a"]}) == (200, {"outputs": ["A"]})


def bleu_status(port):
    return ask(port, "POST", "/page/bleu", '{"translations": ["a"], "references": ["a"]}').status


# What it says about the model


def test_a_model_without_a_record_has_its_name_and_version(port):
    response = ask(port, "GET", "/page/model.json")
    assert json.loads(response.body) == {"name": "shout", "version": "3"}


def test_the_record_and_the_card_of_an_export_are_shown():
    known = about(SHIPPED)
    assert known["version"] == "1"
    assert known["max_source_length"] == 128
    assert known["description"].startswith("English to German, for captions of photographs.")
    assert known["card"] == (SHIPPED / "README.md").read_text(encoding="utf-8")
    facts = dict(known["facts"])
    assert facts["BLEU"] == "41.7"
    assert facts["Parameters"] == "2,342,912"
    assert facts["Decoder layers"] == "4"
    assert facts["Longest text"] == "128 subwords"


@pytest.mark.parametrize(
    "record",
    [
        "",
        "[]",
        100_000 * "[",
        '{"scores": "good", "parameters": true, "model": 1}',
        '{"parameters": "many"}',
    ],
)
def test_a_damaged_record_hides_only_itself(record, tmp_path):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "assets.extra" / "export.json").write_text(record)
    (tmp_path / "README.md").write_bytes(b"A \xff card")
    assert about(tmp_path) == {"version": tmp_path.name, "card": "A � card"}


def test_values_of_a_record_with_other_types_are_left_out(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    record = {
        "scores": [1],
        "description": None,
        "model": {"num_layers": "<b>6</b>", "d_model": float("inf"), "num_heads": 10**400},
        "vocabulary": {"source": [1], "target": "many"},
        "decoding": {"max_source_length": float("nan")},
    }
    (tmp_path / "assets.extra" / "export.json").write_text(json.dumps(record))
    known = about(tmp_path)
    assert known == {
        "version": tmp_path.name,
        "description": "",
        "facts": [("Weights", "float32")],
    }


def test_a_parser_is_known_and_has_f1(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    record = {"scores": {"f1": 91.26}, "vocabulary": {"target_tokenizer": "TreeTokenizer"}}
    (tmp_path / "assets.extra" / "export.json").write_text(json.dumps(record))
    known = about(tmp_path)
    assert known["makes_trees"] is True
    assert ("F1", "91.3") in known["facts"]


def test_a_description_may_have_half_a_character(tmp_path):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "assets.extra" / "export.json").write_text('{"description": "\\ud800"}')
    assert about(tmp_path)["description"] == "?"


def test_the_card_in_front_is_that_of_the_highest_version_at_the_time(tmp_path):
    with Passing("http://localhost:1", base=tmp_path) as page:
        known = lambda: json.loads(ask(page.port, "GET", "/page/model.json").body)  # noqa: E731
        assert known() == {"name": "shout"}
        for number in ("9", "010"):
            (tmp_path / number).mkdir()
            (tmp_path / number / "README.md").write_text(f"Card {number}")
            assert known() == {"name": "shout", "version": number, "card": f"Card {number}"}


def test_the_page_follows_the_version_that_is_served(tmp_path):
    versions = [None, tmp_path / "1", tmp_path / "2"]
    page = Page("x", lambda: versions[0], Limits())
    assert asyncio.run(page._model()) == {"name": "x"}
    versions.pop(0)
    assert asyncio.run(page._model()) == {"name": "x", "version": "1"}
    versions.pop(0)
    assert asyncio.run(page._model()) == {"name": "x", "version": "2"}


# BLEU


def test_bleu_is_that_of_the_evaluation(port):
    translations = ["Ein Hund rennt am Strand.", "Zwei Männer."]
    references = ["Ein Hund läuft am Strand.", "Zwei Männer spielen."]
    status, answer = bleu(port, {"translations": translations, "references": references})
    expected = score(translations, references)
    assert status == 200
    assert answer == {
        "bleu": expected.bleu,
        "chrf": expected.chrf,
        "signature": expected.signature,
        "chrf_signature": expected.chrf_signature,
        "sentences": 2,
    }


@pytest.mark.parametrize(
    "body, message",
    [
        ("", "must be JSON with `translations` and `references`"),
        ("[" * 100_000, "must be JSON"),
        ([1], "must be JSON"),
        ({"translations": ["a"]}, "must be JSON"),
        ({"translations": "a", "references": ["a"]}, "must be lists of strings"),
        ({"translations": ["a"], "references": [1]}, "must be lists of strings"),
        ({"translations": ["a"], "references": ["a", "b"]}, "1 hypotheses and 2 references"),
        ({"translations": [], "references": []}, "at least one sentence"),
        ({"translations": 1025 * ["a"], "references": 1025 * ["a"]}, "at most 1024 sentences"),
        ({"translations": ["a"], "references": ["a" * 65537]}, "may have 65536 characters"),
    ],
)
def test_bleu_refuses_what_is_malformed(body, message, port):
    status, answer = bleu(port, body)
    assert status == 400
    assert message in answer["error"]


def test_bleu_refuses_more_than_256_kilobytes(port):
    status, answer = bleu(port, b" " * ((256 << 10) + 1))
    assert (status, answer) == (413, {"error": "The request is larger than 262144 bytes"})


def test_bleu_refuses_other_sites(port):
    body = '{"translations": ["a"], "references": ["a"]}'
    for site, status in {"cross-site": 403, "same-origin": 200, "none": 200}.items():
        headers = {"Sec-Fetch-Site": site}
        assert ask(port, "POST", "/page/bleu", body, headers).status == status


def test_bleu_keeps_no_sentence(port):
    assert bleu(port, {"translations": ["Keep me."], "references": ["Keep you."]})[0] == 200
    for tokenizer in (Tokenizer13a, TokenizerRegexp):
        assert tokenizer.__call__.cache_info().currsize == 0


def test_bleu_needs_no_tensorflow():
    code = (
        "import sys; from keras_transformer.serving.bleu import score_request;"
        'score_request(b\'{"translations": ["a"], "references": ["a"]}\');'
        "print(*{'tensorflow', 'keras'} & sys.modules.keys())"
    )
    assert run_python("-c", code).stdout.strip() == ""


# The page in front of another server


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


def test_a_compressed_request_is_passed_on(passing):
    body = gzip.compress(b'{"instances": ["a"]}')
    headers = {"Content-Encoding": "gzip"}
    response = ask(passing.port, "POST", "/v1/models/shout:predict", body, headers)
    assert json.loads(response.body) == {"predictions": ["A"]}


def test_the_page_in_front_shows_a_given_card(plain):
    with Passing(f"http://localhost:{plain.server.rest_port}", base=SHIPPED.parent) as page:
        known = json.loads(ask(page.port, "GET", "/page/model.json").body)
    assert known["name"] == "shout"
    assert known["card"].startswith("# multi30k_en_de")


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/v1/models/other"),
        ("POST", "/v1/models/other:predict"),
        ("GET", "/v1/models/shout/../other"),
        ("GET", "/v1/models/shout/labels/%2e%2e%2f%2e%2e%2fother"),
        ("GET", "/v1/models/shout/labels/../metadata"),
        ("GET", "/v1/models/shout/labels/%2E/metadata"),
        ("POST", "/v1/models/shout/labels/%252e%252e%252fother:predict"),
        ("GET", "/v1/models/shout/labels/a%0ab"),
        ("GET", "/v1/models/shout/labels/a%3fb"),
        ("GET", "/v1/models/shout/labels/a%5cb"),
        ("GET", "/v1/models/shout/versions/3/../../../../monitoring/prometheus/metrics"),
        ("GET", "/v1/models/shout%2f..%2f..%2fmonitoring"),
        ("GET", "/v1/models/shout:predict"),
        ("POST", "/v1/models/shout"),
        ("DELETE", "/v1/models/shout"),
        ("GET", "/v1/http://localhost:1/"),
        ("GET", "/v1/models/shout@localhost:1/"),
        ("GET", "/v1/"),
    ],
)
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


def never(handler):
    time.sleep(2)


def drip(handler):
    handler.send_response(200)
    handler.end_headers()
    for _ in range(20):
        handler.wfile.write(b" ")
        time.sleep(0.1)


def cut(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "9")
    handler.end_headers()
    handler.wfile.write(b"[")


def redirect(handler):
    handler.send_response(302)
    handler.send_header("Location", "http://localhost:1/secret")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def large(handler):
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"[" + b" " * 5000 + b"]")


def broken(handler):
    handler.wfile.write(b"no HTTP\r\n\r\n")


def script(handler):
    handler.send_response(200)
    handler.send_header("Content-Type", "text/html")
    handler.send_header("Set-Cookie", "a=b")
    handler.end_headers()
    handler.wfile.write(b"<script></script>")


@pytest.mark.parametrize(
    "strange, status, message",
    [
        (never, 504, "did not answer in 0.3 seconds"),
        (large, 502, "has more than 4096 bytes"),
        (drip, 504, "did not answer in 0.3 seconds"),
        (broken, 502, "broke off its answer"),
        (cut, 502, "broke off its answer"),
    ],
    indirect=["strange"],
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
        with Passing(f"http://localhost:{plain.server.rest_port}", timeout=1) as page:
            ask_predict = lambda: ask(page.port, "POST", "/v1/models/shout:predict", "{}")  # noqa: E731
            with ThreadPoolExecutor(20) as pool:
                late = [pool.submit(ask_predict) for _ in range(20)]
                time.sleep(0.3)
                started = time.monotonic()
                assert ask(page.port, "GET", "/v1/models/shout").status == 200
                assert time.monotonic() - started < 0.5
                assert {future.result().status for future in late} == {504}
                assert time.monotonic() - started < 2
            go_on.set()
    finally:
        go_on.set()
        plain.server.on_predict = lambda: None


@pytest.mark.parametrize("strange", [redirect], indirect=True)
def test_a_redirect_is_not_followed(strange):
    with Passing(strange) as page:
        response = ask(page.port, "GET", "/v1/models/shout")
    assert response.status == 302
    assert "location" not in response.headers


@pytest.mark.parametrize("strange", [script], indirect=True)
def test_an_answer_is_only_ever_data(strange):
    with Passing(strange) as page:
        response = ask(page.port, "GET", "/v1/models/shout")
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in response.headers


def test_a_request_that_is_too_large_is_refused(plain):
    limits = Limits(request_bytes=1000)
    with Passing(f"http://localhost:{plain.server.rest_port}", limits=limits) as page:
        response = ask(page.port, "POST", "/v1/models/shout:predict", b" " * 1001)
    assert response.status == 413


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:8501",
        "ftp://localhost",
        "http://",
        "http://:8501",
        "http://localhost:0",
        "http://localhost:99999",
        "http://user:word@localhost:8501",
        "http://localhost:8501/?a=b",
        "file:///etc/passwd",
    ],
)
def test_the_address_must_be_that_of_a_server(address):
    with pytest.raises(ValueError, match="address of a model server must be like http://localhost"):
        PageSettings(backend=address, name="x")


def test_a_prefix_of_the_address_is_kept():
    settings = PageSettings(backend="https://host.example/models/", name="x")
    assert settings.backend == "https://host.example/models"
