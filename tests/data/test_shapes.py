"""Widths of batches: the choice that pads least, against an exhaustive search."""

from itertools import combinations

import numpy as np
import pytest

from keras_transformer.data import choose_widths


def padded_tokens(lengths, widths):
    return sum(min(width for width in widths if width >= length) for length in lengths)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_widths_pad_less(count, seed):
    random = np.random.default_rng(seed)
    lengths = 1 + random.geometric(0.15, size=60).clip(max=33)
    candidates = range(4, lengths.max() + 4, 4)
    others = (
        widths
        for size in range(1, count + 1)
        for widths in combinations(candidates, min(size, len(candidates)))
        if widths[-1] >= lengths.max()
    )
    widths = choose_widths(lengths, count, multiple=4)
    assert len(widths) <= count and widths == sorted(set(widths))
    assert padded_tokens(lengths, widths) == min(padded_tokens(lengths, w) for w in others)


def test_one_width_holds_the_longest_sentence():
    assert choose_widths([3, 17, 5], count=1) == [24]


def test_longest_makes_room_for_other_segmentations():
    assert choose_widths([7, 9, 9, 30], count=3, longest=60) == [16, 32, 64]


def test_widths_that_would_be_empty_are_left_out():
    assert choose_widths([8, 8, 8], count=5) == [8]


def test_a_million_lengths_take_no_time():
    lengths = np.random.default_rng(0).integers(1, 512, size=1_000_000)
    widths = choose_widths(lengths, count=12)
    assert len(widths) == 12 and widths[-1] == 512


@pytest.mark.parametrize(
    "arguments, problem",
    [
        (dict(lengths=[], count=2), "received none"),
        (dict(lengths=[0, 3], count=2), "received 0"),
        (dict(lengths=[3], count=0), "count must be positive, received 0"),
        (dict(lengths=[3], count=1, multiple=0), "multiple must be positive"),
        (dict(lengths=[9], count=1, longest=8), "of up to 9 tokens, received 8"),
    ],
)
def test_arguments_that_allow_no_widths(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        choose_widths(**arguments)
