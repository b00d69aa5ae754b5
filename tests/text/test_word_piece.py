import unicodedata
from concurrent.futures import ThreadPoolExecutor

import keras
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import WordPieceTokenizer, train_word_piece

LINES = ["the dog sees the cat .", "the cat sees 20 small dogs .", "a small house (new) stands ."]
VOCAB_SIZE = 290
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
# What Python's Unicode has no name for yet, TensorFlow Text's may know.
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cn"]), max_size=30)


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(train_word_piece(LINES, VOCAB_SIZE))


def vocabulary(*pieces):
    """A tokenizer with these pieces, and with their characters."""
    characters = sorted({"▁", *"".join(pieces)} - {*pieces})
    names = ["<pad>", "<unk>", "<s>", "</s>", *BYTES, *characters, *pieces]
    return WordPieceTokenizer("".join(f"{name}\n" for name in names).encode())


def decoded(strings):
    return [string.decode() for string in strings.numpy()]


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


@pytest.mark.parametrize(
    "text",
    [
        *("", "the cat", "Grüße, naïve café", "🐕🚀", "日本語", "שלום", "<s> </s> <unk>", "a\0b"),
        *("▁the ▁ ▁▁", "##s ##", "<0x41>", "\ufffd", "-- ... ((the))", "\U0010ffff", "👩‍👩‍👧"),
    ],
)
def test_text_survives_the_round_trip(tokenizer, text):
    assert decoded(tokenizer.detokenize(tokenizer.tokenize([text]))) == [text]


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(TEXTS, max_size=8))
def test_any_text_comes_back_normalised(tokenizer, texts):
    ids = tokenizer.tokenize(texts)
    assert not {0, 1, 2, 3} & set(ids.values.numpy().tolist())
    assert decoded(tokenizer.detokenize(ids)) == [normalized(text) for text in texts]


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.binary(max_size=30), max_size=8))
def test_any_bytes_come_back_as_python_reads_them_but_for_how_many_are_replaced(tokenizer, texts):
    ids = tokenizer.tokenize(texts)
    expected = [normalized(text.decode(errors="replace")) for text in texts]
    for received, text in zip(decoded(tokenizer.detokenize(ids)), expected, strict=True):
        # Of U+FFFD each decoder writes another number for a sequence of wrong bytes.
        assert received.split("\ufffd")[0] == text.split("\ufffd")[0]
        assert ("\ufffd" in received) == ("\ufffd" in text)


def test_white_space_is_trimmed_and_collapsed(tokenizer):
    texts = ["  the \t cat\u00a0 \n", " \u3000 ", "the\u2028cat", "\x1fthe\x1f\x1fcat\x1f"]
    expected = ["the cat", "", "the cat", "the cat"]
    assert decoded(tokenizer.detokenize(tokenizer.tokenize(texts))) == expected


def test_an_empty_text_has_no_ids(tokenizer):
    assert tokenizer.tokenize(["", "the", " "]).row_lengths().numpy().tolist() == [0, 1, 0]


def test_an_empty_batch_gives_an_empty_batch(tokenizer):
    ids = tokenizer.tokenize([])
    assert ids.shape.as_list() == [0, None]
    assert ids.dtype == tf.int32
    assert tokenizer.detokenize(ids).shape == (0,)
    assert tokenizer.detokenize(tf.zeros([0, 7], tf.int32)).shape == (0,)
    assert decoded(tokenizer.detokenize(tf.zeros([2, 0], tf.int32))) == ["", ""]


def test_a_batch_gives_what_its_rows_give_alone(tokenizer):
    texts = [*LINES, "", "🐕", "zebra"]
    together = tokenizer.tokenize(texts)
    alone = [tokenizer.tokenize([text]).to_list()[0] for text in texts]
    assert together.to_list() == alone
    assert decoded(tokenizer.detokenize(together)) == [
        decoded(tokenizer.detokenize([ids]))[0] if ids else "" for ids in alone
    ]


def test_long_texts_are_whole_or_cut_as_asked(tokenizer):
    texts = ["the cat " * 99_000, "s" * 1_000_000, " " * 1_000_000, b"\xff" * 300_000]
    ids = tokenizer.tokenize(texts)
    assert decoded(tokenizer.detokenize(ids)) == [
        *(texts[0].strip(), texts[1], "", "\ufffd" * 300_000)
    ]
    cut = tokenizer.tokenize(texts, max_length=50)
    assert cut.to_list() == [row[:50] for row in ids.to_list()]


def test_invalid_utf8_becomes_replacement_characters(tokenizer):
    ids = tokenizer.tokenize([b"the \xff cat", b"\xc3"])
    assert decoded(tokenizer.detokenize(ids)) == ["the \ufffd cat", "\ufffd"]


def test_control_ids_and_those_outside_the_vocabulary_are_dropped(tokenizer):
    (the, cat) = tokenizer.tokenize(["the cat"]).to_list()[0]
    ids = [[2, the, cat, 3, 0], [the, 0, 2, 3, cat], [0, 0, 3, 2, 2]]
    assert decoded(tokenizer.detokenize(ids)) == ["the cat", "the cat", ""]
    ids = tf.ragged.constant(
        [[the, VOCAB_SIZE, cat], [-1, -(2**31)], [], [2**31 - 1, the]], dtype=tf.int32
    )
    assert decoded(tokenizer.detokenize(ids)) == ["the cat", "", "", "the"]
    wide = tf.constant([[the, 2**32 + cat]], tf.int64)
    assert decoded(tokenizer.detokenize(wide)) == ["the"]
    assert decoded(tokenizer.detokenize([[1]])) == ["⁇ "]


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.integers(-5, VOCAB_SIZE + 5), min_size=5, max_size=5), min_size=1, max_size=4
    )
)
def test_detokenize_gives_valid_utf8_for_any_ids(tokenizer, rows):
    assert len(decoded(tokenizer.detokenize(rows))) == len(rows)


def test_it_runs_inside_a_dataset(tokenizer):
    texts = tf.data.Dataset.from_tensor_slices(LINES).batch(2)
    texts = texts.map(lambda batch: tokenizer.detokenize(tokenizer.tokenize(batch).to_tensor()))
    assert [text for batch in texts for text in decoded(batch)] == LINES


def test_it_survives_a_new_random_seed_and_concurrent_calls(tokenizer):
    keras.utils.set_random_seed(7)  # Empties TensorFlow's cache of eager kernels.
    with ThreadPoolExecutor(4) as pool:
        texts = pool.map(lambda text: tokenizer.detokenize(tokenizer.tokenize([text])), LINES * 20)
        assert [decoded(text)[0] for text in texts] == LINES * 20


def test_a_file_gives_the_same_tokenizer(tokenizer, tmp_path):
    path = tmp_path / "joint.model"
    path.write_bytes(b"an older one")
    tokenizer.save(path)
    loaded = WordPieceTokenizer.from_file(str(path))
    assert loaded.model == tokenizer.model
    assert loaded.vocab_size == tokenizer.vocab_size == VOCAB_SIZE
    assert [file.name for file in tmp_path.iterdir()] == ["joint.model"]


def test_pieces_have_names(tokenizer):
    ids = [0, 1, 2, *tokenizer.tokenize(["the é"])[0].numpy(), 3]
    names = ["<pad>", "<unk>", "<s>", "▁the", "▁", "<0xC3>", "<0xA9>", "</s>"]
    assert tokenizer.id_to_piece(ids) == names
    in_graph = tokenizer.pieces(tf.constant([ids[:4], ids[4:]]))
    assert [name.decode() for name in in_graph.numpy().ravel()] == ["", *names[1:]]
    for outside in (-1, VOCAB_SIZE):
        with pytest.raises(IndexError, match=f"from 0 to 289, received {outside}"):
            tokenizer.id_to_piece([outside])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.model must be a WordPiece"):
        WordPieceTokenizer.from_file(tmp_path / "absent.model")


def test_what_is_no_vocabulary_is_rejected():
    with pytest.raises(TypeError, match="received str. Use WordPieceTokenizer.from_file"):
        WordPieceTokenizer("joint.model")
    with pytest.raises(ValueError, match="UTF-8, received other bytes. Read it from"):
        WordPieceTokenizer(b"\xff")
    with pytest.raises(ValueError, match=r"must begin with <pad>, <unk>, .*, received '\[PAD\]"):
        WordPieceTokenizer(b"[PAD]\n[UNK]\n")


@pytest.mark.parametrize("pieces", [["ab"], ["a", "▁"], ["a b"], ["a▁"], [""], ["a\0"]])
def test_pieces_that_no_text_could_have_are_rejected(pieces):
    names = ["<pad>", "<unk>", "<s>", "</s>", *BYTES, "▁", "a", *pieces]
    with pytest.raises(ValueError, match=f"received {2 + len(pieces)} pieces that lack"):
        WordPieceTokenizer("\n".join([*names, ""]).encode())
