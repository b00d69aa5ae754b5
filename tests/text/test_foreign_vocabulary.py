"""Vocabularies of other programs: the same split of text, with the ids of the vocabulary."""

import pytest
import sentencepiece
import tensorflow as tf

from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.base import LanguageTags, StringTable
from keras_transformer.text.foreign_vocabulary import (
    join_vocabulary,
    normalize_opus,
    read_foreign_vocabulary,
)
from tests.helpers.foreign_spm import spm_pieces, train_spm
from tests.helpers.tiny import NO_UTF8, ODD, toy_pairs

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
UNK = 1


@pytest.fixture(scope="module", params=["unigram", "bpe"])
def joined(request):
    """Return SentencePiece's processor, a vocabulary of its own order, and our tokenizer."""
    model = train_spm(0, request.param)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = spm_pieces(model)
    # Some pieces of the model are missing, and some are not the model's.
    vocabulary = [*SPECIAL, "▁Hund", "ö", *sorted(pieces[4:]), ">>de<<"]
    tokenizer = SentencePieceTokenizer(join_vocabulary(model, vocabulary))
    return processor, vocabulary, tokenizer


def test_ids_are_those_of_the_pieces_in_the_vocabulary(joined):
    processor, vocabulary, tokenizer = joined
    place = {piece: i for i, piece in enumerate(vocabulary)}
    texts = [source for source, _ in toy_pairs(50)] + ODD + ["zwölf", "<s> </s>"]
    expected = [[place.get(p, UNK) for p in processor.encode(t, out_type=str)] for t in texts]
    assert tokenizer.tokenize(texts).to_list() == expected
    assert tokenizer.vocab_size == len(vocabulary)
    assert max(map(max, filter(None, expected))) < len(vocabulary)


def test_bytes_that_are_not_utf8_are_no_error(joined):
    assert len(joined[2].tokenize(tf.constant(NO_UTF8)).to_list()) == len(NO_UTF8)


def test_unknown_tokens_are_no_text(joined):
    _, vocabulary, tokenizer = joined
    ids = [[vocabulary.index("▁Hund"), UNK, vocabulary.index("▁Hund")]]
    texts = tokenizer.detokenize(tf.constant(ids)).numpy()
    assert texts.tolist() == [b"Hund Hund"]


def test_the_file_keeps_what_the_vocabulary_is(joined, tmp_path):
    tokenizer = joined[2]
    tokenizer.save(tmp_path / "vocabulary.model")
    again = SentencePieceTokenizer.from_file(tmp_path / "vocabulary.model")
    assert again.vocab_size == tokenizer.vocab_size
    assert again.language_tags == [">>de<<"]
    assert read_foreign_vocabulary(again.model).normalization == "none"


def test_a_model_of_ours_is_no_foreign_one():
    model = train_sentencepiece(["a b c"], vocab_size=265)
    assert read_foreign_vocabulary(model) is None
    assert SentencePieceTokenizer(model).language_tags == []


def test_pieces_that_occur_twice_are_refused():
    with pytest.raises(ValueError, match="pieces must differ, received 1 that occurred before"):
        join_vocabulary(train_spm(0), [*SPECIAL, "▁a", "▁a"])


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="must be the bytes of a SentencePiece model"):
        join_vocabulary(b"no model", SPECIAL)


@pytest.mark.parametrize(
    ("text", "rest", "number"),
    [
        (">>de<< a dog", " a dog", 7),
        (">>de<<a dog", "a dog", 7),
        (">>xx<< a dog", " a dog", UNK),
        ("a >>de<< dog", "a >>de<< dog", -1),
        (">> a dog", ">> a dog", -1),
        (">> a dog << b", ">> a dog << b", -1),
        ("", "", -1),
    ],
)
def test_a_tag_is_taken_off_the_start(text, rest, number):
    check_split(LanguageTags({">>de<<": 7, ">>fr<<": 9}), text, rest, number)


@pytest.mark.parametrize(
    ("text", "rest"), [(">> a\ndog <<<b", "<b"), (">><<", ""), (">> a", None), ("a >>b<<", None)]
)
def test_for_hugging_face_any_text_is_a_tag(text, rest):
    tags = LanguageTags({">>de<<": 7}, any_text=True)
    check_split(tags, text, text if rest is None else rest, -1 if rest is None else UNK)
    check_split(tags, ">>de<< a", " a", 7)


def check_split(tags, text, rest, number):
    assert tags.split_strings([text]) == ([rest], [number])
    rests, numbers = tags.split(tf.constant([text]))
    assert (rests.numpy()[0].decode(), numbers.numpy()[0]) == (rest, number)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好，世界。 再见", "你好,世界. 再见"),
        ("“Ｎｏ” it’s 2０…", '"Ｎｏ" it\'s 20...'),
        ("a\u200b\u200bb\x07 c  ", "a b c"),
        ("１２", '"2'),
        ("a\nb", "a\nb"),
    ],
)
def test_text_is_normalized_as_the_scripts_of_opus_do(text, expected):
    assert normalize_opus(tf.constant([text])).numpy()[0].decode() == expected


def test_a_table_finds_its_strings_and_no_others():
    strings = {f"piece {i}": i * 3 for i in range(1000)}
    table = StringTable(strings)
    asked = [*strings, "piece", "", "piece 1000"]
    assert table(tf.constant(asked), default=-7).numpy().tolist() == [*strings.values(), -7, -7, -7]
