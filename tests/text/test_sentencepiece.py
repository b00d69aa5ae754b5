import io
import random
import sys
import unicodedata

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.base import starts_with_tag
from tests.helpers.arrays import decoded

LINES = ["the dog sees the cat .", "the cat sees a small dog .", "a small house stands here ."]
VOCAB_SIZE = 300
FRAGMENTS = [
    *("the", "Dog", " ", "  ", "\t", "\u00a0", "...", "…", "%s", "%1$d", "_File", "&Open", "<b>"),
    *("</b>", "▁", "\ue000", "\ue000\ue001", "\n", "\\n", "\r", "\u2028", "\x00", "\x07", "ﬁ", "½"),
    *(".", "e\u0301", "é", "\u200b", "\ufeff", "漢", "🐕\u200d🦺", "\u2585", "</s>", "<0x41>", "⁇"),
    "x²",
]
"""What normalization would change, and what has a meaning in a vocabulary or in SentencePiece."""


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


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def verbatim(request):
    """Return a tokenizer that returns its text."""
    return SentencePieceTokenizer(
        train_sentencepiece(
            [*LINES, "  a\t ▁ b…  %s "],
            VOCAB_SIZE if request.param == "bpe" else 290,
            model_type=request.param,
            normalization="identity",
            user_symbols=["%s", "<b>", "</b>", "_", "&"],
            language_tags=[">>de<<"],
        )
    )


def comes_back(tokenizer, texts):
    ids = tokenizer.tokenize(texts)
    values, counts = tokenizer.encode(texts)
    rows = [row.tolist() for row in np.split(values, np.cumsum(counts)[:-1])]
    assert decoded(tokenizer.detokenize(ids)) == texts
    assert tokenizer.decode(ids.to_list()) == tokenizer.decode(rows) == texts
    if tokenizer.vocab_size == VOCAB_SIZE:  # BPE: unigram has ties.
        assert ids.to_list() == rows


def test_identity_returns_10_000_lines_byte_for_byte(verbatim):
    choose = random.Random(1)
    lines = ["".join(choose.choices(FRAGMENTS, k=choose.randint(0, 12))) for _ in range(10_000)]
    assert verbatim.normalization == "identity"
    comes_back(verbatim, lines)


@settings(max_examples=50, deadline=None)
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=20))
def test_identity_returns_any_text(verbatim, texts):
    comes_back(verbatim, [text for text in texts if not starts_with_tag(text)] or [" a"])


def test_identity_takes_one_space_for_a_part_of_the_tag(verbatim):
    texts = [">>de<< the cat", ">>de<<the cat", ">>de<<  the cat", "the cat"]
    ids = verbatim.tokenize(texts)
    assert decoded(verbatim.detokenize(ids)) == ["the cat", "the cat", " the cat", "the cat"]
    assert verbatim.encode(texts[2:3])[0].tolist() == ids[2].numpy().tolist()


def test_nfc_composes_accents_and_keeps_other_characters():
    words = ["Tiếng Việt", "Ελληνικά ά", "한국어", "q̣̇", "Å ﬁ … x²", "c\u00a0d\te"]
    model = train_sentencepiece([*LINES, *words], 360, normalization="nfc")
    tokenizer = SentencePieceTokenizer(model)
    assert (tokenizer.normalization, tokenizer.keeps_white_space) == ("nfc", False)
    words += ["▁ a▁▁b", "\ue000 \ue000\ue001"]  # The space of SentencePiece, and its escapes.
    texts = [unicodedata.normalize("NFD", word) for word in words] + ["\u212b \u1ea5  a "]
    composed = [unicodedata.normalize("NFC", word) for word in words] + ["Å ấ a"]
    assert decoded(tokenizer.detokenize(tokenizer.tokenize(texts))) == composed
    ids = tokenizer.tokenize(texts).to_list()
    assert ids == tokenizer.tokenize(composed).to_list()
    assert tokenizer.decode(ids) == composed


def test_a_vocabulary_of_spm_train_is_read_as_before():
    model = io.BytesIO()
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=24, minloglevel=2,
        normalization_rule_name="identity", **ids,
    )  # fmt: skip
    tokenizer = SentencePieceTokenizer(model.getvalue())
    assert (tokenizer.normalization, tokenizer.user_symbols) == ("nfkc", [])
    assert decoded(tokenizer.detokenize(tokenizer.tokenize(["  the  cat "]))) == ["the cat"]
