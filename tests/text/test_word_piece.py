import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import WordPieceTokenizer, train_word_piece
from tests.helpers.arrays import decoded

LINES = ["the dog sees the cat .", "the cat sees 20 small dogs .", "a small house (new) stands ."]
VOCAB_SIZE = 290
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# TensorFlow Text may know characters that Python's version of Unicode does not have yet.
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=30)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(train_word_piece(LINES, VOCAB_SIZE))


def vocabulary(*pieces):
    """Return a tokenizer with these pieces and their characters."""
    characters = sorted({"▁", *"".join(pieces)} - {*pieces})
    names = ["<pad>", "<unk>", "<s>", "</s>", *BYTES, *characters, *pieces]
    return WordPieceTokenizer("".join(f"{name}\n" for name in names).encode())


def pieces_of(tokenizer, text):
    return tokenizer.id_to_piece(tokenizer.tokenize([text])[0].numpy())


def normalized(text):
    return " ".join(unicodedata.normalize("NFKC", text).split())


def test_words_are_cut_into_the_longest_pieces_from_the_left():
    tokenizer = vocabulary("▁un", "▁una", "aff", "affable", "able", "a", "▁the")
    assert pieces_of(tokenizer, "unaffable the affable") == [
        *("▁una", "f", "f", "able"),
        "▁the",
        *("▁", "affable"),
    ]


def test_letters_digits_and_other_characters_are_words_of_their_own():
    tokenizer = vocabulary("▁a1", "▁a", "12", "▁b", "((", "▁(", "b(c)")
    assert pieces_of(tokenizer, "a12 b(c) ((") == ["▁a", "12", "▁b", "(", "c", ")", "▁(", "("]


def test_a_character_that_the_vocabulary_lacks_is_spelled_alone_and_in_bytes():
    assert pieces_of(vocabulary("▁the", "the"), "theéthe \u2581") == [
        *("▁the", "<0xC3>", "<0xA9>", "the", "▁", "<0xE2>", "<0x96>", "<0x81>"),
    ]


def test_word_marks_and_replacement_characters_survive_the_round_trip(tokenizer):
    texts = ["▁the ▁ ▁▁", "\ufffd"]
    assert decoded(tokenizer.detokenize(tokenizer.tokenize(texts))) == texts


def test_separator_control_characters_are_white_space(tokenizer):
    ids = tokenizer.tokenize(["\x1fthe\x1f\x1fcat\x1f"])
    assert decoded(tokenizer.detokenize(ids)) == ["the cat"]


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(TEXTS, max_size=8))
def test_any_text_survives_the_round_trip_normalized(tokenizer, texts):
    ids = tokenizer.tokenize(texts)
    assert not {0, 1, 2, 3} & set(ids.values.numpy().tolist())
    assert decoded(tokenizer.detokenize(ids)) == [normalized(text) for text in texts]


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_are_decoded_as_in_python_up_to_the_number_of_replacements(tokenizer, texts):
    ids = tokenizer.tokenize(texts)
    expected = [normalized(text.decode(errors="replace")) for text in texts]
    for received, text in zip(decoded(tokenizer.detokenize(ids)), expected, strict=True):
        # Decoders differ in the number of U+FFFD that they write for invalid bytes.
        assert received.split("\ufffd")[0] == text.split("\ufffd")[0]
        assert ("\ufffd" in received) == ("\ufffd" in text)


def test_bytes_of_something_else_are_rejected():
    with pytest.raises(ValueError, match="UTF-8, received other bytes. Read a file"):
        WordPieceTokenizer(b"\xff")
    with pytest.raises(ValueError, match=r"must begin with <pad>, <unk>, .*, received '\[PAD\]"):
        WordPieceTokenizer(b"[PAD]\n[UNK]\n")


@pytest.mark.parametrize("pieces", [["ab"], ["a", "▁"], ["a b"], ["a▁"], [""], ["a\0"]])
def test_pieces_that_no_text_could_have_are_rejected(pieces):
    names = ["<pad>", "<unk>", "<s>", "</s>", *BYTES, "▁", "a", *pieces]
    with pytest.raises(ValueError, match=f"received {2 + len(pieces)} pieces that lack"):
        WordPieceTokenizer("\n".join([*names, ""]).encode())
