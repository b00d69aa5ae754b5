import io
import sys

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from tests.helpers.arrays import decoded

LINES = ["the dog sees the cat .", "the cat sees a small dog .", "a small house stands here ."]
VOCAB_SIZE = 300


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer(train_sentencepiece(LINES, VOCAB_SIZE))


@pytest.fixture(scope="module")
def reference(tokenizer):
    return sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text(max_size=30), max_size=8))
def test_ids_and_texts_equal_those_of_the_sentencepiece_package(tokenizer, reference, texts):
    ids = tokenizer.tokenize(texts)
    assert ids.to_list() == reference.encode(texts)
    assert decoded(tokenizer.detokenize(ids)) == [reference.decode(row) for row in ids.to_list()]


def test_unk_becomes_a_visible_mark(tokenizer):
    assert decoded(tokenizer.detokenize([[1]])) == [" ⁇ "]


@pytest.mark.parametrize("model", [b"", b"no model"])
def test_bytes_of_something_else_are_rejected(model):
    with pytest.raises(ValueError, match=f"received {len(model)} other bytes"):
        SentencePieceTokenizer(model)


def test_other_special_ids_are_rejected():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=20, minloglevel=2
    )
    with pytest.raises(ValueError, match="received pad -1, unk 0, bos 1 and eos 2. Train it with"):
        SentencePieceTokenizer(model.getvalue())


def test_the_error_without_the_package_says_how_to_install_it(tokenizer, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    for needs_it in (
        lambda: SentencePieceTokenizer(tokenizer.model),
        lambda: train_sentencepiece(LINES, VOCAB_SIZE),
    ):
        with pytest.raises(ImportError, match="pip install sentencepiece"):
            needs_it()
