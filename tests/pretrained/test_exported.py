"""Exports of imported models: the same translations without Python, by ops that servers have."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from benchmarks.native_host import serve
from keras_transformer.pretrained import import_marian
from tests.helpers.marian_release import write_release
from tests.helpers.tiny import NO_UTF8, ODD, ROOT, export_quickly, saved_graph, toy_sentences

pytestmark = pytest.mark.slow

TEXTS = [text.encode() for text in [*toy_sentences(9), *ODD, ">>de<< one", ">> a << one"]] + NO_UTF8


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    write_release(folder, **{"transformer-ffn-activation": "swish"})
    return import_marian(folder, normalization="opus")


@pytest.fixture(scope="module")
def version(translator, tmp_path_factory):
    return export_quickly(translator, tmp_path_factory.mktemp("export"))


def test_a_session_returns_the_translators_results(translator, version):
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(version))
        signature = loaded.signature_def["serving_default"]
        text, output = signature.inputs["text"].name, signature.outputs["translation"].name
        received = session.run(output, {text: TEXTS}).tolist()
    assert received == translator.translate(TEXTS).numpy().tolist()
    assert len(set(received)) > 5


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the host is built with gcc")
def test_a_host_without_python_returns_the_translators_bytes(translator, version):
    (answer,) = serve(version, [TEXTS])
    assert answer.error is None
    assert answer.texts == translator.translate(TEXTS).numpy().tolist()


def test_a_stock_server_can_run_every_op(version):
    known = (ROOT / "tests" / "export" / "portable_ops.txt").read_text().split()
    assert {node.op for node in saved_graph(Path(version)).nodes} <= set(known)
