import numpy as np
import pytest

from keras_transformer.data import TokenBatches, WordDropout, encode_pairs
from keras_transformer.text import WordTokenizer, train_words
from tests.helpers.pairs import rows_of, two_passes

RARE = [f"{letter}ing" for letter in "abcdefghijklm"]
TEXT = [("sing " * 2 + "the " * 8, "the sing")] * 300 + [("the kling", "sing")]


@pytest.fixture(scope="module")
def tokenizer():
    return WordTokenizer(train_words(["sing " * 2 + "the " * 8, *RARE], 20))


@pytest.fixture(scope="module")
def pairs(tokenizer):
    return encode_pairs(TEXT, tokenizer, tokenizer, max_length=20)


def test_rare_words_become_their_class_more_often(tokenizer, pairs):
    varied = WordDropout(pairs, tokenizer, rate=2.0).segment(0, 0, np.arange(300)).result()
    ids = np.array(rows_of(varied)[0])
    [ing] = tokenizer.tokenize(["the kling"]).numpy()[0][1:]
    # Half of the words that occur twice; "the" has no class of its own, and becomes unk: 2 / 10.
    assert np.mean(ids[:, :2] == ing) == pytest.approx(0.5, abs=0.06)
    assert np.mean(ids[:, 2:] == 1) == pytest.approx(0.2, abs=0.03)
    assert set(ids.ravel()) == {ing, 1, *pairs.source_ids[:3].tolist()}


def test_targets_and_the_order_of_pairs_stay(tokenizer, pairs):
    varied = WordDropout(pairs, tokenizer, rate=0.5).segment(3, 7, np.array([300, 5])).result()
    sources, targets = rows_of(varied)
    assert [len(row) for row in sources] == [2, 10]
    assert targets == [rows_of(pairs)[1][300], rows_of(pairs)[1][5]]
    assert sources[0][1] == rows_of(pairs)[0][300][1]  # It was a class before.


def test_a_choice_depends_on_seed_pass_and_place_alone(tokenizer, pairs):
    def varied(number, first, members, seed=4):
        dropout = WordDropout(pairs, tokenizer, rate=2.0, seed=seed)
        return rows_of(dropout.segment(number, first, np.array(members)).result())[0]

    whole = varied(1, 0, range(20))
    assert varied(1, 10, range(10, 20)) == whole[10:]
    assert varied(1, 10, [0, *range(11, 20)])[1:] == whole[11:]
    assert whole != varied(2, 0, range(20))
    assert whole != varied(1, 0, range(20), seed=5)


def test_batches_have_other_words_in_each_pass_and_resume(tokenizer, pairs):
    def batches():
        return TokenBatches(pairs, 120, vary=WordDropout(pairs, tokenizer, rate=2.0), seed=1)

    first, second = two_passes(batches, 7)
    assert [source for source, _ in first] != [source for source, _ in second]


def test_no_batch_is_left_out_because_the_number_of_tokens_stays(tokenizer):
    many = encode_pairs(TEXT * 4, tokenizer, tokenizer, max_length=20)
    plain = TokenBatches(many, 60, seed=1)
    varied = TokenBatches(many, 60, vary=WordDropout(many, tokenizer, rate=2.0), seed=1)
    assert len(varied) == len(plain) > 100
    assert varied.tokens == plain.tokens
    tokens = (sum(np.count_nonzero(labels) for _, labels in each) for each in (plain, varied))
    assert len({*tokens}) == 1
