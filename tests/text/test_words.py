import json

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.config import UNK_ID
from keras_transformer.text import WordTokenizer, train_words
from keras_transformer.text.files import read_tokenizers, word_tags_of
from tests.helpers.arrays import decoded

ENDINGS = "walking talking making taking baking waking faking raking hiking biking liking".split()
NUMBERS = [f"{number}.5" for number in range(10, 22)]
LINES = ["The dog saw the dog", "the cat saw Rome , the cat", *ENDINGS, *NUMBERS, "Ärzte", "Öfen"]


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(train_words(LINES, 24))


def pieces(tokenizer, text):
    return tokenizer.id_to_piece(tokenizer.tokenize([text])[0].numpy())


def test_a_vocabulary_has_frequent_words_and_classes_of_rare_ones(tokenizer):
    assert tokenizer.id_to_piece(range(4, 24)) == [
        *("<0.0>", "<a:ing>"),
        *("the", "cat", "dog", "saw"),
        *(f"<unused{number}>" for number in range(14)),
    ]
    assert tokenizer.counts.tolist() == [0] * 6 + [3, 2, 2, 2] + [0] * 14


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the dog saw Rome", ["the", "dog", "saw", "<unk>"]),
        ("The dog", ["the", "dog"]),  # Lowercase is known.
        ("THE dog", ["<unk>", "dog"]),
        ("saw The", ["saw", "<unk>"]),  # Only the first word may be capitalized by its place.
        ("singing 3.75 x", ["<a:ing>", "<0.0>", "<unk>"]),
        ("sinking\tSinking", ["<a:ing>", "<unk>"]),
        ("", []),
        (" \n the  dog ", ["the", "dog"]),
        ("<a:ing> <s> <pad>", ["<unk>"] * 3),
    ],
)
def test_words_have_tokens_of_their_own_or_of_their_class(tokenizer, text, expected):
    assert pieces(tokenizer, text) == expected


@settings(deadline=None, max_examples=100)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=4))
def test_the_nth_token_is_the_nth_word_of_any_text(tokenizer, texts):
    lengths = [
        len(words)
        for words in tf.strings.split(tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8"))
    ]
    ids = tokenizer.tokenize(texts)
    assert ids.row_lengths().numpy().tolist() == lengths
    alone = [tokenizer.tokenize([text])[0].numpy().tolist() for text in texts]
    assert [row.tolist() for row in ids.numpy()] == alone


def test_a_long_word_is_one_token(tokenizer):
    text = "x" * 100_000 + "ing the dog"
    assert tokenizer.tokenize([text], 2)[0].numpy().tolist() == [5, 6]


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["IBM", "AT&T", "B52", "U.S."], None),
        ([f"B{number}" for number in range(10)], "<A0>"),
        ([f"{letter}-{letter}a" for letter in "bcdfghjklm"], "<a-a:a>"),
        ([f"{letter}ÄRZTE" for letter in "ABCDEFGHIJ"], "<A:zte>"),
        ([f"{letter}#" for letter in "1234567890"], "<0#>"),
        ([f"{letter}b" for letter in "acdefghijk"], "<a:b>"),
        ([chr(0x4E00 + number) for number in range(10)], "<a>"),
    ],
)
def test_classes_are_shapes_and_endings(words, name):
    tokenizer = WordTokenizer(train_words([" ".join(["x", *words])], 100))
    first = pieces(tokenizer, f"x {words[0]}")[1]
    assert first == (name or "<unk>")


def test_each_word_knows_its_class(tokenizer):
    classes = tokenizer.class_ids()
    rare = WordTokenizer(train_words([*LINES, "singing singing"], 24))
    [singing] = rare.tokenize(["x singing"])[0].numpy()[1:]
    assert rare.id_to_piece([rare.class_ids()[singing]]) == ["<a:ing>"]
    assert classes[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert classes[6:10].tolist() == [UNK_ID] * 4
    assert classes.dtype == np.int32


def test_tokens_become_text(tokenizer):
    ids = tokenizer.tokenize(["the singing dog", "Rome"]).to_tensor()
    assert decoded(tokenizer.detokenize(ids)) == ["the <a:ing> dog", "⁇"]
    assert decoded(tokenizer.pieces(ids[1])) == ["<unk>", "", ""]
    assert decoded(tokenizer.detokenize(tf.constant([[99, -1, 7]]))) == ["cat"]


def test_a_vocabulary_survives_its_file(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "source.model")
    loaded, _ = read_tokenizers([tmp_path / "source.model"] * 2, "bpe")
    assert isinstance(loaded, WordTokenizer)
    assert loaded.model == tokenizer.model
    assert loaded.tokenize(LINES).to_list() == tokenizer.tokenize(LINES).to_list()


def test_the_most_frequent_words_are_kept():
    tokenizer = WordTokenizer(train_words(["b b b a a c c c c d d"], 7))
    assert tokenizer.id_to_piece(range(4, 7)) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("lines", "size", "message"),
    [(["a"], 4, "at least 5, received 4"), ([" ", ""], 9, "needs text, received no text")],
)
def test_a_vocabulary_needs_room_and_text(lines, size, message):
    with pytest.raises(ValueError, match=message):
        train_words(lines, size)


def vocabulary(**changes):
    return json.dumps({"words": {"a": 2}, "classes": ["A"], "vocab_size": 6} | changes).encode()


def test_the_smallest_vocabulary():
    assert WordTokenizer(vocabulary()).id_to_piece([4, 5]) == ["<A>", "a"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b"\xff",
        vocabulary(words=["a"]),
        vocabulary(words={"a": 0}),
        vocabulary(words={"a": "2"}),
        vocabulary(classes=["A", "A"], vocab_size=9),
        vocabulary(classes="A"),
        vocabulary(vocab_size=5),
        vocabulary(vocab_size=6.0),
    ],
)
def test_another_file_is_no_vocabulary(content):
    with pytest.raises(ValueError, match="a vocabulary of words must be JSON"):
        WordTokenizer(content)


def test_a_vocabulary_with_the_word_labels_is_one_of_words(tmp_path):
    tokenizer = WordTokenizer(train_words(3 * ["the labels sell labels"], 40))
    tokenizer.save(tmp_path / "source.model")
    loaded, _ = read_tokenizers([tmp_path / "source.model"], "word")
    assert (
        loaded.tokenize(["labels sell"]).to_list() == tokenizer.tokenize(["labels sell"]).to_list()
    )
    assert word_tags_of(tmp_path / "source.model") is None
