"""The BLEU that the page asks for."""

import json

import pytest
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp

from keras_transformer.evaluation import score
from tests.helpers.page import ask
from tests.helpers.tiny import run_python


def bleu(port, body):
    body = body if isinstance(body, str | bytes) else json.dumps(body)
    response = ask(port, "POST", "/page/bleu", body)
    return response.status, json.loads(response.body)


@pytest.fixture(scope="module")
def port(plain):
    return plain.server.rest_port


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
        "import sys; from keras_transformer.serving.page import score_request;"
        'score_request(b\'{"translations": ["a"], "references": ["a"]}\');'
        "print(*{'tensorflow', 'keras'} & sys.modules.keys())"
    )
    assert run_python("-c", code).stdout.strip() == ""
