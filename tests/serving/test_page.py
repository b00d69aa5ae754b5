"""The page: its files, what it says about the model, and BLEU for it."""

import json
import re

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from keras_transformer.evaluation import score
from keras_transformer.serving.page import HEADERS, Page, about
from keras_transformer.serving.settings import Limits
from tests.helpers.model_server import ModelServer
from tests.helpers.page import Passing, ask, bleu_status
from tests.helpers.tiny import ROOT, run_python
from tests.serving.conftest import connect

FILES = ROOT / "keras_transformer" / "serving" / "page"
SHIPPED = ROOT / "saved_models" / "multi30k_en_de" / "1"


def test_the_page_is_at_the_root(port):
    response = ask(port, "GET", "/")
    assert response.status == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.body == (FILES / "index.html").read_bytes()


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


OTHER_PATHS = """
/index.html /page /page/ /page/index.html /page/page.css/ /page/page.py /page/PAGE.css
//page/page.css /page//page.css /page/../page.py /page/..%2fpage.py /page/%2e%2e/page.py
/page/%2e%2e%2f%2e%2e%2fsetup.py /page/page.css%00.html /favicon.ico
"""


@pytest.mark.parametrize("path", [*OTHER_PATHS.split(), "/page/" + "a" * 5000])
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
    assert list(Page(lambda: {"x": None}, Limits())._files) == ["/"]


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
    assert known["languages"] == ["en", "de"]
    assert known["license"] == "for research"
    assert known["examples"][0] == "A dog runs on the beach."
    assert known["card"] == (SHIPPED / "README.md").read_text(encoding="utf-8")
    facts = dict(known["facts"])
    assert facts["BLEU"] == "41.7"
    assert facts["Parameters"] == "2,342,912"
    assert facts["Decoder layers"] == "4"
    assert facts["Longest text"] == "128 tokens"
    assert facts["Attribution"].startswith("Multi30k by Elliott")


@pytest.mark.parametrize(
    "record, known",
    [
        ("", {}),
        ("[]", {}),
        (100_000 * "[", {}),
        ('{"scores": "good", "parameters": true, "model": 1}', {}),
        ('{"parameters": "many"}', {}),
        ('{"description": "\\ud800"}', {"description": "?", "facts": [("Weights", "float32")]}),
        (  # A run on a TFDS dataset names its languages.
            '{"data": {"source_language": "en", "target_language": "de"}}',
            {"description": "", "languages": ["en", "de"], "facts": [("Weights", "float32")]},
        ),
        (
            '{"languages": ["en", 1, " "], "license": "\\ud800", "examples": ["a", null, "", "b"]}',
            {
                "description": "",
                "license": "?",
                "examples": ["a", "b"],
                "facts": [("Weights", "float32")],
            },
        ),
        (  # Values of other types are left out.
            json.dumps(
                {
                    "languages": "en",
                    "license": {"name": "MIT"},
                    "attribution": 1,
                    "examples": "A dog.",
                    "data": [],
                    "scores": [1],
                    "description": None,
                    "model": {
                        "num_layers": "<b>6</b>",
                        "d_model": 1e999,
                        "num_heads": 10**400,
                    },
                    "vocabulary": {"source": [1], "target": "many"},
                    "decoding": {"max_source_length": float("nan")},
                }
            ),
            {"description": "", "facts": [("Weights", "float32")]},
        ),
        (
            '{"signatures": {"translate": {}}, "vocabulary": {"languages": ["en", "de", 1]}, '
            '"decoding": {"source_language": "en", "target_language": ["de"]}}',
            {
                "description": "",
                "facts": [("Weights", "float32")],
                "language_codes": ["en", "de"],
                "source_language": "en",
                "target_language": "",
            },
        ),
        (
            '{"scores": {"f1": 91.26}, "vocabulary": {"target_tokenizer": "TreeTokenizer"}}',
            {
                "description": "",
                "makes_trees": True,
                "facts": [("F1", "91.3"), ("Weights", "float32")],
            },
        ),
    ],
)
def test_a_record_is_shown_as_far_as_it_is_whole(record, known, tmp_path):
    (tmp_path / "assets.extra").mkdir()
    (tmp_path / "assets.extra" / "export.json").write_text(record)
    (tmp_path / "README.md").write_bytes(b"A \xff card")
    assert about(tmp_path) == {"version": tmp_path.name, "card": "A � card", **known}


def test_the_card_in_front_is_that_of_the_highest_version_at_the_time(tmp_path):
    with Passing("http://localhost:1", base=tmp_path) as page:
        known = lambda: json.loads(ask(page.port, "GET", "/page/model.json").body)  # noqa: E731
        assert known() == {"name": "shout"}
        for number in ("9", "010"):
            (tmp_path / number).mkdir()
            (tmp_path / number / "README.md").write_text(f"Card {number}")
            assert known() == {"name": "shout", "version": number, "card": f"Card {number}"}


def bleu(port, body):
    body = body if isinstance(body, str | bytes) else json.dumps(body)
    response = ask(port, "POST", "/page/bleu", body)
    return response.status, json.loads(response.body)


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


def test_bleu_keeps_no_sentence(port):
    for texts in (["Keep me."], ["保持我"], ["わたし"]):
        assert bleu(port, {"translations": texts, "references": texts})[0] == 200
    for tokenizer in (Tokenizer13a, TokenizerRegexp, TokenizerZh, TokenizerChar):
        assert tokenizer.__call__.cache_info().currsize == 0


def test_bleu_needs_no_tensorflow():
    code = (
        "import sys; from keras_transformer.serving.page import score_request;"
        'score_request(b\'{"translations": ["a"], "references": ["a"]}\');'
        "print(*{'tensorflow', 'keras'} & sys.modules.keys())"
    )
    assert run_python("-c", code).stdout.strip() == ""
