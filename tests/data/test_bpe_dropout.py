import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import UNK_ID
from keras_transformer.data import (
    EncodedPairs,
    SubwordDropout,
    TokenBatches,
    encode_pairs,
    pipeline,
)
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from tests.helpers.invented import invented_pairs
from tests.helpers.pairs import rows_of, two_passes


@pytest.fixture(scope="module")
def text():
    return invented_pairs(2500)


@pytest.fixture(scope="module")
def tokenizers(text):
    return [
        SentencePieceTokenizer(train_sentencepiece([pair[side] for pair in text[:2000]], size))
        for side, size in ((0, 500), (1, 600))
    ]


@pytest.fixture(scope="module")
def pairs(text, tokenizers):
    return encode_pairs(text, *tokenizers, max_length=64)


def drop_merges(pairs, tokenizers, rate, max_length=64, seed=5, number=0, processes=1):
    """Return all pairs in order, segmented again."""
    dropout = SubwordDropout(
        pairs, tokenizers, rate, max_length=max_length, seed=seed, processes=processes
    )
    return dropout.segment(number, 0, np.arange(len(pairs))).result()


@pytest.mark.parametrize("side", [0, 1])
def test_a_side_without_a_tokenizer_keeps_its_tokens(pairs, tokenizers, side):
    only = [None, None]
    only[side] = tokenizers[side]
    both, varied = (rows_of(drop_merges(pairs, each, 0.1)) for each in (tokenizers, only))
    assert varied[side] == both[side] != rows_of(pairs)[side]
    assert varied[1 - side] == rows_of(pairs)[1 - side]


def test_the_text_stays_the_same_in_other_tokens(pairs, tokenizers):
    varied = drop_merges(pairs, tokenizers, 0.1)
    assert len(varied) == len(pairs)
    for tokenizer, before, after in zip(tokenizers, rows_of(pairs), rows_of(varied), strict=True):
        texts = [tokenizer.detokenize(tf.ragged.constant(ids)).numpy() for ids in (before, after)]
        assert np.array_equal(*texts)
        changed = np.mean([a != b for a, b in zip(before, after, strict=True)])
        assert 0.5 < changed < 1
        longer = sum(map(len, after)) / sum(map(len, before))
        assert 1.05 < longer < 2
    assert varied.source_ids.dtype == varied.target_ids.dtype == np.int32


def test_rate_0_gives_the_usual_tokens_and_rate_1_characters(pairs, tokenizers):
    assert rows_of(drop_merges(pairs, tokenizers, 0)) == rows_of(pairs)
    characters = drop_merges(pairs, tokenizers, 1, max_length=10_000)
    for tokenizer, ids in zip(tokenizers, rows_of(characters), strict=True):
        pieces = tokenizer.id_to_piece({i for row in ids for i in row})
        assert {len(piece) for piece in pieces if not piece.startswith("<0x")} == {1}


def test_seed_pass_and_place_decide_and_nothing_else(pairs, tokenizers):
    def cut(seed, number, processes=1):
        return rows_of(
            drop_merges(pairs, tokenizers, 0.1, seed=seed, number=number, processes=processes)
        )

    first = cut(1, 2)
    assert cut(1, 2, processes=3) == first  # Hashes of strings differ between processes.
    assert first != cut(1, 3) != cut(2, 2) != first
    dropout = SubwordDropout(pairs, tokenizers, 0.1, max_length=64, seed=1, processes=1)
    part = rows_of(dropout.segment(2, 1500, np.arange(1500, 1560)).result())
    assert part == tuple(side[1500:1560] for side in first)


def test_equal_pairs_are_cut_differently(text, tokenizers):
    same = encode_pairs([text[0]] * 50, *tokenizers, max_length=64)
    source, target = rows_of(drop_merges(same, tokenizers, 0.3, seed=1))
    assert len(set(map(tuple, source))) > 5
    assert len(set(map(tuple, target))) > 5


def test_a_sentence_that_would_be_too_long_or_has_unk_keeps_its_tokens(text, tokenizers):
    pairs = encode_pairs([*text[:50], ("ba de", "ab ed")], *tokenizers, max_length=64)
    longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
    varied = drop_merges(pairs, tokenizers, 1, max_length=longest)
    for before, after in zip(rows_of(pairs), rows_of(varied), strict=True):
        assert before[:50] == after[:50]  # Their letters would be more tokens than the longest.
        assert len(before[50]) < len(after[50]) == 6

    ids = np.array([*tokenizers[0].tokenize(["lalo zo fi"])[0].numpy(), UNK_ID], np.int32)
    unknown = EncodedPairs(ids, np.array([0, len(ids)]), ids[:2], np.array([0, 2]))
    (source,), (target,) = rows_of(drop_merges(unknown, tokenizers, 1))
    assert source == ids.tolist()
    assert len(target) > 2


@pytest.fixture
def batches(pairs, tokenizers, monkeypatch):
    """Return a function that makes batches, with passes of three parts."""
    monkeypatch.setattr(pipeline, "_PART", 1000)

    def make(**options):
        dropout = SubwordDropout(pairs, tokenizers, 0.1, max_length=64, seed=3, processes=2)
        return TokenBatches(pairs, 512, seed=3, vary=dropout, **options)

    return make


def test_each_epoch_has_its_own_tokens_also_after_resuming(batches, pairs):
    first, second = two_passes(batches, 0, 9, -2)
    short = batches(steps_per_epoch=len(first) // 4)
    in_order = [labels.tolist() for _ in range(5) for _, labels in short]
    assert in_order == [labels for _, labels in first + second][: len(in_order)]


def test_batches_keep_the_budget_and_have_almost_every_pair(batches, pairs):
    whole = batches()
    sizes, tokens, rows = [], 0, 0
    for inputs, labels in whole:
        sizes.append(max(inputs["source"].size, labels.size))
        tokens += np.count_nonzero(inputs["source"]) + np.count_nonzero(labels)
        rows += len(labels)
    assert max(sizes) <= 512
    assert 0.9 * len(pairs) < rows <= len(pairs)
    assert tokens == pytest.approx(whole.tokens, rel=0.05)


def test_a_part_is_segmented_once_however_often_it_is_begun(batches):
    whole = batches(steps_per_epoch=3)
    segment, segmented = whole.vary.segment, []

    def count(number, first, members):
        segmented.append((number, first))
        return segment(number, first, members)

    whole.vary.segment = count
    next(iter(whole))  # Keras peeks at a batch in this way.
    for _ in range(3):
        list(whole)
    assert len(segmented) == 2  # The part in use, and the next.
