import types

import keras
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.plots import sentence_attention
from keras_transformer.training import tensorboard
from keras_transformer.training.tensorboard import Summaries
from keras_transformer.translation.translator import Translator
from tests.helpers.tensorboard import logged
from tests.helpers.tiny import tiny_model, tiny_tokenizer, toy_pairs

SCORES = {"val_nll": 2.0, "val_accuracy": 0.25, "val_bleu": 12.5}


@pytest.fixture
def parts():
    """Readings and a validation."""
    pairs = [("", "leer"), ("a|b\n c", "d"), *toy_pairs(9)]
    translator = Translator(
        tiny_model(num_layers=1), tiny_tokenizer(), decoding=DecodingConfig(beam_size=1)
    )
    validation = types.SimpleNamespace(
        data=types.SimpleNamespace(directions={}),
        pairs=pairs,
        translations=[f"<{i}>" for i in range(len(pairs))],
        translator=translator,
    )
    return types.SimpleNamespace(step=0, row=None), validation


def test_rows_scores_translations_and_attention_are_there_by_step(parts, tmp_path):
    readings, validation = parts
    writes = Summaries(tmp_path, readings, validation, label_smoothing=0.1)
    writes.set_model(keras.Model())
    for step, loss in ((100, 5.5), (200, 4.5)):
        readings.step = step
        readings.row = {"step": step, "epoch": 1, "loss": loss, "gradient_norm": 0.5, "seconds": 2}
        writes.on_train_batch_end(0)
        readings.row = None
        writes.on_train_batch_end(1)
        writes.on_epoch_end(0, SCORES | {"loss": 5.0})
    writes.on_train_end()
    found = logged(tmp_path)
    assert found.keys() == {
        *("training/smoothed_loss", "training/gradient_norm", "validation/nll"),
        *("validation/perplexity", "validation/accuracy", "validation/bleu_greedy"),
        *("translations", "attention"),
    }
    assert found["training/smoothed_loss"] == {100: 5.5, 200: 4.5}
    assert found["validation/bleu_greedy"] == {100: 12.5, 200: 12.5}
    assert found["validation/perplexity"][200] == pytest.approx(7.389, abs=1e-3)
    head, rule, first, *rest = found["translations"][200].item().decode().splitlines()
    assert head == "| source | reference | translation |"
    assert first == "| a\\|b c | d | <1> |"  # The first that is not empty.
    source, reference = validation.pairs[-1]
    assert rest[-1] == f"| {source} | {reference} | <10> |"
    assert len(rest) == tensorboard._SAMPLES - 1
    assert list(found["attention"]) == [100]  # At most one picture a minute.
    width, height, png = found["attention"][100]
    assert tf.io.decode_png(png).shape == (int(height), int(width), 3)


def test_characters_that_the_font_lacks_are_one_line(parts, tmp_path, caplog, recwarn, monkeypatch):
    monkeypatch.setattr(tensorboard, "_PAUSE", 0.0)
    found = sentence_attention(parts[1].translator, *parts[1].pairs[-1])
    found = found._replace(source=["狗"] * len(found.source))
    monkeypatch.setattr(tensorboard, "sentence_attention", lambda *_: found)
    writes = Summaries(tmp_path, *parts)
    for _ in range(2):
        writes.on_epoch_end(0, SCORES)
    writes.on_train_end()
    assert "attention" in logged(tmp_path)
    lines = [each for each in caplog.messages if "font" in each]
    assert lines == ["the attention has boxes for characters that matplotlib's font lacks"]
    assert not [each for each in recwarn if "font" in str(each.message)]


def test_each_direction_has_a_curve(parts, tmp_path):
    writes = Summaries(tmp_path, *parts)
    writes.on_epoch_end(0, SCORES | {"val_bleu_de": 10.0, "val_bleu_fr": 15.0})
    writes.on_train_end()
    found = logged(tmp_path)
    bleu = {tag: found[tag][0] for tag in found if "bleu" in tag}
    assert bleu == {
        "validation/bleu_greedy": 12.5,
        "validation/bleu_greedy_de": 10.0,
        "validation/bleu_greedy_fr": 15.0,
    }


def test_without_matplotlib_there_is_no_picture(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard.importlib.util, "find_spec", lambda name: None)
    writes = Summaries(tmp_path, *parts)
    writes.on_epoch_end(0, SCORES)
    writes.on_train_end()
    assert "attention" not in logged(tmp_path)
