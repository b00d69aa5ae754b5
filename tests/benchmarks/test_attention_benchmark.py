import itertools

import numpy as np
import pytest

from benchmarks import attention
from benchmarks.attention import lookup_model, lookup_task, train, training_step
from benchmarks.costs import Cost, measure_costs
from tests.helpers.layer_checks import as_array


@pytest.mark.slow
def test_additive_attention_takes_memory_for_each_pair_and_component():
    names = ["scaled_dot", "additive", "keras"]
    costs = dict(measure_costs(training_step, names, lengths=[200, 3], repeats=2))
    assert list(costs) == [3, 200]
    for cost in (cost for of_length in costs.values() for cost in of_length.values()):
        assert len(cost.seconds) == len(cost.other_cores) == 2 and min(cost.seconds) > 0
    hidden = 4 * 8 * 200 * 200 * 64  # bytes of one float32 [H, T, S, K]
    assert costs[200]["scaled_dot"].peak_memory < hidden < costs[200]["additive"].peak_memory


def test_a_head_learns_to_look_up():
    loss, largest = train("scaled_dot", key_dim=4, learning_rate=0.01, steps=60, seed=1)
    assert 0 <= loss < 0.8 * np.log(16)  # guessing has log 16
    assert 1 / 8 < largest < 1


def test_unscaled_weights_start_near_one_when_keys_are_large():
    inputs, _ = lookup_task(100, seed=1)
    largest = {}
    for name, key_dim in itertools.product(("scaled_dot", "dot"), (4, 256)):
        _, weights = lookup_model(name, key_dim)
        largest[name, key_dim] = as_array(weights(inputs)).max(axis=-1).mean()
    assert largest["dot", 256] > 0.9 > largest["dot", 4]
    assert largest["scaled_dot", 256] < 0.5


def test_only_attention_and_output_are_trained():
    model, weights = lookup_model("scaled_dot", key_dim=5)
    kernels = 2 * 256 * 5 + 16 * 16 + 16 * 256  # query and key; value; output
    assert sum(w.numpy().size for w in model.trainable_weights) == kernels + 256 * 16 + 16
    assert weights.output_shape == (None, 1, 1, 8)


def test_rows():
    papers, other = Cost([0.002], [0.0], 5), Cost([0.005, 0.002, 0.004], [0.1, 0.4, 0.2], 7_000_000)
    row = attention.cost_row("additive", 64, other, papers)
    assert row == "| additive | 64 | 4.0 | 75% | 2.0 | 7 | 0.4 |"
    results = {0.1: [(2.0, 0.5), (3.0, 0.7)], 0.2: [(1.0, 0.5), (3.5, 0.7)]}
    row = attention.training_row("dot", 16, results)
    assert row == "| dot | 16 | 2.25 | 1.00 to 3.50 | 0.2 | 0.60 |"
