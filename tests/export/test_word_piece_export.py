"""Export of a translator whose subwords are word pieces."""

import functools
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.native_host import serve
from keras_transformer.config import DecodingConfig
from keras_transformer.config.record import ExportRecord
from keras_transformer.export import export_ctranslate2
from keras_transformer.export.signatures import METHODS
from keras_transformer.text import WordPieceTokenizer, train_word_piece
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    export_quickly,
    saved_graph,
    tiny_model,
    toy_pairs,
    toy_sentences,
)

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.


@functools.cache
def translator():
    lines = [side for pair in toy_pairs(200) for side in pair]
    tokenizer = WordPieceTokenizer(train_word_piece(lines, 305))
    search = DecodingConfig(beam_size=3, extra_length=6, max_source_length=24, num_hypotheses=2)
    return Translator(tiny_model(305), tokenizer, decoding=search)


@pytest.fixture(scope="module")
def version(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved_models") / "toy"
    return export_quickly(translator(), path, methods=METHODS)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the host is built with gcc")
def test_a_host_without_python_returns_the_translators_bytes(version):
    texts = [text.encode() for text in [*toy_sentences(14), *ODD]] + NO_UTF8
    (answer,) = serve(version, [texts])
    assert answer.error is None
    assert answer.texts == translator().translate(texts).numpy().tolist()


@pytest.fixture(scope="module")
def graph(version):
    return saved_graph(version).nodes


def test_a_session_returns_the_translators_results(version):
    texts = [text.encode() for text in [*toy_sentences(14), *ODD]] + NO_UTF8
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], str(version))

        def run(name, texts):
            signature = loaded.signature_def[name]
            outputs = {key: output.name for key, output in signature.outputs.items()}
            return session.run(outputs, {x.name: texts for x in signature.inputs.values()})

        translations = run("serving_default", texts)["translation"].tolist()
        received = {name: run(name, texts) for name in METHODS}
        assert run("serving_default", [])["translation"].tolist() == []
    assert translations == translator().translate(texts).numpy().tolist()
    assert len(set(translations)) > 10
    for name in METHODS:
        given = [texts, texts] if name == "score" else [texts]
        expected = getattr(translator(), METHODS[name])(*given)
        assert received[name].keys() == expected.keys()
        for key, value in expected.items():
            if value.dtype == tf.string:
                assert received[name][key].tolist() == value.numpy().tolist()
            else:
                np.testing.assert_allclose(received[name][key], value.numpy(), atol=1e-5)


def test_a_stock_server_can_run_every_op(graph):
    ops = {node.op for node in graph}
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert "FastWordpieceTokenizeWithOffsets" in ops
    assert ops <= set(known)


def test_the_vocabulary_is_in_the_graph_once(graph):
    assert [node.op for node in graph].count("FastWordpieceTokenizeWithOffsets") == 1
    # One table of the pieces is for text, and one for attention maps.
    tables = [
        len(node.attr["value"].tensor.string_val)
        for node in graph
        if node.op == "Const" and node.attr["value"].tensor.dtype == tf.string.as_datatype_enum
    ]
    assert sorted(tables)[-2:] == [305, 305]
    assert tables.count(305) == 2


def test_the_record_names_the_tokenizer(version):
    assert ExportRecord.read(version).vocabulary["tokenizer"] == "WordPieceTokenizer"
    assert "tokenizer: WordPieceTokenizer" in (version / "README.md").read_text(encoding="utf-8")


def test_ctranslate2_reads_the_pieces(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    path = export_ctranslate2(translator(), tmp_path / "model")
    tokenizer = WordPieceTokenizer.from_file(path / "vocabulary.model")
    assert tokenizer.model == translator().tokenizer.model
    engine = ctranslate2.Translator(str(path), compute_type="float32", intra_threads=1)
    texts = toy_sentences(12)
    pieces = [tokenizer.id_to_piece(row) for row in tokenizer.tokenize(texts)]
    (scored, *_) = engine.score_batch(pieces[:1], pieces[1:2])
    ours = translator().score(texts[:1], texts[1:2])
    length = int(ours["length"][0])
    assert len(scored.log_probs) == length
    penalty = ((5 + length) / 6) ** translator().decoding.length_penalty
    # The search never writes padding, bos or unk; CTranslate2 gives them some probability.
    assert sum(scored.log_probs) / penalty == pytest.approx(float(ours["score"][0]), rel=0.05)
