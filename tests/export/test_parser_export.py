"""Export of a translator whose results are trees."""

import shutil
from pathlib import Path

import pytest
import tensorflow as tf

from benchmarks.native_host import serve
from keras_transformer.config.record import ExportRecord
from keras_transformer.export import load_saved_model
from keras_transformer.translation.translator import Translator
from keras_transformer.trees import parse_tree
from tests.helpers.parser import TEXTS, parser
from tests.helpers.tiny import NO_UTF8, export_quickly, saved_graph

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.

SENTENCES = [text.encode() for text in TEXTS] + NO_UTF8
METHODS = {"n_best": "n_best", "score": "score"}


def exported_parser():
    return parser("target", subwords="word", num_hypotheses=2)


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_models") / "parser"
    return export_quickly(exported_parser(), path, methods=METHODS)


@pytest.fixture(scope="module")
def expected():
    return exported_parser().translate(SENTENCES).numpy().tolist()


def test_a_session_returns_the_translators_trees(version, expected):
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(version))

        def run(name, *texts):
            signature = loaded.signature_def[name]
            outputs = {key: output.name for key, output in signature.outputs.items()}
            names = [signature.inputs[key].name for key in ("text", "translation")[: len(texts)]]
            return session.run(outputs, dict(zip(names, texts, strict=True)))

        found = run("serving_default", SENTENCES)["translation"].tolist()
        best = run("n_best", SENTENCES)["translations"][:, 0].tolist()
        scores = run("score", SENTENCES, found)["score"]
        assert run("serving_default", [])["translation"].tolist() == []
    assert found == best == expected
    assert len(set(found)) > 15
    assert all(parse_tree(tree.decode("utf-8", "replace")) for tree in found if tree)
    ours = exported_parser().score(SENTENCES, expected)["score"]
    assert scores == pytest.approx(ours.numpy(), abs=1e-4)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the host is built with gcc")
def test_a_host_without_python_returns_the_translators_trees(version, expected):
    (answer,) = serve(version, [SENTENCES])
    assert answer.error is None
    assert answer.texts == expected


def test_a_stock_server_can_run_every_op(version):
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert {node.op for node in saved_graph(version).nodes} <= set(known)


def test_the_export_is_loaded_as_a_parser(version):
    vocabulary = ExportRecord.read(version).vocabulary
    kinds = vocabulary["tokenizer"], vocabulary["target_tokenizer"]
    assert kinds == ("WordTokenizer", "TreeTokenizer")
    card = (version / "README.md").read_text(encoding="utf-8")
    assert "parses sentences" in card and "added to the root of the tree" in card
    loaded = Translator.load(version.parent, num_hypotheses=2)
    assert loaded.makes_trees
    assert loaded(TEXTS[:5]) == load_saved_model(version.parent)(TEXTS[:5])
