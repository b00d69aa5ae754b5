"""A layer of each stack beside the paper's equations, written out in NumPy."""

import numpy as np
import pytest

from keras_transformer.layers import DecoderLayer, EncoderLayer
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize

B, T, S, D, H = 2, 5, 7, 6, 2
SIZES = {"d_model": D, "d_ff": 11, "num_heads": H, "key_dim": 4, "value_dim": 3}
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def attention(weights, query, memory, mask):
    """Section 3.2.2, one head after another; the output matrix is cut into a block for each."""
    w_query, w_key, w_value, w_output = weights
    result = 0
    for q, k, v, o in zip(
        np.split(w_query, H, axis=1),
        np.split(w_key, H, axis=1),
        np.split(w_value, H, axis=1),
        np.split(w_output, H),
        strict=True,
    ):
        scores = (query @ q) @ np.swapaxes(memory @ k, 1, 2) / np.sqrt(k.shape[1])
        exponentials = np.where(mask, np.exp(scores), 0)
        result += exponentials / exponentials.sum(axis=-1, keepdims=True) @ (memory @ v) @ o
    return result


def feed_forward(weights, x):
    w1, b1, w2, b2 = weights
    return np.maximum(0, x @ w1 + b1) @ w2 + b2


def layer_norm(weights, x):
    scale, shift = weights
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + 1e-6
    ) * scale + shift


def residual(norm, weights, x, sub_layer):
    """Section 3.1, or with the normalization before the sub-layer."""
    if norm == "post":
        return layer_norm(weights, x + sub_layer(x))
    return x + sub_layer(layer_norm(weights, x))


def weights_of(*layers):
    return [layer.get_weights() for layer in layers]


@NORMS
def test_encoder_layer(norm):
    layer, x = EncoderLayer(**SIZES, norm=norm), normal(B, S, D)
    layer.build((None, None, D))
    randomize(layer)
    mask = np.arange(S) < np.array([[[7]], [[4]]])
    a, a_norm, f, f_norm = weights_of(
        layer.self_attention,
        layer.self_attention_residual,
        layer.feed_forward,
        layer.feed_forward_residual,
    )
    expected = residual(norm, a_norm, x, lambda x: attention(a, x, x, mask))
    expected = residual(norm, f_norm, expected, lambda x: feed_forward(f, x))
    np.testing.assert_allclose(as_array(layer(x, attention_mask=mask)), expected, atol=1e-5)


@NORMS
def test_decoder_layer(norm):
    layer, x, memory = DecoderLayer(**SIZES, norm=norm), normal(B, T, D), normal(B, S, D)
    layer.build((None, None, D), (None, None, D))
    randomize(layer)
    causal, mask = np.tri(T) > 0, np.arange(S) < np.array([[[7]], [[4]]])
    a, a_norm, c, c_norm, f, f_norm = weights_of(
        layer.self_attention,
        layer.self_attention_residual,
        layer.cross_attention,
        layer.cross_attention_residual,
        layer.feed_forward,
        layer.feed_forward_residual,
    )
    expected = residual(norm, a_norm, x, lambda x: attention(a, x, x, causal))
    expected = residual(norm, c_norm, expected, lambda x: attention(c, x, memory, mask))
    expected = residual(norm, f_norm, expected, lambda x: feed_forward(f, x))
    np.testing.assert_allclose(as_array(layer(x, memory, memory_mask=mask)), expected, atol=1e-5)
