import threading
import time
import types

import pytest
import tensorflow as tf

from keras_transformer.translation import batching
from keras_transformer.translation.batching import progress_bar, translate_in_batches


def test_batches_hold_similar_lengths_and_translations_keep_the_order():
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


class Column(dict):
    """Like a column of a table, it iterates over strings, and its indices are labels."""

    def __iter__(self):
        return iter(self.values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Column({2: "a", 0: "bbb", 1: "cc"}), ["A", "BBB", "CC"]),
        (Column({5: "a", 7: "b"}), ["A", "B"]),
        (iter(["a", "bb"]), ["A", "BB"]),
    ],
    ids=["sorted column", "part of a column", "generator"],
)
def test_sentences_may_be_anything_that_has_an_order(given, expected):
    assert translate_in_batches(tf.strings.upper, given, batch_size=1) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "must be a list of strings, received None"),
        (b"a", "must be a list of strings, received a single string"),
        (["a", None], "must be strings, received None at place 1"),
        ((each for each in ["a", "b", float("nan")]), "must be strings, received nan at place 2"),
        (tf.constant(["a"]), "must be strings, received <tf.Tensor"),
    ],
)
def test_the_first_that_is_no_string_is_named(given, message):
    with pytest.raises(TypeError, match=message):
        translate_in_batches(tf.strings.upper, given)


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_each_core_translates_a_batch_at_a_time(cores, monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [])
    monkeypatch.setattr(batching, "available_cores", lambda: cores)
    together, running, most = threading.Barrier(cores, timeout=60), set(), [0]

    def upper(texts):
        running.add(threading.get_ident())
        most[0] = max(most[0], len(running))
        together.wait()  # Fails if fewer batches run at a time.
        running.discard(threading.get_ident())
        return tf.strings.upper(texts)

    sentences = [letter * length for length in (3, 1, 4, 2) for letter in "abcd"]
    expected = [sentence.upper() for sentence in sentences]
    assert translate_in_batches(upper, sentences, batch_size=1) == expected
    assert most == [cores]


@pytest.mark.parametrize(("gpus", "rows", "batches"), [([], 64, 8), (["GPU:0"], 256, 1)])
def test_a_gpu_translates_one_large_batch_at_a_time(gpus, rows, batches, monkeypatch):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config.threading, "get_inter_op_parallelism_threads", lambda: 0)
    monkeypatch.setattr(batching, "available_cores", lambda: 8)
    assert batching.concurrent_batches() == batches
    sizes = []

    def upper(texts):
        sizes.append(len(texts))
        return tf.strings.upper(texts)

    translate_in_batches(upper, ["a"] * 300)
    assert max(sizes) == rows and sum(sizes) == 300


def out_of_memory(texts):
    raise RuntimeError("out of memory")


def not_utf8(texts):
    return tf.constant([b"\xff"])


@pytest.mark.parametrize(
    ("translate", "error"), [(out_of_memory, RuntimeError), (not_utf8, UnicodeDecodeError)]
)
def test_an_error_is_raised_and_cancels_later_batches(translate, error):
    calls = []

    def slowly(texts):
        calls.append(texts)
        time.sleep(0.01)
        return translate(texts)

    with pytest.raises(error):
        translate_in_batches(slowly, ["a"] * 1000, batch_size=1)
    assert len(calls) < 500


def test_the_progress_bar_is_shown_only_on_request(capsys):
    translate_in_batches(tf.strings.upper, ["a", "b", "c"])
    assert capsys.readouterr() == ("", "")
    translate_in_batches(tf.strings.upper, ["a", "b", "c"], progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3/3" in err


def test_the_time_left_is_right_although_long_sentences_come_first(monkeypatch, capsys):
    clock = types.SimpleNamespace(time=lambda: clock.now, now=100.0)
    monkeypatch.setattr("tqdm.std.time", clock.time)
    monkeypatch.setattr(batching, "time", clock)
    sentences = ["a" * length for length in range(400, 0, -4)]
    seconds = [0.05 * len(sentence) + 1 for sentence in sentences]
    left = []
    with progress_bar(sentences) as advance:
        clock.now += 600  # TensorFlow traces the first batch.
        for sentence, taken in zip(sentences, seconds, strict=True):
            clock.now += taken
            advance([sentence])
            text = capsys.readouterr().err.rpartition("<")[2].removesuffix("]")
            minutes, _, rest = text.partition(":")
            left.append(60 * int(minutes) + int(rest) if rest else None)
    assert left[0] is None
    for place in (1, 10, 50, 90):
        assert left[place] == pytest.approx(sum(seconds[place + 1 :]), rel=0.02, abs=1)


def test_the_progress_of_texts_ends_with_their_characters(monkeypatch, capsys):
    clock = types.SimpleNamespace(time=lambda: clock.now, now=100.0)
    monkeypatch.setattr("tqdm.std.time", clock.time)
    monkeypatch.setattr(batching, "time", clock)
    shown = []
    with progress_bar(10) as advance:
        for batch in (["aaa"], ["b", "c"], ["d" * 4, "e" * 4], ["again"]):
            clock.now += 1
            advance(batch)
            shown.append(capsys.readouterr().err.rpartition("\r")[2].strip()[:4])
    assert shown[:3] == ["30%|", "50%|", "100%"]
    assert "6 sentences" in capsys.readouterr().err


def test_a_single_string_and_a_batch_size_of_0_are_rejected():
    with pytest.raises(ValueError, match="batch_size must be at least 1, received 0"):
        translate_in_batches(tf.strings.upper, ["a"], batch_size=0)
    with pytest.raises(TypeError, match="sentences must be a list of strings, received a single"):
        translate_in_batches(tf.strings.upper, "a sentence")
