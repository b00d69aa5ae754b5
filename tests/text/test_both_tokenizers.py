"""Properties of every kind of tokenizer."""

from concurrent.futures import ThreadPoolExecutor

import keras
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import (
    SentencePieceTokenizer,
    WordPieceTokenizer,
    train_sentencepiece,
    train_word_piece,
)
from tests.helpers.arrays import decoded
from tests.helpers.invented import LINES

VOCAB_SIZE = 300


@pytest.fixture(
    scope="module",
    params=[(SentencePieceTokenizer, train_sentencepiece), (WordPieceTokenizer, train_word_piece)],
    ids=["sentencepiece", "wordpiece"],
)
def tokenizer(request):
    kind, train = request.param
    return kind(train(LINES, VOCAB_SIZE))


@pytest.mark.parametrize(
    "text",
    [
        *("", "the cat", "Grüße, naïve café", "🐕🚀", "日本語", "שלום", "<s> </s> <unk>", "a\0b"),
        *("##s ##", "<0x41>", "-- ... ((the))", "\U0010ffff", "👩‍👩‍👧"),
    ],
)
def test_text_survives_the_round_trip(tokenizer, text):
    assert decoded(tokenizer.detokenize(tokenizer.tokenize([text]))) == [text]


def test_white_space_is_trimmed_and_collapsed(tokenizer):
    texts = ["  the \t cat\u00a0 \n", " \u3000 ", "the\u2028cat"]
    assert decoded(tokenizer.detokenize(tokenizer.tokenize(texts))) == ["the cat", "", "the cat"]


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


def test_invalid_utf8_becomes_replacement_characters(tokenizer):
    ids = tokenizer.tokenize([b"the \xff cat", b"\xc3"])
    assert decoded(tokenizer.detokenize(ids)) == ["the \ufffd cat", "\ufffd"]


def test_ids_never_hold_bos_or_eos(tokenizer):
    assert not {2, 3} & set(tokenizer.tokenize([*LINES, "<s>", "</s>"]).values.numpy().tolist())


@pytest.mark.parametrize("blank", [" ", "\n", "\u3000", " \t"])
def test_white_space_takes_no_room_of_max_length(tokenizer, blank):
    texts = [text.replace("_", 9_000 * blank) for text in ("_the cat", "the_cat", "the cat_", "_")]
    texts.append("the  cat")
    expected = tokenizer.tokenize(texts).to_list()
    assert tokenizer.tokenize(texts, max_length=20).to_list() == expected
    assert expected[:3] == 3 * tokenizer.tokenize(["the cat"]).to_list()


def test_long_texts_are_complete_or_cut_to_max_length(tokenizer):
    texts = ["the cat " * 99_000, "s" * 1_000_000, " " * 1_000_000, b"\xff" * 300_000]
    ids = tokenizer.tokenize(texts)
    assert decoded(tokenizer.detokenize(ids)) == [
        *(texts[0].strip(), texts[1], "", "\ufffd" * 300_000)
    ]
    cut = tokenizer.tokenize(texts, max_length=50)
    assert cut.to_list() == [row[:50] for row in ids.to_list()]


def test_control_ids_are_dropped_wherever_they_are(tokenizer):
    (the, cat) = tokenizer.tokenize(["the cat"]).to_list()[0]
    ids = [[2, the, cat, 3, 0], [the, 0, 2, 3, cat], [0, 0, 3, 2, 2]]
    assert decoded(tokenizer.detokenize(ids)) == ["the cat", "the cat", ""]


def test_unk_becomes_a_visible_mark(tokenizer):
    marks = {SentencePieceTokenizer: " ⁇ ", WordPieceTokenizer: "⁇ "}
    assert decoded(tokenizer.detokenize([[1]])) == [marks[type(tokenizer)]]


def test_ids_outside_the_vocabulary_are_dropped(tokenizer):
    (the, cat) = tokenizer.tokenize(["the cat"]).to_list()[0]
    ids = tf.ragged.constant(
        [[the, VOCAB_SIZE, cat], [-1, -(2**31)], [], [2**31 - 1, the]], dtype=tf.int32
    )
    assert decoded(tokenizer.detokenize(ids)) == ["the cat", "", "", "the"]
    wide = tf.constant([[the, 2**32 + cat]], tf.int64)
    assert decoded(tokenizer.detokenize(wide)) == ["the"]


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(
        st.lists(st.integers(-5, VOCAB_SIZE + 5), min_size=5, max_size=5), min_size=1, max_size=4
    )
)
def test_detokenize_gives_valid_utf8_for_any_ids(tokenizer, rows):
    assert len(decoded(tokenizer.detokenize(rows))) == len(rows)


def test_each_id_has_its_piece_inside_and_outside_the_graph(tokenizer):
    ids = [0, 1, 2, *tokenizer.tokenize(["the é"])[0].numpy(), 3]
    names = ["<pad>", "<unk>", "<s>", "▁the", "▁", "<0xC3>", "<0xA9>", "</s>"]
    assert tokenizer.id_to_piece(ids) == names
    in_graph = tokenizer.pieces(tf.constant([ids[:4], ids[4:]]))
    assert [name.decode() for name in in_graph.numpy().ravel()] == ["", *names[1:]]
    for outside in (-1, VOCAB_SIZE):
        with pytest.raises(IndexError, match=f"from 0 to 299, received {outside}"):
            tokenizer.id_to_piece([outside])


def test_a_tokenizer_runs_inside_a_dataset(tokenizer):
    texts = tf.data.Dataset.from_tensor_slices(LINES).batch(2)
    texts = texts.map(lambda batch: tokenizer.detokenize(tokenizer.tokenize(batch).to_tensor()))
    assert [text for batch in texts for text in decoded(batch)] == LINES


def test_a_saved_model_keeps_the_vocabulary(tokenizer, tmp_path):
    class Echo(tf.Module):
        def __init__(self):
            super().__init__()
            self.tokenizer = tokenizer

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def echo(self, text):
            return self.tokenizer.detokenize(self.tokenizer.tokenize(text).to_tensor())

    tf.saved_model.save(Echo(), tmp_path / "echo")
    assert not list((tmp_path / "echo" / "assets").iterdir())
    loaded = tf.saved_model.load(tmp_path / "echo")
    assert decoded(loaded.echo(tf.constant(["the cat 🐕", ""]))) == ["the cat 🐕", ""]


def test_a_new_random_seed_changes_nothing(tokenizer):
    translate = tf.function(lambda text: tokenizer.detokenize(tokenizer.tokenize(text)))
    text = tf.constant(["the cat"])
    before = decoded(translate(text))
    keras.utils.set_random_seed(7)  # Empties TensorFlow's cache of eager kernels.
    assert decoded(translate(text)) == before == ["the cat"]
    assert decoded(tokenizer.detokenize(tokenizer.tokenize(text))) == before


def test_concurrent_calls_do_not_disturb_each_other(tokenizer):
    with ThreadPoolExecutor(4) as pool:
        texts = pool.map(lambda text: tokenizer.detokenize(tokenizer.tokenize([text])), LINES * 20)
        assert [decoded(text)[0] for text in texts] == LINES * 20


def test_a_file_gives_the_same_tokenizer(tokenizer, tmp_path):
    path = tmp_path / "joint.model"
    path.write_bytes(b"an older one")
    tokenizer.save(path)
    loaded = type(tokenizer).from_file(str(path))
    assert loaded.model == tokenizer.model
    assert loaded.vocab_size == tokenizer.vocab_size == VOCAB_SIZE
    assert [file.name for file in tmp_path.iterdir()] == ["joint.model"]


def test_a_missing_file_and_a_path_instead_of_bytes_are_named(tokenizer, tmp_path):
    kinds = {
        SentencePieceTokenizer: "SentencePiece model, .*train_sentencepiece",
        WordPieceTokenizer: "WordPiece vocabulary, .*train_word_piece",
    }
    kind = type(tokenizer)
    with pytest.raises(FileNotFoundError, match=rf"absent\.model must be a {kinds[kind]}"):
        kind.from_file(tmp_path / "absent.model")
    with pytest.raises(TypeError, match=f"received str. Use {kind.__name__}.from_file"):
        kind("joint.model")
