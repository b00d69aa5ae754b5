from collections import Counter

import pytest
import sentencepiece

from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
from keras_transformer.text.bpe_dropout import BPEDropout
from pipelines.quickstart.grammar import generate_pairs
from tests.helpers.tiny import run_python

LINES = [line for pair in generate_pairs(400, seed=3) for line in pair]

# Merges of "abc", best first: "bc", "ab", "abc".
PIECES = ["a", "b", "c", "bc", "ab", "abc"]
SCORES = {3: 0.0, 4: -1.0, 5: -2.0}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer(train_sentencepiece(LINES, 500))


def test_segmentations_have_the_probabilities_computed_by_hand():
    # "bc" is merged with probability 3/4, and then "abc" with 3/4; else "ab" with 3/4, whose merge
    # with "c" is a new pair that is merged with 3/4.
    rows = BPEDropout(PIECES, SCORES)([[5]] * 20_000, rate=1 / 4, seed=1)
    counts = Counter(tuple(PIECES[i] for i in row) for row in rows)
    expected = {
        ("abc",): 9 / 16 + 1 / 4 * 9 / 16,
        ("a", "bc"): 3 / 16,
        ("ab", "c"): 1 / 4 * 3 / 16,
        ("a", "b", "c"): 1 / 16,
    }
    assert counts.keys() == expected.keys()
    for segmentation, probability in expected.items():
        assert counts[segmentation] / 20_000 == pytest.approx(probability, abs=0.01)


def test_rate_0_gives_what_sentencepiece_gives(tokenizer):
    ids = tokenizer.tokenize(LINES).to_list()
    characters = tokenizer.drop_merges(ids, rate=1.0, seed=1)
    assert tokenizer.drop_merges(characters, rate=0.0, seed=1) == ids


def test_sampled_lengths_are_those_of_sentencepiece(tokenizer):
    ids = tokenizer.tokenize(LINES).to_list()
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    theirs = processor.encode(LINES, enable_sampling=True, alpha=0.2, nbest_size=-1)
    ours = tokenizer.drop_merges(ids, rate=0.2, seed=1)
    assert sum(map(len, ours)) == pytest.approx(sum(map(len, theirs)), rel=0.03)
    assert sum(map(len, ours)) > 1.1 * sum(map(len, ids))


def test_bytes_and_unknown_pieces_stay_whole(tokenizer):
    ids = tokenizer.tokenize(["Ω the dog"]).to_list()
    (cut,) = tokenizer.drop_merges(ids, rate=1.0, seed=1)
    pieces = tokenizer.id_to_piece(cut)
    assert pieces[:4] == ["▁", "<0xCE>", "<0xA9>", "▁"]
    assert tokenizer.drop_merges([[1, *ids[0]]], rate=1.0, seed=1) == [[1, *cut]]


SAMPLE = """
from keras_transformer.text.bpe_dropout import BPEDropout
pieces, scores = ["a", "b", "c", "bc", "ab", "abc"], {3: 0.0, 4: -1.0, 5: -2.0}
print(BPEDropout(pieces, scores)([[5]] * 40, rate=0.5, seed=7))
"""


@pytest.mark.slow
def test_another_process_gives_the_same():
    here = BPEDropout(PIECES, SCORES)([[5]] * 40, rate=0.5, seed=7)
    assert run_python("-c", SAMPLE).stdout.strip() == str(here)
    assert len(set(map(tuple, here))) > 2
