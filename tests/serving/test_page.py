"""The page: its files, and what it says about the model."""

import asyncio
import json
import re

import pytest

from keras_transformer.serving.page import HEADERS, Page, about
from keras_transformer.serving.settings import Limits
from tests.helpers.model_server import ModelServer
from tests.helpers.page import Passing, ask, bleu_status
from tests.helpers.tiny import ROOT
from tests.serving.conftest import connect

FILES = ROOT / "keras_transformer" / "serving" / "page"
SHIPPED = ROOT / "saved_models" / "multi30k_en_de" / "1"


@pytest.fixture(scope="module")
def port(plain):
    return plain.server.rest_port


@pytest.fixture(scope="module")
def passing(plain):
    with Passing(f"http://localhost:{plain.server.rest_port}") as page:
        yield page


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
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
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
    assert facts["Longest text"] == "128 tokens"


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
