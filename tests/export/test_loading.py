import pytest
import tensorflow as tf
from tests.helpers.tiny import tiny_translator, toy_sentences

from keras_transformer.export import export_saved_model, find_saved_model, load_saved_model


def make_version(path):
    path.mkdir(parents=True)
    (path / "saved_model.pb").touch()
    return path


def test_the_model_itself_or_its_highest_version_is_found(tmp_path):
    assert find_saved_model(tmp_path) is None
    assert find_saved_model(tmp_path / "none") is None
    nine, ten = (make_version(tmp_path / name) for name in ("9", "10"))
    for name in ("11-old", "writing-12", "latest"):
        make_version(tmp_path / name)
    (tmp_path / "13").mkdir()
    assert find_saved_model(str(tmp_path)) == ten
    assert find_saved_model(nine) == nine


def test_there_must_be_a_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no SavedModel in .*none: expected"):
        load_saved_model(tmp_path / "none")


def test_the_loaded_model_has_the_weights(tmp_path):
    translator = tiny_translator(beam_size=1, extra_length=6)
    export_saved_model(translator, tmp_path)
    translate = load_saved_model(tmp_path)
    sentences = toy_sentences(14)
    strings = [text.decode() for text in translate(tf.constant(sentences)).numpy()]
    assert strings == translator(sentences)
    assert len(set(strings)) > 7

    saved = {tuple(map(float, tf.reshape(w, [-1]))) for w in translator.model.trainable_weights}
    reader = tf.train.load_checkpoint(str(tmp_path / "1" / "variables" / "variables"))
    names = [name for name in reader.get_variable_to_shape_map() if name.startswith("weights/")]
    assert len(names) == len(translator.model.trainable_weights)
    assert {tuple(map(float, reader.get_tensor(name).ravel())) for name in names} == saved
