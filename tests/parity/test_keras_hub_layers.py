"""KerasHub's layers and ours with the same weights: the same outputs."""

import numpy as np
import pytest

from keras_transformer.layers import DecoderLayer, EncoderLayer, LearnedPositionEncoding

keras_hub = pytest.importorskip("keras_hub", reason="KerasHub is not installed")

pytestmark = pytest.mark.parity

B, S, T, D, D_FF, H = 3, 7, 5, 12, 20, 3
OPTIONS = {"activation": "gelu", "use_bias": True, "layer_norm_epsilon": 1e-5}


def random(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def weights_of(layer):
    """Return random weights of one of KerasHub's layers, by the ends of their paths."""
    generator = np.random.default_rng(1)
    weights = {}
    for weight in layer.weights:
        weight.assign(generator.normal(scale=0.3, size=weight.shape))
        weights["/".join(weight.path.split("/")[1:])] = weight.numpy()
    return weights


def copy_attention(ours, weights, prefix):
    """Reshape the kernels [D, H, K] and [H, K, D] of Keras's attention to those of ours."""
    for name in ("query", "key", "value"):
        kernel = weights.pop(f"{prefix}/{name}/kernel")
        getattr(ours, f"{name}_kernel").assign(kernel.reshape(D, D))
        getattr(ours, f"{name}_bias").assign(weights.pop(f"{prefix}/{name}/bias").reshape(D))
    ours.output_kernel.assign(weights.pop(f"{prefix}/attention_output/kernel").reshape(D, D))
    ours.output_bias.assign(weights.pop(f"{prefix}/attention_output/bias"))


def copy_norm(ours, weights, name):
    ours.layer_norm.gamma.assign(weights.pop(f"{name}/gamma"))
    ours.layer_norm.beta.assign(weights.pop(f"{name}/beta"))


def copy_feed_forward(ours, weights):
    for part, theirs in (("inner", "intermediate_dense"), ("outer", "output_dense")):
        for kind in ("kernel", "bias"):
            value = weights.pop(f"feedforward_{theirs}/{kind}")
            getattr(ours.feed_forward, f"{part}_{kind}").assign(value)
    copy_norm(ours.feed_forward_residual, weights, "feedforward_layer_norm")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_encoder_layers_agree(norm):
    theirs = keras_hub.layers.TransformerEncoder(
        D_FF, H, activation="gelu", normalize_first=norm == "pre"
    )
    theirs.build((None, None, D))
    ours = EncoderLayer(D, D_FF, H, norm=norm, **OPTIONS)
    ours.build((None, None, D))
    weights = weights_of(theirs)
    copy_attention(ours.self_attention, weights, "self_attention_layer")
    copy_norm(ours.self_attention_residual, weights, "self_attention_layer_norm")
    copy_feed_forward(ours, weights)
    assert not weights

    x = random(B, S, D)
    mask = np.arange(S) < np.array([[S], [4], [1]])
    expected = theirs(x, padding_mask=mask)
    received = ours(x, mask[:, None])
    np.testing.assert_allclose(received[mask], expected[mask], atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_decoder_layers_agree(norm):
    theirs = keras_hub.layers.TransformerDecoder(
        D_FF, H, activation="gelu", normalize_first=norm == "pre"
    )
    theirs.build((None, None, D), (None, None, D))
    ours = DecoderLayer(D, D_FF, H, norm=norm, **OPTIONS)
    ours.build((None, None, D), (None, None, D))
    weights = weights_of(theirs)
    for name in ("self_attention", "cross_attention"):
        copy_attention(getattr(ours, name), weights, name)
        copy_norm(getattr(ours, f"{name}_residual"), weights, f"{name}_layer_norm")
    copy_feed_forward(ours, weights)
    assert not weights

    x, memory = random(B, T, D), random(B, S, D)
    mask = np.arange(S) < np.array([[S], [4], [1]])
    expected = theirs(x, memory, encoder_padding_mask=mask)
    received = ours(x, memory, memory_mask=mask)
    np.testing.assert_allclose(received, expected, atol=1e-5)


def test_learned_positions_agree():
    theirs = keras_hub.layers.PositionEmbedding(S)
    ours = LearnedPositionEncoding(S)
    for layer in (theirs, ours):
        layer.build((None, None, D))
    ours.embeddings.assign(theirs.position_embeddings)
    x = random(B, T, D)
    np.testing.assert_allclose(ours(x), x + theirs(x), atol=1e-6)
