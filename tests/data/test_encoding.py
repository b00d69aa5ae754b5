import logging

import numpy as np
import pytest

from keras_transformer.data import EncodedPairs, encode_pairs, encoding
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from tests.helpers.pairs import assert_same_pairs, rows_of


@pytest.fixture(scope="module")
def letters():
    """Return a tokenizer with one token for each of "▁a", "▁b" and "▁c"."""
    model = train_sentencepiece(["a b c"] * 10, vocab_size=267, model_type="bpe")
    return SentencePieceTokenizer(model)


def sides(pairs, tokenizer):
    """Return the two texts of each pair."""
    return list(zip(*map(tokenizer.decode, rows_of(pairs)), strict=True))


def test_empty_and_long_pairs_are_dropped_and_counted(letters, caplog):
    pairs = [
        ("a", "b c"),
        ("", "a"),
        (" a b c ", "c\t"),
        ("a", " \u00a0"),
        ("a b c a", "b"),
        ("b", "a b c a"),
        ("", "a b c a b"),
        ("c", "a"),
    ]
    with caplog.at_level(logging.INFO):
        encoded = encode_pairs(pairs, letters, letters, max_length=4)
    assert sides(encoded, letters) == [("a", "b c"), ("a b c", "c"), ("c", "a")]
    assert encoded.source_lengths.tolist() == [2, 4, 2]
    assert encoded.target_lengths.tolist() == [3, 2, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "kept 3 of 8 sentence pairs: dropped 3 with an empty side and 2 longer than 4 tokens"
    ]


def test_each_side_has_its_own_tokenizer(letters):
    others = SentencePieceTokenizer(train_sentencepiece(["x y"] * 10, vocab_size=265))
    encoded = encode_pairs([("a b", "x")], letters, others, max_length=9)
    assert encoded.source_ids.tolist() == letters.tokenize(["a b"]).to_list()[0]
    assert encoded.target_ids.tolist() == others.tokenize(["x"]).to_list()[0]


def test_encoding_in_chunks_changes_nothing(letters, monkeypatch):
    pairs = [("a " * (i % 5), "b " * (i % 3)) for i in range(31)]
    whole = encode_pairs(pairs, letters, letters, max_length=4)
    monkeypatch.setattr(encoding, "_LINES_AT_ONCE", 7)
    in_chunks = encode_pairs(iter(pairs), letters, letters, max_length=4)
    assert_same_pairs(whole, in_chunks)
    assert whole.source_ids.dtype == whole.target_ids.dtype == np.int32


def test_a_padded_batch_equals_one_written_by_hand():
    pairs = EncodedPairs(
        source_ids=np.array([11, 12, 13, 14, 15, 16], np.int32),
        source_offsets=np.array([0, 1, 4, 6]),
        target_ids=np.array([21, 22, 23, 24, 25, 26, 27], np.int32),
        target_offsets=np.array([0, 4, 5, 7]),
    )
    assert len(pairs) == 3
    inputs, labels = pairs.padded_batch(np.array([2, -1, 0, 1]))
    assert inputs["source"].tolist() == [
        [15, 16, 3, 0],
        [0, 0, 0, 0],
        [11, 3, 0, 0],
        [12, 13, 14, 3],
    ]
    assert inputs["target"].tolist() == [
        [2, 26, 27, 0, 0],
        [0, 0, 0, 0, 0],
        [2, 21, 22, 23, 24],
        [2, 25, 0, 0, 0],
    ]
    assert labels.tolist() == [
        [26, 27, 3, 0, 0],
        [0, 0, 0, 0, 0],
        [21, 22, 23, 24, 3],
        [25, 3, 0, 0, 0],
    ]
    assert {ids.dtype for ids in (*inputs.values(), labels)} == {np.dtype(np.int32)}


@pytest.mark.parametrize(
    "pairs, received",
    [
        ([], "received 0 pairs: 0 with an empty side and 0 longer than 3 tokens"),
        ([("", "a"), ("a b c", "b")], "received 2 pairs: 1 with an empty side and 1 longer"),
    ],
)
def test_text_without_a_usable_pair_is_rejected(letters, pairs, received):
    with pytest.raises(ValueError, match=received):
        encode_pairs(pairs, letters, letters, max_length=3)


def test_a_max_length_without_room_for_a_token_and_eos_is_rejected(letters):
    with pytest.raises(ValueError, match="max_length must be at least 2 .* received 1"):
        encode_pairs([("a", "b")], letters, letters, max_length=1)
