import gc
import json
import os
import shutil
import time
import weakref
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.export import export_saved_model, load_saved_model, saved_model
from keras_transformer.export.signatures import METHODS, trace_signatures
from keras_transformer.translation.translator import Translator
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    run_python,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.

# What a client of the exported model may have installed.
CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
texts = [bytes.fromhex(text) for text in json.load(open(sys.argv[2]))]
"""

# As any Python program loads it.
TF2 = """
signatures = tf.saved_model.load(sys.argv[1]).signatures
def call(name, given):
    inputs = {key: tf.constant(given[key], tf.string) for key in arguments[name]}
    return {key: output.numpy() for key, output in signatures[name](**inputs).items()}
"""

# As the model server loads it.
TF1 = """
session = tf.compat.v1.Session(graph=tf.Graph())
with session.graph.as_default():
    loaded = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1])
def run(name, given):
    signature = loaded.signature_def[name]
    outputs = {key: output.name for key, output in signature.outputs.items()}
    return session.run(outputs, {x.name: given[key] for key, x in signature.inputs.items()})
"""

REPORT = """
names = ["serving_default", "translate_with_scores", "n_best", "attend", "inspect"]
names.append("translate_document")
arguments = dict.fromkeys(names, ["text"])
arguments["score"] = ["text", "translation"]
def report(run):
    found = {}
    for name in arguments:
        for key, value in run(name, {"text": texts, "translation": texts[::-1]}).items():
            found[f"{name} {key}"] = value.tolist()
        empty = run(name, {"text": [], "translation": []})
        assert {len(output) for output in empty.values()} == {0}
    return found
reports = {"saved_model.load": report(call), "session": report(run)}
assert "keras_transformer" not in sys.modules
print(json.dumps(reports, default=bytes.hex))
"""

TEXTS = [text.encode() for text in [*toy_sentences(14), *ODD]] + NO_UTF8


@pytest.fixture(scope="module")
def reports(exported, tmp_path_factory):
    folder = tmp_path_factory.mktemp("client")
    (folder / "texts.json").write_text(json.dumps([text.hex() for text in TEXTS]))
    moved = shutil.copytree(exported.version, folder / "moved")
    arguments = ["-c", CLIENT + TF2 + TF1 + REPORT, moved, folder / "texts.json"]
    return json.loads(run_python(*arguments, root=None, cwd=folder).stdout)


@pytest.mark.parametrize("program", ["saved_model.load", "session"])
def test_another_program_gets_the_translators_results(program, reports, exported):
    report, texts = reports[program], TEXTS
    translator = exported.translator
    translations = translator.translate(texts).numpy().tolist()
    assert len(set(translations)) > 14
    assert report.pop("serving_default translation") == [text.hex() for text in translations]
    for name in METHODS:
        given = [texts, texts[::-1]] if name == "score" else [texts]
        for key, value in getattr(translator, METHODS[name])(*given).items():
            received = report.pop(f"{name} {key}")
            if value.dtype == tf.string:
                assert received == json.loads(json.dumps(value.numpy().tolist(), default=bytes.hex))
            else:
                np.testing.assert_allclose(received, value.numpy(), atol=1e-5)
    assert not report


def test_a_stock_server_can_run_every_op(graph):
    ops = {node.op for node in graph.nodes}
    # The latter drops finished rows.
    assert {"SentencepieceTokenizeOp", "TensorScatterUpdate"} <= ops
    # Before adding an op to the file, check that servers since 2.15 have it, without XLA.
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert ops <= set(known)
    for function in [*graph.functions, *graph.nodes]:
        assert not function.attr["_XlaMustCompile"].b


def test_the_vocabulary_is_in_the_graph_once(exported):
    content = (exported.version / "saved_model.pb").read_bytes()
    assert content.count(exported.translator.tokenizer.model) == 1


def test_each_weight_is_a_variable_once(exported):
    graph = (exported.version / "saved_model.pb").read_bytes()
    weights = [w.numpy() for w in exported.translator.model.trainable_weights]
    assert not any(w.tobytes() in graph for w in weights if w.size > 1)
    variables = exported.version / "variables"
    size = sum(w.nbytes for w in weights)
    assert size <= sum(path.stat().st_size for path in variables.iterdir()) < size + 20_000
    reader = tf.train.load_checkpoint(str(variables / "variables"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("weights/")]
    saved = sorted(reader.get_tensor(name).tobytes() for name in names)
    assert saved == sorted(w.tobytes() for w in weights)


def test_prepared_weights_are_kept_until_they_are_written(tmp_path, monkeypatch):
    def trace_and_collect(translator):
        functions = trace_signatures(translator)
        del translator
        gc.collect()
        return functions

    monkeypatch.setattr(saved_model, "trace_signatures", trace_and_collect)
    monkeypatch.setattr("keras_transformer.export.signatures.METHODS", {})
    search = DecodingConfig(beam_size=1, extra_length=6, max_source_length=12)
    translator = Translator(tiny_model(), tiny_tokenizer(), decoding=search, compiled=True)
    saved_model.write_graph(translator, tmp_path)
    written = tf.train.list_variables(str(tmp_path / "variables" / "variables"))
    transposed = [translator.model.config.d_model, translator.model.config.vocab_size]
    assert transposed in [shape for _, shape in written]


def test_a_frozen_model_is_exported_with_all_weights(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_transformer.export.signatures.METHODS", {})
    model = tiny_model()
    model.trainable = False
    search = DecodingConfig(beam_size=1, extra_length=6)
    translator = Translator(model, tiny_tokenizer(), decoding=search)
    translate = load_saved_model(export_saved_model(translator, tmp_path))
    assert "_graph_functions" not in vars(translator)  # The graphs of an export take memory.
    sentences = toy_sentences(5)
    assert translate(sentences) == translator(sentences)


def fake_save(monkeypatch, fail=False):
    """Make an export fast, and return the directories that it writes to."""
    written = []

    def save(module, path, signatures):
        written.append(tf.io.gfile.join(path))
        tf.io.gfile.makedirs(path)
        with open(f"{path}/saved_model.pb", "wb") as file:
            file.write(b"model")
        if fail:
            raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", save)
    monkeypatch.setattr(saved_model, "replay", lambda *_: None)
    return written


def test_versions_count_up_from_the_highest(tmp_path, monkeypatch):
    fake_save(monkeypatch)
    translator = tiny_translator(beam_size=1)
    path = tmp_path / "new" / "model"
    assert export_saved_model(translator, path) == path / "1"
    assert export_saved_model(translator, str(path)) == path / "2"
    for name in ("9", "10", "11.bak", "latest", "00000012"):
        (path / name).mkdir()
    assert export_saved_model(translator, path) == path / "13"
    assert (path / "13" / "saved_model.pb").read_bytes() == b"model"


def test_concurrent_exports_take_different_numbers(tmp_path, monkeypatch):
    fake_save(monkeypatch)
    rename = Path.rename

    def rename_late(path, target):
        if target.name == "1":
            target.mkdir()
            (target / "saved_model.pb").write_bytes(b"the other's")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_late)
    assert export_saved_model(tiny_translator(beam_size=1), tmp_path) == tmp_path / "2"
    assert (tmp_path / "1" / "saved_model.pb").read_bytes() == b"the other's"


def test_a_server_sees_only_complete_versions(tmp_path, monkeypatch):
    written = fake_save(monkeypatch)
    seen = []
    rename = Path.rename

    def list_and_rename(path, target):
        seen.append((path, target, [str(p.relative_to(path)) for p in path.rglob("*")]))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", list_and_rename)
    version = export_saved_model(tiny_translator(beam_size=1), tmp_path)
    (temporary,) = map(tmp_path.joinpath, written)
    assert temporary.parent == version.parent  # Renaming within a file system is atomic.
    assert not temporary.name.isdecimal()
    assert seen[-1][:2] == (temporary, version)
    assert sorted(seen[-1][2]) == [
        *("README.md", "SHA256SUMS", "assets.extra", "assets.extra/export.json"),
        *("assets.extra/tf_serving_warmup_requests", "assets.extra/vocabulary.model"),
        *("batching_params.pbtxt", "saved_model.pb"),
    ]
    assert sorted(tmp_path.iterdir()) == [version, tmp_path / "serving"]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    fake_save(monkeypatch, fail=True)
    with pytest.raises(OSError, match="disk full"):
        export_saved_model(tiny_translator(beam_size=1), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_export_left_is_removed_after_a_day(tmp_path, monkeypatch):
    fake_save(monkeypatch)
    monkeypatch.setattr(saved_model, "replay", lambda *_: None)
    for name, hours in {"writing-killed": 25, "writing-busy": 23}.items():
        (tmp_path / name).mkdir()
        then = time.time() - 3600 * hours
        os.utime(tmp_path / name, (then, then))
    export_saved_model(tiny_translator(beam_size=1), tmp_path)
    assert [path.name for path in tmp_path.glob("writing-*")] == ["writing-busy"]


def test_a_model_that_nobody_holds_is_freed_before_the_check(tmp_path, monkeypatch):
    fake_save(monkeypatch)
    translators = [Translator(tiny_model(), tiny_tokenizer(), decoding=DecodingConfig(beam_size=1))]
    model, found = weakref.ref(translators[0].model), []
    monkeypatch.setattr(saved_model, "replay", lambda *_: found.append(model()))
    export_saved_model(translators.pop(), tmp_path)
    assert found == [None]


def test_a_model_that_fails_its_warmup_is_not_published(tmp_path, monkeypatch):
    fake_save(monkeypatch)

    def fail(path, requests):
        raise tf.errors.InvalidArgumentError(None, None, "no such op")

    monkeypatch.setattr(saved_model, "replay", fail)
    with pytest.raises(tf.errors.InvalidArgumentError, match="no such op"):
        export_saved_model(tiny_translator(beam_size=1), tmp_path)
    assert list(tmp_path.iterdir()) == []
