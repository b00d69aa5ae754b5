import pytest

from benchmarks.table3_rows import DIRECTIONS, PAPER, Scores, judge, judgments

SEEDS = {"base": Scores(8.0, 30.0), "base_seed_2": Scores(8.5, 31.0), "base_seed_3": Scores(9, 32)}
"""Means of 8.5 and 31, spreads of 1 and 2."""


def verdicts(rows):
    return {(one.direction.claim[0], one.measure): one.verdict for one in judgments(SEEDS | rows)}


def test_every_direction_holds_in_the_paper():
    assert PAPER["c_num_layers_8"].bleu < PAPER["base"].bleu  # So it is no claim.
    found = list(judgments(PAPER))
    assert {one.direction for one in found} == set(DIRECTIONS)
    for one in found:
        if one.direction.equal:
            assert abs(one.gain) < 0.11
        else:
            assert one.verdict == "holds", one


HOLDS, CHANCE, FAILS = "holds", "within the spread of seeds", "does not hold"


@pytest.mark.parametrize(
    ("row", "perplexity", "bleu", "expected"),
    [
        # The difference from the mean of the seeds must exceed their spread.
        ("a_num_heads_1", 9.6, 28.9, [HOLDS, HOLDS]),
        ("a_num_heads_1", 9.4, 29.1, [CHANCE, CHANCE]),
        ("a_num_heads_1", 7.6, 32.9, [CHANCE, CHANCE]),
        ("a_num_heads_1", 7.4, 33.1, [FAILS, FAILS]),
        ("a_num_heads_1", 7.4, 28.9, [FAILS, HOLDS]),
        # The row without smoothing should have lower perplexity and lower BLEU.
        ("d_label_smoothing_0.0", 7.0, 28.0, [HOLDS, HOLDS]),
        ("d_label_smoothing_0.0", 10.0, 34.0, [FAILS, FAILS]),
        # Rows that should be equal may differ by the spread.
        ("e_position_learned", 9.4, 28.9, [HOLDS, FAILS]),
        ("e_position_learned", 7.4, 32.9, [FAILS, HOLDS]),
    ],
)
def test_verdicts(row, perplexity, bleu, expected):
    found = verdicts({row: Scores(perplexity, bleu)})
    assert list(found) == [(row[0].upper(), "perplexity"), (row[0].upper(), "bleu")]
    assert list(found.values()) == expected


def test_a_row_that_should_be_better_than_the_base():
    (better,) = (one for one in judgments(SEEDS | {"c_num_layers_8": Scores(6.5, 1)}))
    assert (better.measure, better.gain, better.spread) == ("perplexity", 2.0, 1.0)
    assert better.verdict == "holds"
    (worse,) = judgments(SEEDS | {"c_num_layers_8": Scores(10.5, 99)})
    assert (worse.gain, worse.verdict) == (-2.0, "does not hold")


def test_missing_rows_are_not_judged():
    assert list(judgments(SEEDS)) == []
    assert list(judgments({"a_num_heads_1": Scores(8, 30)})) == []


def test_one_seed_has_no_spread():
    one, other = judgments({"base": Scores(8, 30), "a_num_heads_1": Scores(8, 29.9)})
    assert (one.spread, one.verdict) == (0, judge(0, 0)) == (0, "within the spread of seeds")
    assert other.verdict == "holds"
