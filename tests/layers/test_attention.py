import math

import keras
import numpy as np
import pytest

from keras_transformer.layers import MultiHeadAttention
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import arrays_of, as_array, randomize, run_layer_checks

B, T, S, D, E, F = 2, 5, 7, 6, 4, 3  # Batch, queries, keys, widths of query, value and key.


def build(query_width=D, value_width=D, key_width=None, **arguments):
    """Return a layer whose weights, biases included, are not those of a new one."""
    layer = MultiHeadAttention(**{"num_heads": 3, "key_dim": 4, **arguments})
    layer.build((None, None, query_width), (None, None, value_width), (None, None, key_width or D))
    randomize(layer)
    return layer


@pytest.mark.parametrize("use_bias", [True, False])
def test_passes_the_layer_checks(use_bias):
    arguments = {
        "num_heads": 3,
        "key_dim": 4,
        "value_dim": 5,
        "dropout": 0.3,
        "use_bias": use_bias,
    }
    inputs = {
        "query": normal(B, T, D),
        "value": normal(B, S, E),
        "key": normal(B, S, F),
        "attention_mask": np.random.random((B, T, S)) < 0.7,
    }
    kernels = D * 12 + F * 12 + E * 15 + 15 * D
    biases = 12 + 12 + 15 + D
    run_layer_checks(
        MultiHeadAttention,
        arguments,
        inputs,
        num_weights=8 if use_bias else 4,
        num_parameters=kernels + (biases if use_bias else 0),
        return_attention_scores=True,
    )


def test_causal_self_attention_in_a_functional_model_of_any_length():
    layer, x = build(), normal(B, T, D)
    symbol = keras.Input((None, D))
    model = keras.Model(symbol, layer(symbol, symbol, use_causal_mask=True))
    expected = as_array(layer(x, x, use_causal_mask=True))
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-5)


def test_one_head_by_hand():
    layer = MultiHeadAttention(num_heads=1, key_dim=2, use_bias=False)
    layer.build((1, 1, 2))
    layer.set_weights([np.eye(2)] * 4)
    # The scores q k / sqrt(2) are log 3 and 0, their exponentials 3 and 1, the weights 3/4 and 1/4.
    query = np.array([[[1.0, 0.0]]])
    key = np.array([[[math.log(3) * math.sqrt(2), 5.0], [0.0, -5.0]]])
    value = np.array([[[8.0, 0.0], [0.0, 4.0]]])
    output, weights = arrays_of(layer(query, value, key, return_attention_scores=True))
    np.testing.assert_allclose(weights, [[[[0.75, 0.25]]]], rtol=1e-6)
    np.testing.assert_allclose(output, [[[6.0, 1.0]]], rtol=1e-6)


def test_weights_add_up_to_one_and_are_zero_on_masked_keys():
    mask = np.random.random((B, T, S)) < 0.5
    mask[:, :, 3] = True  # No query is without a key.
    layer = build()
    _, weights = arrays_of(
        layer(normal(B, T, D), normal(B, S, D), attention_mask=mask, return_attention_scores=True)
    )
    assert weights.shape == (B, 3, T, S)
    np.testing.assert_allclose(weights.sum(axis=-1), np.ones((B, 3, T)), rtol=1e-6)
    assert np.all(weights[np.broadcast_to(~mask[:, None], weights.shape)] == 0)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("use_bias", [False, True])
def test_a_query_with_nothing_to_attend_to_gives_zero(dtype, training, use_bias):
    layer = build(dropout=0.5, use_bias=use_bias, dtype=dtype)
    mask = np.ones((B, T, S), "bool")
    mask[1, 3] = False
    output, weights = arrays_of(
        layer(
            normal(B, T, D),
            normal(B, S, D),
            attention_mask=mask,
            return_attention_scores=True,
            training=training,
        )
    )
    assert np.all(output[1, 3] == 0)
    assert np.all(weights[1, :, 3] == 0)
    others = np.ones((B, T), "bool")
    others[1, 3] = False
    assert np.all(output[others] != 0)


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_a_causal_query_with_only_padding_before_it_gives_zero(dtype):
    layer, x = build(dtype=dtype), normal(B, T, D)
    not_padding = np.ones((B, 1, T), "bool")
    not_padding[1, 0, :2] = False  # The second sentence is padded on the left.
    output = as_array(layer(x, x, attention_mask=not_padding, use_causal_mask=True))
    assert np.all(output[1, :2] == 0)
    assert np.all(output[1, 2:] != 0)
    assert np.all(output[0] != 0)


def test_causal_queries_before_the_first_key_give_zero():
    # Seven queries are the last seven of five positions: two of them come before all keys.
    output = as_array(build()(normal(B, 7, D), normal(B, 5, D), use_causal_mask=True))
    assert np.all(output[:, :2] == 0)
    assert np.all(output[:, 2:] != 0)


def test_a_mask_without_a_batch_axis_is_refused():
    x = normal(B, T, D)
    with pytest.raises(ValueError, match=r"\[B, T, S\] or \[B, 1, S\], received shape \(5, 5\)"):
        build()(x, x, attention_mask=np.ones((T, T), "bool"))


def test_a_sentence_alone_gives_what_it_gives_beside_others():
    layer = build(value_width=E, key_width=F, value_dim=5)
    inputs = [normal(B, T, D), normal(B, S, E), normal(B, S, F)]
    mask = np.random.random((B, 1, S)) < 0.7
    outputs, weights = layer(*inputs, mask, return_attention_scores=True)
    for row in range(B):
        alone = (x[row : row + 1] for x in (*inputs, mask))
        own_outputs, own_weights = layer(*alone, return_attention_scores=True)
        np.testing.assert_allclose(as_array(own_outputs)[0], as_array(outputs)[row], atol=1e-5)
        np.testing.assert_allclose(as_array(own_weights)[0], as_array(weights)[row], atol=1e-6)


def test_the_order_of_heads_does_not_matter():
    layer, order = build(value_dim=5), [2, 0, 1]
    query, value = normal(B, T, D), normal(B, S, D)
    output, weights = arrays_of(layer(query, value, return_attention_scores=True))

    def columns(array, size):
        return np.concatenate([array[..., h * size : (h + 1) * size] for h in order], axis=-1)

    *heads, output_kernel, output_bias = layer.get_weights()
    sizes = [4, 4, 4, 4, 5, 5]  # Kernel and bias of query, key and value.
    layer.set_weights(
        [columns(array, size) for array, size in zip(heads, sizes, strict=True)]
        + [columns(output_kernel.T, 5).T, output_bias]
    )
    permuted_output, permuted_weights = arrays_of(layer(query, value, return_attention_scores=True))
    np.testing.assert_allclose(permuted_output, output, atol=1e-5)
    np.testing.assert_allclose(permuted_weights, weights[:, order], atol=1e-6)


@pytest.mark.parametrize("argument", ["num_heads", "key_dim", "value_dim"])
def test_sizes_below_one_are_refused(argument):
    with pytest.raises(ValueError, match=f"{argument} must be at least 1, received 0"):
        MultiHeadAttention(**{"num_heads": 2, "key_dim": 3, argument: 0})
