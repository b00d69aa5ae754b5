import shutil

import pytest
import tensorflow as tf

from keras_transformer.export import load_saved_model
from tests.helpers.tiny import toy_sentences

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.


@pytest.fixture(scope="module")
def translate(exported):
    return load_saved_model(exported.version.parent)


def test_strings_become_strings(translate, exported):
    sentences = [*toy_sentences(9), "", "\ud800"]
    assert translate(sentences, batch_size=4) == exported.translator(sentences)
    assert translate(tuple(sentences[:2])) == exported.translator(sentences[:2])
    assert translate(sentences[0]) == exported.translator(sentences[:1])[0]
    assert translate([]) == []


def test_a_tensor_becomes_a_tensor(translate, exported):
    texts = tf.constant([*toy_sentences(9), ""])
    received = translate(texts)
    assert received.numpy().tolist() == exported.translator.translate(texts).numpy().tolist()


def test_the_other_signatures_are_there(translate, exported):
    texts = tf.constant(toy_sentences(3))
    received = translate.signatures["n_best"](text=texts)["translations"]
    expected = exported.translator.n_best(texts)["translations"]
    assert received.numpy().tolist() == expected.numpy().tolist()
    assert translate.loaded.signatures is translate.signatures


def test_a_document_is_translated(translate, exported, monkeypatch):
    text = "One two. Red \ud800.\n\n" + " ".join(toy_sentences(3))
    assert translate.document(text) == exported.translator.document(text)
    monkeypatch.setattr(translate, "signatures", {})
    with pytest.raises(ValueError, match="no signature translate_document: .* Export it again"):
        translate.document(text)


def test_a_missing_model_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no SavedModel in .*none: expected"):
        load_saved_model(tmp_path / "none")


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index"])
def test_a_damaged_model_is_named(name, exported, tmp_path):
    version = shutil.copytree(exported.version, tmp_path / "1")
    content = (version / name).read_bytes()
    (version / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match=f"^{version}/{name} is damaged: its checksum is not"):
        load_saved_model(tmp_path)
    (version / "SHA256SUMS").unlink()  # As in version 0.1.
    with pytest.raises(ValueError, match=f"The SavedModel in {version} is damaged: .* Restore it"):
        load_saved_model(tmp_path)


def test_another_saved_model_is_an_error(tmp_path):
    tf.saved_model.save(tf.Module(), str(tmp_path / "1"))
    with pytest.raises(ValueError, match="has no signature serving_default: .* tf.saved_model"):
        load_saved_model(tmp_path)
