import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.data.batching import _bucket_boundaries, plan_batches


@pytest.mark.parametrize(
    "shortest, longest, boundaries",
    [
        (8, 8, [8]),
        (1, 5, [1, 2, 3, 4, 5]),
        (10, 21, [*range(10, 22)]),
        (18, 26, [18, 19, 20, 22, 24, 26]),
        (40, 60, [40, 44, 48, 52, 57, 60]),
        (100, 140, [100, 110, 121, 133, 140]),
    ],
)
def test_boundaries_equal_those_computed_by_hand(shortest, longest, boundaries):
    assert _bucket_boundaries(shortest, longest) == boundaries


def test_batches_equal_those_computed_by_hand():
    # Boundaries 2, 3, 4, 5 hold 6, 4, 3 and 2 rows of a budget of 12. The last pair of length 2 is
    # left over, and goes with the pairs of length 3.
    lengths = [2, 3, 2, 3, 2, 2, 4, 5, 2, 3, 2, 2]
    batches = plan_batches(lengths, 12, shuffle=False)
    assert [batch.tolist() for batch in batches] == [
        [0, 2, 4, 5, 8, 10],
        [11, 1, 3, 9],
        [6, 7],
    ]


def test_batches_are_completed_with_empty_rows():
    batches = plan_batches([4] * 8, 20, num_replicas=3, shuffle=False)
    assert [batch.tolist() for batch in batches] == [[0, 1, 2, 3, 4, -1], [5, 6, 7]]


def test_examples_with_similar_second_keys_share_a_batch():
    keys = np.array([1, 0] * 6)
    batches = plan_batches([5] * 12, 15, seed=3, group_by=keys)
    assert sorted(keys[batch].tolist() for batch in batches) == [[0] * 3] * 2 + [[1] * 3] * 2
    # Keys are compared among eight batches at a time, not in a whole bucket.
    keys = np.arange(32)[::-1]
    batches = plan_batches([5] * 32, 10, shuffle=False, group_by=keys)
    assert [batch.tolist() for batch in batches[:2]] == [[15, 14], [13, 12]]
    assert batches[8].tolist() == [31, 30]


@st.composite
def plans(draw):
    lengths = draw(st.lists(st.integers(1, 60), min_size=1, max_size=200))
    replicas = draw(st.integers(1, 4))
    budget = draw(st.integers(max(lengths), max(lengths) + 500))
    options = dict(num_replicas=replicas, seed=draw(st.integers(0, 9)), shuffle=draw(st.booleans()))
    if draw(st.booleans()):
        options["group_by"] = np.array(lengths) % 5
    return np.array(lengths), budget, options


@settings(max_examples=200, deadline=None)
@given(plan=plans())
def test_every_epoch_keeps_the_budget_and_has_each_example_once(plan):
    lengths, budget, options = plan
    sizes = set()
    for epoch in range(2):
        batches = plan_batches(lengths, budget, epoch=epoch, **options)
        sizes.add(len(batches))
        used = np.concatenate(batches)
        assert sorted(used[used >= 0].tolist()) == list(range(len(lengths)))
        for batch in batches:
            assert (batch >= 0).sum() * lengths[batch[batch >= 0]].max() <= budget
            assert (batch < 0).sum() < options["num_replicas"]
            assert len(batch) % options["num_replicas"] == 0
    assert len(sizes) == 1


@settings(max_examples=50, deadline=None)
@given(plan=plans(), epoch=st.integers(0, 99))
def test_the_examples_of_a_batch_do_not_depend_on_the_number_of_replicas(plan, epoch):
    lengths, budget, options = plan
    batches = plan_batches(lengths, budget, epoch=epoch, **options)
    alone = plan_batches(lengths, budget, epoch=epoch, **{**options, "num_replicas": 1})
    assert [batch[batch >= 0].tolist() for batch in batches] == [batch.tolist() for batch in alone]


@settings(max_examples=50, deadline=None)
@given(plan=plans(), epoch=st.integers(0, 99))
def test_a_plan_depends_on_its_arguments_alone(plan, epoch):
    lengths, budget, options = plan
    first, again = (plan_batches(lengths, budget, epoch=epoch, **options) for _ in range(2))
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in again]


def test_epochs_and_seeds_differ_in_the_content_and_order_of_batches():
    lengths = np.repeat(np.arange(5, 15), 40)

    def epoch(**options):
        return [tuple(batch) for batch in plan_batches(lengths, 100, **options)]

    first = epoch(seed=1, epoch=0)
    for other in (epoch(seed=1, epoch=1), epoch(seed=2, epoch=0)):
        assert len(other) == len(first)
        shared = set(map(frozenset, first)) & set(map(frozenset, other))
        assert len(shared) < len(first) / 10
        assert [max(lengths[list(batch)]) for batch in first] != [
            max(lengths[list(batch)]) for batch in other
        ]


def test_without_shuffling_every_epoch_is_the_same_from_short_to_long():
    lengths = np.arange(100) % 13 + 3
    first = plan_batches(lengths, 50, seed=1, epoch=0, shuffle=False)
    later = plan_batches(lengths, 50, seed=2, epoch=5, shuffle=False)
    assert [batch.tolist() for batch in first] == [batch.tolist() for batch in later]
    longest = [lengths[batch].max() for batch in first]
    assert longest == sorted(longest)


def test_a_sentence_beyond_the_budget_is_rejected():
    plan_batches([3, 25], 25, num_replicas=4)
    message = "must be at least 26 for a sentence of 26 tokens, received 25"
    with pytest.raises(ValueError, match=message):
        plan_batches([3, 26], 25, num_replicas=4)


def test_numbers_that_are_not_positive_are_rejected():
    with pytest.raises(ValueError, match="batch_tokens must be positive, received 0"):
        plan_batches([3], 0)
    with pytest.raises(ValueError, match="num_replicas must be positive, received -1"):
        plan_batches([3], 10, num_replicas=-1)
    with pytest.raises(ValueError, match="lengths must be positive .* received 0. Drop empty"):
        plan_batches([3, 0], 10)
    with pytest.raises(ValueError, match="lengths must be positive .* received none"):
        plan_batches([], 10)
