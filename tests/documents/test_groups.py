"""Texts that are translated some at a time, of which some fail."""

import json
import random
import re

import pytest
import tensorflow as tf

from keras_transformer.text.sentences import split_sentences
from tests.helpers.documents import translated


def test_an_error_of_all_texts_is_raised_early(tmp_path):
    calls = []

    def fail(texts):
        calls.append(texts)
        raise ValueError("no memory")

    content = json.dumps({str(i): f"Text {i}" for i in range(50)})
    with pytest.raises(ValueError, match="no memory"):
        translated(tmp_path, ".json", content, fail)
    # The first ten texts, and what holds them.
    assert [texts for texts in calls if len(texts) == 1] == [[f"Text {i}"] for i in range(10)]
    assert len(calls) < 25


LINES = [
    "One. Two e.g.",
    "\t Dr. ",
    "3. A <b",
    "c. D> e.",
    "F.",
    "z.",
    "B. The \fend.\f G",
    "\r H.\vI. J",
    "\x85K. L",
    "",
    " ",
    "M. " * 40,
    "N\u2028O. P",
    "1. Q",
]


@pytest.mark.parametrize("size", [1, 30, 200])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("mark, last", [("", ""), ("\ufeff", "\n")])
def test_a_text_in_parts_is_translated_as_a_whole(size, end, mark, last, tmp_path, monkeypatch):
    def translate(texts):
        rows = split_sentences(tf.constant(texts)).to_list()
        for row in rows:
            row[::2] = [b"(%s)" % text if text else b"" for text in row[::2]]
        return [b"".join(row).decode() for row in rows]

    lines = 3 * LINES
    random.Random(size).shuffle(lines)
    content = mark + end.join(lines) + last
    whole, _ = translated(tmp_path, ".txt", content, translate)
    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", size)
    sizes, texts = [], []
    options = {"begin": sizes.append}
    parts, failures = translated(
        tmp_path, ".txt", content, lambda x: texts.extend(x) or translate(x), **options
    )
    assert (parts, failures) == (whole, [])
    assert mark + "".join(texts) == content and sizes == [len(content)]
    assert max(map(len, texts)) <= max(size, 120 + len(end))


def test_a_line_of_a_long_text_that_fails_is_named_and_stays(tmp_path, monkeypatch):
    def translate(texts):
        if any("%" in text for text in texts):
            raise ValueError("no signs")
        return [text.upper() for text in texts]

    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 20)
    content = "".join(f"line {'%' * (i in (9, 21))}{i}\n" for i in range(30))
    found, failures = translated(tmp_path, ".txt", content, translate)
    assert found == re.sub("LINE (?=%)", "line ", content.upper())
    assert failures == ["'line %9': no signs", "'line %21': no signs"]
    assert translated(tmp_path, ".txt", f"%\n{content}", translate)[1] == [
        "'%': no signs",
        *failures,
    ]


@pytest.mark.parametrize("done", [0, 1, 5])
def test_a_model_that_fails_for_good_is_not_asked_for_every_text(done, tmp_path, monkeypatch):
    calls = []

    def translate(texts):
        calls.append(len(texts))
        if len(calls) > done:
            raise ValueError("no memory")
        return [text.upper() for text in texts]

    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 100)
    texts = [f"number {i:02}\n" for i in range(90)]  # Ten at a time.
    if not done:
        with pytest.raises(ValueError, match="no memory"):
            translated(tmp_path, ".txt", "".join(texts), translate)
    else:
        found, failures = translated(tmp_path, ".txt", "".join(texts), translate)
        upper = "".join(texts[: 10 * done]).upper()
        assert found == upper + "".join(texts[10 * done :])
        assert failures[:-1] == [f"{text.strip()!r}: no memory" for text in texts[10 * done :][:10]]
        assert failures[-1] == f"{90 - 10 * done - 10} more texts: no memory"
    assert len(calls) == done + 19  # All of ten texts, and every part down to each.


def test_all_of_few_texts_that_fail_are_an_error(tmp_path):
    def translate(texts):
        raise ValueError("no memory")

    with pytest.raises(ValueError, match="no memory"):
        translated(tmp_path, ".txt", "one\ntwo\n", translate)


def test_messages_are_translated_some_at_a_time(tmp_path, monkeypatch):
    calls, sizes = [], []

    def translate(texts):
        calls.append(len(texts))
        if "text 57" in texts:
            raise ValueError("no such number")
        return [text.upper() for text in texts]

    monkeypatch.setattr("keras_transformer.documents.groups._AT_A_TIME", 70)
    content = json.dumps({str(i): f"text {i % 90}" for i in range(10, 110)})
    found, failures = translated(tmp_path, ".json", content, translate, begin=sizes.append)
    assert failures == ["'text 57': no such number"]
    assert [*json.loads(found).values()].count("text 57") == 1
    assert found.count("TEXT") == 99
    assert calls.count(10) == 9 and len(calls) <= 9 + 8 and sizes == [620]  # Halves of one group.
