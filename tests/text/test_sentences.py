"""Sentences of texts, compared with boundaries that a person has marked."""

import re
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text.sentences import split_long, split_sentences
from tests.helpers.tiny import NO_UTF8, ODD

CASES = [
    line.replace("\\n", "\n").split("\t")
    for line in Path(__file__).with_name("sentences.tsv").read_text("utf-8").splitlines()
]
PARTS = [
    *("One", "two", "Dr.", "z. B.", "3", "A.", "...", "?!", '"', "«", "»", ")", "<b>", "{", "}"),
    *("。", " ", " ", "\n", "\u00a0", "\u2028", "\t", "\ufdd0", "\ufdd1", "\ufdd3", "\x00", "漢"),
    "é",
]

INTERNAL = re.compile("[\ufdd0-\ufdef]")


def rows(texts):
    return [[piece.decode() for piece in row] for row in split_sentences(texts).to_list()]


@pytest.mark.parametrize("language", ["en", "de", "fr", "ja", "zh"])
def test_sentences_end_where_a_person_ends_them(language):
    cases = [text for name, text in CASES if name == language]
    found = rows([text.replace("|", "") for text in cases])
    wrong = []
    for text, row in zip(cases, found, strict=True):
        expected = [part.strip() for part in text.split("|")]
        if [sentence for sentence in row[::2] if sentence] != expected:
            wrong.append((text, row))
    assert len(wrong) <= len(cases) // 50, wrong


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.lists(st.sampled_from(PARTS)).map("".join), st.text()), max_size=4))
def test_the_pieces_are_the_text(texts):
    texts = [*texts, *ODD[:5]]
    for text, row in zip(texts, rows(tf.constant(texts, tf.string)), strict=True):
        assert "".join(row) == INTERNAL.sub("\ufffd", text)
        assert len(row) % 2 == 1
        assert all(not space.strip() for space in row[1::2])
        assert not any("\n" in sentence for sentence in row[::2])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.sampled_from([*PARTS, "<b", "z.", "B.", "\f", "\r"]), st.text())))
def test_each_line_is_split_alone(parts):
    text = "".join(parts)
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    whole, *parts = ([x for x in row[::2] if x] for row in rows([text, *lines]))
    assert [sentence for part in parts for sentence in part] == whole


def test_long_sentences_are_not_cut_inside_tags_and_urls():
    image, link = f'<img src="{"x" * 40}">', f"https://x.org/{'y' * 40}"
    text = f'One {image} and <b id="a b">two</b> of three, see {link}, or four five six seven'
    pieces = split_sentences([text])
    cut = [x.decode() for x in split_long(pieces, [True], most=20).to_list()[0]]
    assert "".join(cut) == text
    assert f" {image} " in cut[1::2] and f" {link}" in cut[1::2]
    assert any('<b id="a b">two' in sentence for sentence in cut[::2])
    assert all(len(sentence) <= 20 for sentence in cut[::2])


def test_bytes_that_are_not_utf_8_are_replaced_and_no_text_has_no_pieces():
    for text, row in zip(NO_UTF8, rows(NO_UTF8), strict=True):
        assert "".join(row) == text.decode("utf-8", "replace")
    assert split_sentences(tf.constant([], tf.string)).shape[0] == 0
