"""An exported model in a process with TensorFlow and the tokenizer, but without Python."""

import functools
import shutil
import subprocess
import tempfile

import pytest
import tensorflow as tf

from benchmarks.native_host import build, serve
from keras_transformer.config import DecodingConfig
from keras_transformer.translation import compiled_search
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    export_quickly,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="the host is built with gcc"),
]

ORDINARY = [text.encode() for text in toy_sentences(14)]
HOSTILE = [text.encode() for text in ODD] + NO_UTF8


SEARCH = {"beam_size": 3, "extra_length": 6, "max_source_length": 12, "num_hypotheses": 1}
VARIANTS = pytest.mark.parametrize("compiled", [False, True], ids=["portable", "compiled"])


@functools.cache
def exported(compiled):
    """The SavedModel of a translator."""
    search = DecodingConfig(**SEARCH)
    translator = Translator(tiny_model(), tiny_tokenizer(), decoding=search, compiled=compiled)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_search, "BATCH_SIZES", (2, 9))  # Fewer shapes to compile.
        methods = {"translate_document": "translate_document"}
        return export_quickly(translator, f"{_folder().name}/{compiled}", methods=methods)


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory()


def answers(requests, compiled, **options):
    """The translations of the host, request by request."""
    received = sorted(serve(exported(compiled), requests, xla=compiled, **options))
    assert [answer.number for answer in received] == list(range(len(requests)))
    assert [answer.error for answer in received] == [None] * len(requests)
    return [answer.texts for answer in received]


def test_there_is_no_python_in_the_host():
    libraries = subprocess.check_output(["ldd", build()], text=True)
    assert "libtensorflow_cc.so" in libraries
    assert "libpython" not in libraries


@VARIANTS
def test_the_host_returns_the_translators_bytes(compiled):
    translate = tiny_translator(**SEARCH).translate
    requests = [ORDINARY + HOSTILE, [], ORDINARY[:1], [b""], ORDINARY[::-1], HOSTILE, ORDINARY * 9]
    expected = [translate(tf.constant(texts, tf.string)).numpy().tolist() for texts in requests]
    assert len(set(expected[0])) > 14
    assert answers(requests, compiled) == expected


@VARIANTS
def test_the_host_translates_documents(compiled):
    sentences = [text.capitalize() + b"." for text in ORDINARY]
    texts = [b" ".join(sentences) + b"\n\n- " + b"\n".join(sentences[::-1]), *ORDINARY, *HOSTILE]
    expected = tiny_translator(**SEARCH).translate_document(tf.constant(texts))["translation"]
    requests = [texts, [], texts[:1]]
    found = answers(requests, compiled, signature="translate_document")
    assert found == [expected.numpy().tolist(), [], expected.numpy().tolist()[:1]]


@VARIANTS
def test_concurrent_requests_have_the_answers_of_sequential_ones(compiled):
    texts = ORDINARY + HOSTILE
    requests = [texts[i : i + 1 + i % 5] for i in range(len(texts))]
    assert answers(requests * 5, compiled, threads=2) == answers(requests, compiled) * 5


def test_a_compiled_model_needs_a_server_that_allows_it():
    (answer,) = serve(exported(True), [[b"one"]])
    assert "XLA compilation disabled" in answer.error
