"""Encoded pairs as rows of tokens, and passes over them."""

import numpy as np


def rows_of(pairs):
    """Return the tokens of each source, and of each target."""
    return tuple(
        [row.tolist() for row in np.split(ids, offsets[1:-1])] for ids, offsets in pairs.sides
    )


def assert_same_pairs(one, other):
    """Compare two sets of pairs in all of their arrays."""
    for field in ("source_ids", "source_offsets", "target_ids", "target_offsets"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field), err_msg=field)


def two_passes(make, *places):
    """Return sources and labels of two passes; batches that resume in the second are the same.

    Args:
        make: Returns new `TokenBatches`.
        *places: The steps of the second pass to resume at; a negative one counts from its end.
    """

    def batches(of):
        return [(inputs["source"].tolist(), labels.tolist()) for inputs, labels in of]

    whole = make()
    first, second = batches(whole), batches(whole)
    assert len(first) == len(second) == len(whole)
    assert first != second
    for place in places:
        resumed = make()
        resumed.epoch, resumed.step = 1, place % len(whole)
        assert batches(resumed) == second[place:]
    return first, second
