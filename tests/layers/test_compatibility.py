"""Attention with each compatibility function, beside its formula in plain NumPy."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.alternatives import COMPATIBILITIES, additive, concat
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import arrays_of, as_array, randomize, run_layer_checks

B, H, T, S, K = 2, 3, 5, 7, 4
D, E, F = 6, 8, 9  # Widths of query, value and key.

FORMULAS = {  # For a query and a key of a head.
    "scaled_dot": lambda q, k: q @ k / np.sqrt(K),
    "dot": lambda q, k: q @ k,
    "general": lambda q, k, w: q @ w @ k,
    "additive": lambda q, k, w, u, v: np.tanh(q @ w + k @ u) @ v[:, 0],
    "concat": lambda q, k, w, v: np.tanh(np.concatenate([q, k]) @ w) @ v[:, 0],
}
PARAMETERS = {"scaled_dot": 0, "dot": 0, "general": 16, "additive": 36, "concat": 36}
EACH = pytest.mark.parametrize("name", FORMULAS)
OTHERS = COMPATIBILITIES if keras.backend.backend() == "tensorflow" else ["additive"]
"""Those besides the paper's, which test_attention.py tests. JAX takes long: there, one of them."""


def weights_of(name):
    if name == "scaled_dot":
        return []
    shapes = COMPATIBILITIES[name].weight_shapes(K).values()
    return [normal(H, *shape) for shape in shapes]


def scores_of(name, query, key, weights):
    """Return the formula for each pair, [B, H, T, S], of heads [B, H, T, K] and [B, H, S, K]."""
    scores = np.empty((B, H, T, S))
    for b, h, t, s in itertools.product(range(B), range(H), range(T), range(S)):
        head = [weight[h] for weight in weights]
        scores[b, h, t, s] = FORMULAS[name](query[b, h, t], key[b, h, s], *head)
    return scores


def build(name, **arguments):
    layer = MultiHeadAttention(H, K, compatibility=name, **arguments)
    layer.build((None, None, D))
    randomize(layer)
    return layer


def test_every_function_has_a_formula():
    assert {"scaled_dot", *COMPATIBILITIES} == FORMULAS.keys()


@pytest.mark.parametrize("name", COMPATIBILITIES)
def test_scores_are_the_formula_for_each_pair(name):
    query, key, weights = normal(B, H, T, K), normal(B, H, S, K), weights_of(name)
    expected = scores_of(name, query, key, weights)
    scores = COMPATIBILITIES[name].score(*map(ops.convert_to_tensor, (query, key, *weights)))
    np.testing.assert_allclose(as_array(scores), expected, atol=1e-5)


def test_concat_is_additive_with_its_weights_above_each_other():
    query, key = ops.array(normal(B, H, T, K)), ops.array(normal(B, H, S, K))
    w, u, v = weights_of("additive")
    one = additive(query, key, *map(ops.array, (w, u, v)))
    other = concat(query, key, ops.array(np.concatenate([w, u], axis=1)), ops.array(v))
    np.testing.assert_allclose(as_array(one), as_array(other), atol=1e-6)


@EACH
def test_the_layer_attends_by_the_softmax_of_the_scores(name):
    layer, query, value = build(name, use_bias=False), normal(B, T, D), normal(B, S, D)
    q, k, v, o, *weights = layer.get_weights()
    heads = [
        np.stack(np.split(inputs @ kernel, H, axis=-1), axis=1)
        for inputs, kernel in ((query, q), (value, k), (value, v))
    ]
    scores = scores_of(name, *heads[:2], weights)
    mask = np.random.random((B, T, S)) < 0.6
    mask[:, :, 3] = True  # No query is without a key.
    exponentials = np.where(mask[:, None], np.exp(scores), 0)
    softmax = exponentials / exponentials.sum(axis=-1, keepdims=True)
    outputs = np.concatenate(list(np.moveaxis(softmax @ heads[2], 1, 0)), axis=-1) @ o
    received = arrays_of(layer(query, value, attention_mask=mask, return_attention_scores=True))
    np.testing.assert_allclose(received[1], softmax, atol=1e-5)
    np.testing.assert_allclose(received[0], outputs, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_passes_the_layer_checks(name):
    inputs = {
        "query": normal(B, T, D),
        "value": normal(B, S, E),
        "key": normal(B, S, F),
        "attention_mask": np.random.random((B, T, S)) < 0.7,
    }
    run_layer_checks(
        MultiHeadAttention,
        {"num_heads": H, "key_dim": K, "value_dim": 5, "dropout": 0.3, "compatibility": name},
        inputs,
        num_weights=8 + len(weights_of(name)),
        num_parameters=D * 12 + F * 12 + E * 15 + 15 * D + 12 + 12 + 15 + D + H * PARAMETERS[name],
    )


@EACH
def test_a_later_input_changes_no_earlier_output(name):
    layer, x = build(name), normal(B, T, D)
    changed = x.copy()
    changed[:, 3] += 1
    one, other = (as_array(layer(inputs, inputs, use_causal_mask=True)) for inputs in (x, changed))
    np.testing.assert_array_equal(one[:, :3], other[:, :3])
    assert np.all(np.any(one[:, 3:] != other[:, 3:], axis=-1))


@EACH
def test_padding_changes_no_output(name):
    layer, query, value = build(name), normal(B, T, D), normal(B, S, D)
    padded = np.concatenate([value, 100 * normal(B, 2, D)], axis=1)
    mask = np.broadcast_to(np.arange(S + 2) < S, (B, 1, S + 2))
    expected = as_array(layer(query, value))
    np.testing.assert_allclose(
        as_array(layer(query, padded, attention_mask=mask)), expected, atol=1e-5
    )


@EACH
def test_a_query_with_nothing_to_attend_to_gives_zero(name):
    mask = np.ones((B, T, S), "bool")
    mask[1, 3] = False
    for dtype in ("mixed_float16", *["float32"] * (name == "additive")):
        layer = build(name, dtype=dtype)
        output = as_array(layer(normal(B, T, D), normal(B, S, D), None, mask))
        empty = ~mask.any(axis=-1)
        assert np.all(output[empty] == 0) and np.all(output[~empty] != 0)


@pytest.mark.parametrize("name", ["general", "additive", "concat"])
def test_what_a_function_learns_starts_at_its_scale_whatever_the_number_of_heads(name):
    keras.utils.set_random_seed(1)
    layer = MultiHeadAttention(num_heads=5, key_dim=64, compatibility=name)
    layer.build((None, None, D))
    for weight in layer.compatibility_weights:
        _, inputs, outputs = weight.shape
        glorot = np.sqrt(2 / (inputs + outputs))
        np.testing.assert_allclose(np.std(as_array(weight)), glorot, rtol=0.1)


def test_an_unknown_function_is_refused():
    message = "one of 'scaled_dot', 'dot', 'general', 'additive', 'concat', received 'cosine'"
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(2, 3, compatibility="cosine")
