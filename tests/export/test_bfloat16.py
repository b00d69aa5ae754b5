"""An exported model whose weights are bfloat16."""

from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.export import write_graph
from keras_transformer.export.signatures import METHODS
from keras_transformer.translation import Translator
from tests.helpers.tiny import NO_UTF8, ODD, saved_graph, toy_pairs, toy_training

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """The `version` and `signatures` of the toy model, by precision."""
    found = {}
    methods = {"float32": {"score": "score"}, "bfloat16": METHODS}
    for precision in methods:
        version = tmp_path_factory.mktemp(precision)
        translator = Translator.load(toy_training()[0], precision=precision)
        with mock.patch("keras_transformer.export.signatures.METHODS", methods[precision]):
            write_graph(translator, version)
        signatures = tf.saved_model.load(str(version)).signatures
        found[precision] = SimpleNamespace(version=version, signatures=signatures)
    return found


def test_scores_agree_up_to_rounding(exports):
    texts, translations = map(tf.constant, zip(*toy_pairs(200), strict=True))
    scores, found = {}, {}
    for precision, export in exports.items():
        pair = {"text": texts, "translation": translations}
        scores[precision] = export.signatures["score"](**pair)["score"].numpy()
        found[precision] = export.signatures["serving_default"](text=texts)["translation"].numpy()
    np.testing.assert_allclose(scores["bfloat16"], scores["float32"], rtol=0.03)
    assert scores["bfloat16"].mean() == pytest.approx(scores["float32"].mean(), rel=0.003)
    # After three epochs, many of its scores are close.
    assert (found["bfloat16"] == found["float32"]).mean() > 0.7


def test_its_weights_take_half_the_space(exports):
    sizes = {
        precision: sum(path.stat().st_size for path in (export.version / "variables").iterdir())
        for precision, export in exports.items()
    }
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]


def test_its_signatures_and_ops_are_those_of_any_export(exports, graph):
    bfloat16 = saved_graph(exports["bfloat16"].version)
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert {node.op for node in bfloat16.nodes} <= set(known)
    received, expected = (
        {
            name: {key: output.dtype for key, output in about.outputs.items()}
            for name, about in each.signatures.items()
        }
        for each in (bfloat16, graph)
    )
    assert received == expected


def test_its_matrix_products_are_in_bfloat16(exports):
    nodes = saved_graph(exports["bfloat16"].version).nodes
    kinds = {
        op: {node.attr[kind].type for node in nodes if node.op == op}
        for op, kind in {"MatMul": "T", "BatchMatMulV2": "T", "BatchMatMulV3": "Tout"}.items()
    }
    bfloat16, float32 = tf.bfloat16.as_datatype_enum, tf.float32.as_datatype_enum
    assert kinds["MatMul"] == kinds["BatchMatMulV2"] == {bfloat16}
    # The exception is attention to a single sentence, whose queries are in float32.
    assert kinds["BatchMatMulV3"] == {float32}


def test_any_input_has_an_answer(exports):
    texts = [text.encode() for text in ODD] + NO_UTF8
    for name in ("translate_with_scores", "n_best", "attend", "inspect"):
        for output in exports["bfloat16"].signatures[name](text=tf.constant(texts)).values():
            assert len(output) == len(texts)
            if output.dtype == tf.float32:
                assert np.isfinite(output).all()
