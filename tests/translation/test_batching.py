import threading
import time

import pytest
import tensorflow as tf
from tests.helpers.tiny import tiny_translator

from keras_transformer.translation.batching import translate_in_batches


def test_sentences_of_similar_length_share_a_batch_and_come_back_in_order():
    batches = []

    def upper(texts):
        batches.append([text.decode() for text in texts.numpy()])
        return tf.strings.upper(texts)

    sentences = ["ccc", "a", "eeeee", "bb", "dddd"]
    assert translate_in_batches(upper, sentences, batch_size=2) == [
        "CCC",
        "A",
        "EEEEE",
        "BB",
        "DDDD",
    ]
    assert sorted(batches) == [["a"], ["ccc", "bb"], ["eeeee", "dddd"]]


def test_two_batches_are_translated_at_a_time():
    both = threading.Barrier(2, timeout=60)

    def upper(texts):
        both.wait()
        return tf.strings.upper(texts)

    sentences = ["a", "b", "c", "d", "e", "f"]
    assert translate_in_batches(upper, sentences, batch_size=1) == ["A", "B", "C", "D", "E", "F"]


def out_of_memory(texts):
    raise RuntimeError("out of memory")


def not_utf8(texts):
    return tf.constant([b"\xff"])


@pytest.mark.parametrize(
    ("translate", "error"), [(out_of_memory, RuntimeError), (not_utf8, UnicodeDecodeError)]
)
def test_an_error_is_passed_on_and_ends_the_work(translate, error):
    calls = []

    def slowly(texts):
        calls.append(texts)
        time.sleep(0.01)
        return translate(texts)

    with pytest.raises(error):
        translate_in_batches(slowly, ["a"] * 1000, batch_size=1)
    assert len(calls) < 500


def test_progress_is_shown_on_request(capsys):
    translate_in_batches(tf.strings.upper, ["a", "b", "c"])
    assert capsys.readouterr() == ("", "")
    translate_in_batches(tf.strings.upper, ["a", "b", "c"], progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3/3" in err


def test_what_cannot_be_batched_is_refused():
    with pytest.raises(ValueError, match="batch_size must be at least 1, received 0"):
        translate_in_batches(tf.strings.upper, ["a"], batch_size=0)
    with pytest.raises(TypeError, match="sentences must be a list of strings, received a single"):
        tiny_translator()("a sentence")
