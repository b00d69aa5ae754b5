import functools
import json
import shutil
import tempfile
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tiny import (
    NO_UTF8,
    ODD,
    run_python,
    tiny_model,
    tiny_tokenizer,
    tiny_translator,
    toy_sentences,
)

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.config import DecodingConfig
from keras_transformer.export import export_saved_model, load_saved_model
from keras_transformer.translator import Translator

# What a client of the exported model may have installed.
CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
texts = [bytes.fromhex(text) for text in json.load(open(sys.argv[2]))]
"""

# As any Python program loads it.
TF2 = """
translate = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
def run(texts):
    return translate(text=tf.constant(texts, tf.string))["translation"].numpy()
"""

# As the model server loads it.
TF1 = """
session = tf.compat.v1.Session(graph=tf.Graph())
with session.graph.as_default():
    signature = tf.compat.v1.saved_model.load(session, ["serve"], sys.argv[1]).signature_def[
        "serving_default"
    ]
names = signature.inputs["text"].name, signature.outputs["translation"].name
def run(texts):
    return session.run(names[1], {names[0]: texts})
"""

REPORT = """
assert "keras_transformer" not in sys.modules
assert run([]).shape == (0,)
print(json.dumps([text.hex() for text in run(texts)]))
"""


@functools.cache
def exported():
    """A translator, and the SavedModel that it was exported to."""
    folder = _folder()
    translator = tiny_translator(beam_size=3, extra_length=6, max_source_length=24)
    return translator, export_saved_model(translator, folder.name)


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory()


def saved_graph(version):
    """All nodes of a SavedModel, those of its functions included, and its signatures."""
    saved = saved_model_pb2.SavedModel.FromString((version / "saved_model.pb").read_bytes())
    (graph,) = saved.meta_graphs
    functions = graph.graph_def.library.function
    nodes = [*graph.graph_def.node, *(node for f in functions for node in f.node_def)]
    return nodes, functions, graph.signature_def


@pytest.mark.parametrize("program", [TF2, TF1], ids=["saved_model.load", "session"])
def test_another_program_gets_the_translators_strings(program, tmp_path):
    translator, version = exported()
    texts = [text.encode() for text in [*toy_sentences(14), *ODD]] + NO_UTF8
    expected = translator.translate(tf.constant(texts)).numpy()
    assert len(set(expected)) > 14
    (tmp_path / "texts.json").write_text(json.dumps([text.hex() for text in texts]))
    moved = shutil.copytree(version, tmp_path / "moved")
    arguments = ["-c", CLIENT + program + REPORT, moved, tmp_path / "texts.json"]
    output = run_python(*arguments, root=None, cwd=tmp_path).stdout
    assert [bytes.fromhex(text) for text in json.loads(output)] == expected.tolist()


def test_the_signature_takes_strings_and_returns_strings():
    signature = saved_graph(exported()[1])[2]["serving_default"]
    assert signature.method_name == "tensorflow/serving/predict"
    for tensors, name in ((signature.inputs, "text"), (signature.outputs, "translation")):
        assert list(tensors) == [name]
        assert tensors[name].dtype == tf.string.as_datatype_enum
        assert tf.TensorShape(tensors[name].tensor_shape).as_list() == [None]


def test_a_stock_server_can_run_every_op():
    nodes, functions, _ = saved_graph(exported()[1])
    ops = {node.op for node in nodes}
    assert "SentencepieceTokenizeOp" in ops
    # An op that is not in the file needs a look: do the servers since 2.16 have it, without XLA?
    known = Path(__file__).with_name("portable_ops.txt").read_text().split()
    assert ops <= set(known)
    for function in [*functions, *nodes]:
        assert not function.attr["_XlaMustCompile"].b


def test_weights_are_no_constants():
    config = TransformerConfig(380, num_layers=1, d_model=128, d_ff=512, num_heads=2)
    model = Transformer(config)
    with tempfile.TemporaryDirectory() as folder:
        version = export_saved_model(Translator(model, tiny_tokenizer()), folder)
        graph = (version / "saved_model.pb").stat().st_size
        variables = sum(path.stat().st_size for path in (version / "variables").iterdir())
    assert 4 * model.count_params() <= variables < 4 * model.count_params() + 20_000
    # The vocabulary goes twice into the graph, for both directions.
    assert graph < 2 * len(tiny_tokenizer().model) + 400_000


def test_a_model_that_is_frozen_is_exported_whole(tmp_path):
    model = tiny_model()
    model.trainable = False
    search = DecodingConfig(beam_size=1, extra_length=6)
    translator = Translator(model, tiny_tokenizer(), decoding=search)
    translate = load_saved_model(export_saved_model(translator, tmp_path))
    sentences = toy_sentences(5)
    received = [text.decode() for text in translate(tf.constant(sentences)).numpy()]
    assert received == translator(sentences)


def fake_save(monkeypatch, fail=False):
    """Make saving quick, and return the directories that were written to."""
    written = []

    def save(module, path, signatures):
        written.append(tf.io.gfile.join(path))
        tf.io.gfile.makedirs(path)
        with open(f"{path}/saved_model.pb", "wb") as file:
            file.write(b"model")
        if fail:
            raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", save)
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


def test_an_export_that_comes_second_takes_the_next_number(tmp_path, monkeypatch):
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


def test_a_server_sees_a_version_only_when_it_is_whole(tmp_path, monkeypatch):
    written = fake_save(monkeypatch)
    version = export_saved_model(tiny_translator(beam_size=1), tmp_path)
    (temporary,) = map(tmp_path.joinpath, written)
    assert temporary.parent == version.parent  # A rename within a file system is atomic.
    assert not temporary.name.isdecimal()
    assert list(tmp_path.iterdir()) == [version]


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    fake_save(monkeypatch, fail=True)
    with pytest.raises(OSError, match="disk full"):
        export_saved_model(tiny_translator(beam_size=1), tmp_path)
    assert list(tmp_path.iterdir()) == []
