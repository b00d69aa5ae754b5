import numpy as np
import pytest

from keras_transformer.layers import Decoder, DecoderLayer
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize, run_layer_checks

B, T, S, D = 2, 5, 7, 6
SIZES = {"d_model": D, "d_ff": 11, "num_heads": 2, "key_dim": 4, "value_dim": 3}
ATTENTION = D * 2 * (4 + 4 + 3) + 2 * 3 * D
LAYER_PARAMETERS = 2 * ATTENTION + (D * 11 + 11 + 11 * D + D) + 3 * 2 * D
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])


def padding(*lengths):
    """Return the mask [B, 1, S] of sentences of these lengths."""
    return (np.arange(S) < np.array(lengths)[:, None])[:, None]


@pytest.mark.parametrize(("tokens", "memory"), [(0, S), (T, 0), (0, 0)])
def test_sequences_may_have_no_tokens(tokens, memory):
    inputs, encoded = (np.zeros((B, n, D), "float32") for n in (tokens, memory))
    assert DecoderLayer(**SIZES)(inputs, encoded).shape == (B, tokens, D)


def build(layer_class, **arguments):
    layer = layer_class(**{**SIZES, **arguments})
    layer.build((None, None, D), (None, None, D))
    randomize(layer)
    return layer


@pytest.mark.parametrize("norm", ["post", pytest.param("pre", marks=pytest.mark.slow)])
def test_layer_passes_the_layer_checks(norm):
    run_layer_checks(
        DecoderLayer,
        {**SIZES, "dropout": 0.3, "attention_dropout": 0.2, "ffn_dropout": 0.1, "norm": norm},
        {"inputs": normal(B, T, D), "memory": normal(B, S, D), "memory_mask": padding(7, 4)},
        num_weights=4 + 4 + 4 + 6,
        num_parameters=LAYER_PARAMETERS,
    )


@pytest.mark.parametrize("norm", ["post", pytest.param("pre", marks=pytest.mark.slow)])
def test_stack_passes_the_layer_checks(norm):
    final_norm = {"post": 0, "pre": 1}[norm]
    run_layer_checks(
        Decoder,
        {**SIZES, "num_layers": 2, "dropout": 0.3, "norm": norm},
        {"inputs": normal(B, T, D), "memory": normal(B, S, D), "memory_mask": padding(7, 4)},
        num_weights=2 * 18 + 2 * final_norm,
        num_parameters=2 * LAYER_PARAMETERS + 2 * D * final_norm,
    )


def test_the_memory_may_have_another_width():
    layer = DecoderLayer(**SIZES)
    assert tuple(layer(normal(B, T, D), normal(B, S, 9)).shape) == (B, T, D)


@NORMS
def test_a_later_input_changes_no_earlier_output(norm):
    decoder = build(Decoder, num_layers=2, norm=norm)
    x, memory = normal(B, T, D), normal(B, S, D)
    before = as_array(decoder(x, memory))
    for position in range(1, T):
        changed = x.copy()
        changed[:, position] *= -1
        after = as_array(decoder(changed, memory))
        assert np.array_equal(after[:, :position], before[:, :position])
        assert np.all(np.abs(after - before)[:, position:].max(axis=-1) > 1e-4)


@NORMS
def test_padding_of_the_memory_changes_no_output(norm):
    decoder, x, short = build(Decoder, num_layers=2, norm=norm), normal(B, T, D), normal(B, 4, D)
    expected = as_array(decoder(x, short))
    padded = np.concatenate([short, 1e3 * normal(B, S - 4, D)], axis=1)
    received = as_array(decoder(x, padded, memory_mask=padding(4, 4)))
    np.testing.assert_allclose(received, expected, atol=1e-5)


def test_each_position_may_have_a_mask_of_its_own():
    layer, x, memory = build(DecoderLayer), normal(B, T, D), normal(B, S, D)
    mask = np.random.random((B, T, S)) < 0.5
    mask[:, :, 0] = True
    received = as_array(layer(x, memory, memory_mask=mask))
    for t in range(T):
        expected = as_array(layer(x, memory, memory_mask=mask[:, t : t + 1]))
        np.testing.assert_allclose(received[:, t], expected[:, t], atol=1e-5)


def test_the_layers_attention_weights_are_those_of_its_output():
    layer, x, memory, mask = build(DecoderLayer), normal(B, T, D), normal(B, S, D), padding(7, 4)
    output, (self_weights, cross_weights) = layer(x, memory, mask, return_attention_scores=True)
    assert np.array_equal(as_array(output), as_array(layer(x, memory, mask)))
    assert tuple(self_weights.shape) == (B, 2, T, T)
    assert tuple(cross_weights.shape) == (B, 2, T, S)
    assert not np.any(np.triu(as_array(self_weights), k=1))
    assert not np.any(as_array(cross_weights)[1, :, :, 4:])


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="received d_model=6 and num_heads=4"):
        DecoderLayer(d_model=6, d_ff=11, num_heads=4)
    with pytest.raises(ValueError, match="num_layers must be at least 1, received -2"):
        Decoder(num_layers=-2, **SIZES)
