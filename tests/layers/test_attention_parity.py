"""Our attention beside `keras.layers.MultiHeadAttention` with the same weights."""

import functools

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_transformer.layers import MultiHeadAttention
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import arrays_of, assert_close, randomize

B, T, S, D = 2, 5, 7, 6


def both(query_width, value_width, key_width, **arguments):
    shapes = [(None, None, width) for width in (query_width, value_width, key_width)]
    theirs = keras.layers.MultiHeadAttention(3, 4, **arguments)
    theirs.build(*shapes)
    randomize(theirs)
    ours = MultiHeadAttention(3, 4, **arguments)
    ours.build(*shapes)
    # Keras keeps the heads in an axis of their own, in the same order.
    ours.set_weights(
        [
            array.reshape(weight.shape)
            for array, weight in zip(theirs.get_weights(), ours.weights, strict=True)
        ]
    )
    return ours, theirs


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("value_dim", [None, 5])
@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention_equals_keras(use_bias, value_dim, masked):
    ours, theirs = both(D, 4, 3, value_dim=value_dim, use_bias=use_bias)
    mask = np.random.random((B, T, S)) < 0.6
    mask[:, :, 2] = True  # Keras has no rule for a query without keys.
    arguments = {
        "query": normal(B, T, D),
        "value": normal(B, S, 4),
        "key": normal(B, S, 3),
        "attention_mask": mask if masked else None,
        "return_attention_scores": True,
    }
    assert_close(arrays_of(ours(**arguments)), arrays_of(theirs(**arguments)))


INPUTS = ("query", "value", "key")
same_layers = functools.cache(both)


@settings(max_examples=60 if keras.backend.backend() == "tensorflow" else 15, deadline=None)
@given(
    implicit=st.sets(st.sampled_from(INPUTS)),
    explicit=st.sampled_from([None, 1, T]),
    causal=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_masks_of_all_kinds_combine_as_in_keras(implicit, explicit, causal, seed):
    random, mask = np.random.default_rng(seed), np.ones((B, T, T), "bool")
    vectors = {name: random.normal(size=(B, T, D)).astype("float32") for name in INPUTS}
    for name in implicit:
        is_token = random.random((B, T)) < 0.7
        vectors[name][~is_token] = 0
        mask &= is_token[:, :, None] if name == "query" else is_token[:, None]
    arguments = {"use_causal_mask": causal, "return_attention_scores": True}
    if explicit:
        arguments["attention_mask"] = random.random((B, explicit, T)) < 0.7
        mask &= arguments["attention_mask"]
    if causal:
        mask &= np.tri(T, dtype="bool")

    def call(layer):
        inputs = vectors | {name: keras.layers.Masking()(vectors[name]) for name in implicit}
        return arrays_of(layer(**inputs, **arguments))

    has_key, (ours, theirs) = mask.any(axis=-1), map(call, same_layers(D, D, D))
    assert_close([ours[0][has_key]], [theirs[0][has_key]])
    weights = [np.moveaxis(found, 1, 2) for found in (ours[1], theirs[1])]
    assert_close([weights[0][has_key]], [weights[1][has_key]])
    # Keras gives a query without keys the mean of all values.
    assert np.all(ours[0][~has_key] == 0) and np.all(weights[0][~has_key] == 0)
