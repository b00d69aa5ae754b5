"""An exported model whose weights are bfloat16."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from tiny import NO_UTF8, ODD, saved_graph, toy_pairs, toy_training

from keras_transformer.evaluation import score
from keras_transformer.export import write_graph
from keras_transformer.training import load_translator


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """Of the toy training: by precision, the `version` and its `signatures`."""
    found = {}
    for precision in ("float32", "bfloat16"):
        version = tmp_path_factory.mktemp(precision)
        translator = load_translator(toy_training()[0], precision=precision)
        write_graph(translator, version)
        signatures = tf.saved_model.load(str(version)).signatures
        found[precision] = SimpleNamespace(version=version, signatures=signatures)
    return found


def test_it_translates_as_well(exports):
    sources, references = zip(*toy_pairs(200), strict=True)
    texts, scores = {}, {}
    for precision, export in exports.items():
        result = export.signatures["translate_with_scores"](text=tf.constant(sources))
        texts[precision] = [text.decode() for text in result["translation"].numpy()]
        scores[precision] = result["score"].numpy()
    bleu = {precision: score(found, references).bleu for precision, found in texts.items()}
    assert bleu["float32"] > 1
    assert bleu["bfloat16"] == pytest.approx(bleu["float32"], abs=1)
    same = np.array(texts["bfloat16"]) == np.array(texts["float32"])
    assert same.mean() > 0.9
    np.testing.assert_allclose(scores["bfloat16"][same], scores["float32"][same], atol=0.1)


def test_it_takes_half_the_space(exports):
    sizes = {
        precision: sum(path.stat().st_size for path in (export.version / "variables").iterdir())
        for precision, export in exports.items()
    }
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]


def test_its_signatures_and_ops_are_those_of_any_export(exports):
    graphs = {precision: saved_graph(export.version) for precision, export in exports.items()}
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert {node.op for node in graphs["bfloat16"].nodes} <= set(known)
    float32, bfloat16 = (
        {name: {key: output.dtype for key, output in about.outputs.items()} for name, about in s}
        for s in (graphs[precision].signatures.items() for precision in ("float32", "bfloat16"))
    )
    assert bfloat16 == float32
    kinds = {node.attr["T"].type for node in graphs["bfloat16"].nodes if node.op == "MatMul"}
    assert kinds == {tf.bfloat16.as_datatype_enum}


def test_any_input_has_an_answer(exports):
    texts = [text.encode() for text in ODD] + NO_UTF8
    for name in ("translate_with_scores", "n_best", "attend"):
        for output in exports["bfloat16"].signatures[name](text=tf.constant(texts)).values():
            assert len(output) == len(texts)
            if output.dtype == tf.float32:
                assert np.isfinite(output).all()
