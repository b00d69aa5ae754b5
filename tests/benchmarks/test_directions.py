import pytest

from benchmarks.directions import DIRECTIONS, PAPER, Scores, judge, judgments

SEEDS = {"base": Scores(8.0, 30.0), "base_seed_2": Scores(8.5, 31.0), "base_seed_3": Scores(9, 32)}
"""Means of 8.5 and 31, spreads of 1 and 2."""


def verdicts(rows):
    return {(one.direction.claim[0], one.measure): one.verdict for one in judgments(SEEDS | rows)}


def test_every_direction_holds_in_the_paper():
    found = list(judgments(PAPER))
    assert {one.direction for one in found} == set(DIRECTIONS)
    for one in found:
        if one.direction.equal:
            assert abs(one.gain) < 0.11
        else:
            assert one.verdict == "holds", one


def test_more_layers_lower_bleu_in_the_paper():
    assert PAPER["c_num_layers_8"].bleu < PAPER["base"].bleu


@pytest.mark.parametrize(
    ("perplexity", "bleu", "expected"),
    [
        (9.6, 28.9, ["holds", "holds"]),
        (9.4, 29.1, ["within the spread of seeds"] * 2),
        (7.6, 32.9, ["within the spread of seeds"] * 2),
        (7.4, 33.1, ["does not hold"] * 2),
        (7.4, 28.9, ["does not hold", "holds"]),
    ],
)
def test_a_difference_from_the_mean_of_the_seeds_must_exceed_their_spread(
    perplexity, bleu, expected
):
    found = verdicts({"a_num_heads_1": Scores(perplexity, bleu)})
    assert list(found) == [("A", "perplexity"), ("A", "bleu")]
    assert list(found.values()) == expected


def test_a_row_that_should_be_better_than_the_base():
    (better,) = (one for one in judgments(SEEDS | {"c_num_layers_8": Scores(6.5, 1)}))
    assert (better.measure, better.gain, better.spread) == ("perplexity", 2.0, 1.0)
    assert better.verdict == "holds"
    (worse,) = judgments(SEEDS | {"c_num_layers_8": Scores(10.5, 99)})
    assert (worse.gain, worse.verdict) == (-2.0, "does not hold")


def test_smoothing_is_judged_by_each_measure_in_its_own_direction():
    # Without smoothing: lower perplexity and lower BLEU.
    found = verdicts({"d_label_smoothing_0.0": Scores(7.0, 28.0)})
    assert found == {("D", "perplexity"): "holds", ("D", "bleu"): "holds"}
    found = verdicts({"d_label_smoothing_0.0": Scores(10.0, 34.0)})
    assert found == {("D", "perplexity"): "does not hold", ("D", "bleu"): "does not hold"}


def test_equal_rows_may_differ_by_the_spread_of_seeds():
    found = verdicts({"e_position_learned": Scores(9.4, 28.9)})
    assert found == {("E", "perplexity"): "holds", ("E", "bleu"): "does not hold"}
    found = verdicts({"e_position_learned": Scores(7.4, 32.9)})
    assert found == {("E", "perplexity"): "does not hold", ("E", "bleu"): "holds"}


def test_missing_rows_are_not_judged():
    assert list(judgments(SEEDS)) == []
    assert list(judgments({"a_num_heads_1": Scores(8, 30)})) == []


def test_one_seed_has_no_spread():
    one, other = judgments({"base": Scores(8, 30), "a_num_heads_1": Scores(8, 29.9)})
    assert (one.spread, one.verdict) == (0, judge(0, 0)) == (0, "within the spread of seeds")
    assert other.verdict == "holds"
