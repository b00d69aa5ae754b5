import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import UNK_ID
from keras_transformer.data import EncodedPairs, TokenBatches, drop_merges, encode_pairs
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from pipelines.quickstart.grammar import generate_pairs


@pytest.fixture(scope="module")
def text():
    return list(generate_pairs(9000, seed=3))


@pytest.fixture(scope="module")
def tokenizers(text):
    return [
        SentencePieceTokenizer(train_sentencepiece([pair[side] for pair in text[:2000]], size))
        for side, size in ((0, 700), (1, 800))
    ]


@pytest.fixture(scope="module")
def pairs(text, tokenizers):
    return encode_pairs(text, *tokenizers, max_length=64)


def rows(ids, offsets):
    return [part.tolist() for part in np.split(ids, offsets[1:-1])]


def sides(pairs):
    return (
        rows(pairs.source_ids, pairs.source_offsets),
        rows(pairs.target_ids, pairs.target_offsets),
    )


def test_the_text_stays_the_same_in_other_tokens(pairs, tokenizers):
    varied = drop_merges(pairs, tokenizers, 0.1, max_length=64, seed=5)
    assert len(varied) == len(pairs)
    for tokenizer, before, after in zip(tokenizers, sides(pairs), sides(varied), strict=True):
        texts = [tokenizer.detokenize(tf.ragged.constant(ids)).numpy() for ids in (before, after)]
        assert np.array_equal(*texts)
        changed = np.mean([a != b for a, b in zip(before, after, strict=True)])
        assert 0.5 < changed < 1
        longer = sum(map(len, after)) / sum(map(len, before))
        assert 1.05 < longer < 2
    assert varied.source_ids.dtype == varied.target_ids.dtype == np.int32


def test_rate_0_gives_the_usual_tokens_and_rate_1_characters(pairs, tokenizers):
    assert sides(drop_merges(pairs, tokenizers, 0, max_length=64, seed=5)) == sides(pairs)
    characters = drop_merges(pairs, tokenizers, 1, max_length=10_000, seed=5)
    for tokenizer, ids in zip(tokenizers, sides(characters), strict=True):
        pieces = tokenizer.id_to_piece({i for row in ids for i in row})
        assert {len(piece) for piece in pieces if not piece.startswith("<0x")} == {1}


def test_equal_seeds_give_equal_tokens_and_other_seeds_others(pairs, tokenizers):
    def cut(seed):
        return sides(drop_merges(pairs, tokenizers, 0.1, max_length=64, seed=seed))

    first = cut((1, 2))
    assert cut((1, 3)) != first
    assert cut((1, 2)) == first


def test_chunks_draw_different_random_numbers(text, tokenizers):
    # More pairs than one chunk holds, all of them the same sentence.
    same = encode_pairs([text[0]] * 8200, *tokenizers, max_length=64)
    source, _ = sides(drop_merges(same, tokenizers, 0.3, max_length=64, seed=1))
    assert source[:8] != source[8192:]


def test_a_sentence_that_would_be_too_long_or_has_unk_keeps_its_tokens(pairs, tokenizers):
    longest = int(max(pairs.source_lengths.max(), pairs.target_lengths.max()))
    varied = drop_merges(pairs, tokenizers, 1, max_length=longest, seed=5)
    lengths = np.concatenate([varied.source_lengths, varied.target_lengths])
    assert lengths.max() == longest
    kept = [a == b for a, b in zip(sides(pairs)[0], sides(varied)[0], strict=True)]
    assert 0 < sum(kept) < len(kept)

    ids = np.array([*tokenizers[0].tokenize(["the tall man"])[0].numpy(), UNK_ID], np.int32)
    unknown = EncodedPairs(ids, np.array([0, len(ids)]), ids[:2], np.array([0, 2]))
    (source,), (target,) = sides(drop_merges(unknown, tokenizers, 1, max_length=64, seed=5))
    assert source == ids.tolist()
    assert len(target) > 2


def test_a_pass_is_varied_once_however_often_it_is_begun(pairs):
    varied = []

    def vary(pairs, number):
        varied.append(number)
        return pairs

    batches = TokenBatches(pairs, 4096, vary=vary)
    for _ in range(2):
        next(iter(batches.dataset()))  # Keras peeks at a batch in this way.
    for _ in range(2):
        list(batches.dataset())
    assert varied == [0, 1]


def test_each_epoch_has_its_own_tokens_also_after_resuming(pairs, tokenizers):
    def batches():
        return TokenBatches(
            pairs,
            4096,
            seed=3,
            vary=lambda pairs, number: drop_merges(
                pairs, tokenizers, 0.1, max_length=64, seed=number
            ),
        )

    def epoch(batches):
        return [labels.numpy().tolist() for _, labels in batches.dataset()]

    whole = batches()
    first, second = epoch(whole), epoch(whole)
    assert len(first) == len(second) == len(whole)
    assert whole.tokens > (pairs.source_lengths.sum() + pairs.target_lengths.sum()) * 1.05
    resumed = batches()
    resumed.epoch = 1
    assert first != second
    assert epoch(resumed) == second
