"""Widths of batches: the choice that pads least, against an exhaustive search."""

from itertools import combinations

import numpy as np
import pytest

from keras_transformer.config import PAD_ID, ExperimentConfig
from keras_transformer.data import EncodedPairs, TokenBatches
from keras_transformer.data.batching import choose_widths, plan_batches
from keras_transformer.training.prepare import static_widths


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


def random_pairs(count=200, longest=30, seed=1):
    random = np.random.default_rng(seed)
    parts = []
    for _ in range(2):
        counts = random.integers(1, longest, size=count)
        parts += [np.arange(counts.sum(), dtype=np.int32) + 4, np.append(0, np.cumsum(counts))]
    return EncodedPairs(*parts)


@pytest.mark.parametrize("replicas", [1, 3])
def test_batches_have_few_shapes_and_all_pairs_once(replicas):
    pairs, widths = random_pairs(count=4000), [8, 16, 32]
    batches = TokenBatches(pairs, 1100, num_replicas=replicas, widths=widths)
    rows_of = {8: 136, 16: 64, 32: 34}  # 1100 / 8 = 137.5, and 1100 / 16 = 68.75.
    shapes, firsts = set(), []
    for inputs, labels in batches:
        rows, width = labels.shape
        assert inputs["source"].shape == inputs["target"].shape == labels.shape
        assert width in widths and rows % replicas == 0
        assert rows_of[width] <= rows < rows_of[width] + replicas
        shapes.add(labels.shape)
        firsts += [ids for ids in labels[:, 0].tolist() if ids != PAD_ID]
    assert {width for _, width in shapes} == set(widths) and len(shapes) == len(widths)
    assert sorted(firsts) == sorted(pairs.target_ids[pairs.target_offsets[:-1]])


def test_static_batches_hold_the_pairs_of_others_padded_further():
    pairs = random_pairs(longest=8)
    (inputs, labels), *_ = TokenBatches(pairs, 530, widths=[8], shuffle=False)
    of_rows = np.searchsorted(pairs.target_offsets, labels[:, 0] - 4)  # Ids count up from 4.
    plain, plain_labels = pairs.padded_batch(of_rows)
    for ids, others in ((inputs["source"], plain["source"]), (labels, plain_labels)):
        assert ids.shape == (64, 8)  # Not 66 rows: a multiple of 8.
        np.testing.assert_array_equal(ids[:, : others.shape[1]], others)
        assert not ids[:, others.shape[1] :].any()


def test_widths_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="must hold a sentence of 9 tokens.*widths=\\[8\\]"):
        plan_batches([3, 9], batch_tokens=64, widths=[8])
    with pytest.raises(ValueError, match="batch_tokens=12, received widths=\\[8, 16\\]"):
        plan_batches([3, 9], batch_tokens=12, widths=[8, 16])


def test_widths_do_not_exceed_the_learned_positions():
    data = {"train_source": "a.tsv", "validation_source": "b.tsv", "max_length": 30}
    model = {"vocab_size": 9, "position": "learned", "max_length": 30}
    config = ExperimentConfig.from_dict({"model": model, "data": {**data, "static_shapes": 2}})
    assert static_widths(config, random_pairs())[-1] == 30
