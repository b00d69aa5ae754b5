import io
from concurrent.futures import ThreadPoolExecutor

import keras
import pytest
import sentencepiece
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece

LINES = ["the dog sees the cat .", "the cat sees a small dog .", "a small house stands here ."]
VOCAB_SIZE = 300


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer(train_sentencepiece(LINES, VOCAB_SIZE))


@pytest.fixture(scope="module")
def reference(tokenizer):
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)


def decoded(strings):
    return [string.decode() for string in strings.numpy()]


@pytest.mark.parametrize(
    "text", ["", "the cat", "Grüße, naïve café", "🐕🚀", "日本語", "שלום", "<s> </s> <unk>", "a\0b"]
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


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(max_size=30), max_size=8))
def test_ids_and_texts_equal_those_of_the_sentencepiece_package(tokenizer, reference, texts):
    ids = tokenizer.tokenize(texts)
    assert ids.to_list() == reference.encode(texts)
    assert decoded(tokenizer.detokenize(ids)) == [reference.decode(row) for row in ids.to_list()]


def test_control_ids_are_dropped_wherever_they_are(tokenizer):
    (the, cat) = tokenizer.tokenize(["the cat"]).to_list()[0]
    ids = [[2, the, cat, 3, 0], [the, 0, 2, 3, cat], [0, 0, 3, 2, 2]]
    assert decoded(tokenizer.detokenize(ids)) == ["the cat", "the cat", ""]


def test_unk_is_shown(tokenizer):
    assert decoded(tokenizer.detokenize([[1]])) == [" ⁇ "]


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


def test_it_runs_inside_a_dataset(tokenizer):
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


def test_a_file_gives_the_same_tokenizer(tokenizer, tmp_path):
    path = tmp_path / "joint.model"
    path.write_bytes(b"an older one")
    tokenizer.save(path)
    loaded = SentencePieceTokenizer.from_file(str(path))
    assert loaded.model == tokenizer.model
    assert loaded.vocab_size == tokenizer.vocab_size == VOCAB_SIZE
    assert [file.name for file in tmp_path.iterdir()] == ["joint.model"]


def test_it_survives_a_new_random_seed(tokenizer):
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


def test_pieces_have_names(tokenizer):
    ids = tokenizer.tokenize(["the cat é"])[0]
    assert tokenizer.id_to_piece([0, 1, 2, *ids.numpy(), 3]) == [
        *("<pad>", "<unk>", "<s>", "▁the", "▁cat", "▁", "<0xC3>", "<0xA9>", "</s>")
    ]


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.model must be a SentencePiece"):
        SentencePieceTokenizer.from_file(tmp_path / "absent.model")


def test_a_path_in_place_of_bytes_is_rejected():
    with pytest.raises(TypeError, match="received str. Use SentencePieceTokenizer.from_file"):
        SentencePieceTokenizer("joint.model")


@pytest.mark.parametrize("model", [b"", b"no model"])
def test_bytes_of_something_else_are_rejected(model):
    with pytest.raises(ValueError, match=f"received {len(model)} bytes that are not one"):
        SentencePieceTokenizer(model)


def test_other_special_ids_are_rejected():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=20, minloglevel=2
    )
    with pytest.raises(ValueError, match="received pad -1, unk 0, bos 1 and eos 2. Train it with"):
        SentencePieceTokenizer(model.getvalue())
