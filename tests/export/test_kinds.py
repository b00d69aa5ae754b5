"""Exports of imported translators, of parsers, and of other vocabularies."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.native_host import serve
from keras_transformer.config import DecodingConfig
from keras_transformer.config.record import ExportRecord
from keras_transformer.export import export_ctranslate2, load_saved_model
from keras_transformer.export.signatures import METHODS
from keras_transformer.pretrained import import_marian
from keras_transformer.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
    train_word_piece,
)
from keras_transformer.translation.translator import Translator
from keras_transformer.trees import parse_tree
from tests.export.conftest import session
from tests.helpers import parser
from tests.helpers.marian_release import write_release
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    export_quickly,
    saved_graph,
    tiny_model,
    toy_pairs,
    toy_sentences,
)

pytestmark = pytest.mark.slow  # Each export traces and optimizes its signatures.

TEXTS = [text.encode() for text in [*toy_sentences(14), *ODD]] + NO_UTF8


def imported(folder):
    write_release(folder, **{"transformer-ffn-activation": "swish"})
    return import_marian(folder, normalization="opus")


def of_trees(folder):
    return parser.parser("target", subwords="word", num_hypotheses=2)


def of_word_pieces(folder):
    lines = [side for pair in toy_pairs(200) for side in pair]
    tokenizer = WordPieceTokenizer(train_word_piece(lines, 305))
    search = DecodingConfig(beam_size=3, extra_length=6, max_source_length=24, num_hypotheses=2)
    return Translator(tiny_model(305), tokenizer, decoding=search)


def of_verbatim_text(folder, protect=""):
    lines = [side for pair in toy_pairs(200) for side in pair]
    model = train_sentencepiece(
        lines, 380, normalization="identity", user_symbols=["%s", "~"], language_tags=[">>de<<"]
    )
    search = DecodingConfig(beam_size=2, extra_length=6, max_source_length=24, protect=protect)
    return Translator(tiny_model(380), SentencePieceTokenizer(model), decoding=search)


def of_protected_text(folder):
    return of_verbatim_text(folder, protect="all")


# A function that makes the translator, the texts, and the signatures other than the default.
KINDS = {
    "imported": (imported, [*TEXTS, b">>de<< one", b">> a << one"], {}),
    "trees": (of_trees, [text.encode() for text in parser.TEXTS] + NO_UTF8, ["n_best", "score"]),
    "word pieces": (of_word_pieces, TEXTS, METHODS),
    "verbatim": (of_verbatim_text, [*TEXTS, b" one  ~two %s", b">>de<< one"], {}),
    "protected": (
        of_protected_text,
        [*TEXTS, b" %s one\\n", b">>de<< one %1$s", b"<b>two {0}\n"],
        {},
    ),
}


TOLERANCES = {
    "imported": 1e-5,
    "trees": 1e-4,
    "word pieces": 1e-5,
    "verbatim": 1e-5,
    "protected": 1e-5,
}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """Return a function that exports each kind once: its translator, version, texts, methods."""
    made = {}

    def export(kind):
        if kind not in made:
            make, texts, names = KINDS[kind]
            folder, methods = tmp_path_factory.mktemp("made"), {x: METHODS[x] for x in names}
            translator = make(folder)
            version = export_quickly(translator, folder / "toy", methods=methods)
            made[kind] = SimpleNamespace(
                translator=translator, version=version, texts=texts, methods=methods
            )
        return made[kind]

    return export


each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_a_session_returns_the_translators_results(kind, export):
    made = export(kind)
    with session(made.version) as run:
        translations = run("serving_default", text=made.texts)["translation"].tolist()
        given = {name: {"text": made.texts} for name in made.methods}
        given |= {"score": {"text": made.texts, "translation": translations}} if given else {}
        received = {name: run(name, **inputs) for name, inputs in given.items()}
        assert run("serving_default", text=[])["translation"].tolist() == []
    assert translations == made.translator.translate(made.texts).numpy().tolist()
    assert len(set(translations)) > (5 if kind == "imported" else 10)
    if kind == "trees":
        assert all(parse_tree(tree.decode("utf-8", "replace")) for tree in translations if tree)
    for name, inputs in given.items():
        expected = getattr(made.translator, made.methods[name])(**inputs)
        assert received[name].keys() == expected.keys()
        for key, value in expected.items():
            if value.dtype == tf.string:
                assert received[name][key].tolist() == value.numpy().tolist()
            else:
                np.testing.assert_allclose(
                    received[name][key], value.numpy(), atol=TOLERANCES[kind]
                )


@each_kind
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the host is built with gcc")
def test_a_host_without_python_returns_the_translators_bytes(kind, export):
    made = export(kind)
    (answer,) = serve(made.version, [made.texts])
    assert answer.error is None
    assert answer.texts == made.translator.translate(made.texts).numpy().tolist()


@each_kind
def test_a_stock_server_can_run_every_op(kind, export):
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert {node.op for node in saved_graph(export(kind).version).nodes} <= set(known)


def test_word_pieces_are_in_the_graph_once(export):
    graph = saved_graph(export("word pieces").version).nodes
    assert [node.op for node in graph].count("FastWordpieceTokenizeWithOffsets") == 1
    # One table of the pieces is for text, and one for attention maps.
    tables = [
        len(node.attr["value"].tensor.string_val)
        for node in graph
        if node.op == "Const" and node.attr["value"].tensor.dtype == tf.string.as_datatype_enum
    ]
    assert sorted(tables)[-2:] == [305, 305]
    assert tables.count(305) == 2


def test_the_record_names_the_tokenizers(export):
    words, trees = export("word pieces").version, export("trees").version
    assert ExportRecord.read(words).vocabulary["tokenizer"] == "WordPieceTokenizer"
    assert "tokenizer: WordPieceTokenizer" in (words / "README.md").read_text(encoding="utf-8")
    vocabulary = ExportRecord.read(trees).vocabulary
    kinds = vocabulary["tokenizer"], vocabulary["target_tokenizer"]
    verbatim = ExportRecord.read(export("verbatim").version).vocabulary
    assert (verbatim["normalization"], verbatim["user_symbols"]) == ("identity", 2)
    assert kinds == ("WordTokenizer", "TreeTokenizer")


def test_the_export_of_a_parser_is_loaded_as_a_parser(export):
    made = export("trees")
    card = (made.version / "README.md").read_text(encoding="utf-8")
    assert "parses sentences" in card and "added to the root of the tree" in card
    loaded = Translator.load(made.version.parent, num_hypotheses=2)
    assert loaded.makes_trees
    trees = loaded(parser.TEXTS)
    assert trees[:5] == load_saved_model(made.version.parent)(parser.TEXTS[:5])
    assert len(set(trees)) > 15
    assert all(parse_tree(tree) for tree in trees if tree)


def test_ctranslate2_reads_word_pieces(export, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    translator = export("word pieces").translator
    path = export_ctranslate2(translator, tmp_path / "model")
    tokenizer = WordPieceTokenizer.from_file(path / "vocabulary.model")
    assert tokenizer.model == translator.tokenizer.model
    engine = ctranslate2.Translator(str(path), compute_type="float32", intra_threads=1)
    texts = toy_sentences(12)
    pieces = [tokenizer.id_to_piece(row) for row in tokenizer.tokenize(texts)]
    (scored, *_) = engine.score_batch(pieces[:1], pieces[1:2])
    ours = translator.score(texts[:1], texts[1:2])
    length = int(ours["length"][0])
    assert len(scored.log_probs) == length
    penalty = ((5 + length) / 6) ** translator.decoding.length_penalty
    # The search never writes padding, bos or unk; CTranslate2 gives them some probability.
    assert sum(scored.log_probs) / penalty == pytest.approx(float(ours["score"][0]), rel=0.05)
