import numpy as np
import pytest

from keras_transformer.layers import Encoder, EncoderLayer
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize, run_layer_checks

B, S, D = 2, 5, 6
SIZES = {"d_model": D, "d_ff": 11, "num_heads": 2, "key_dim": 4, "value_dim": 3}
LAYER_PARAMETERS = (
    D * 2 * (4 + 4 + 3) + 2 * 3 * D  # Attention without biases.
    + D * 11 + 11 + 11 * D + D  # Feed-forward network.
    + 2 * 2 * D  # Two layer normalizations.
)  # fmt: skip


def padding(*lengths):
    """Return the mask [B, 1, S] of sentences of these lengths."""
    return (np.arange(S) < np.array(lengths)[:, None])[:, None]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_layer_passes_the_layer_checks(norm):
    run_layer_checks(
        EncoderLayer,
        {**SIZES, "dropout": 0.3, "attention_dropout": 0.2, "ffn_dropout": 0.1, "norm": norm},
        {"inputs": normal(B, S, D), "attention_mask": padding(5, 3)},
        num_weights=4 + 4 + 4,
        num_parameters=LAYER_PARAMETERS,
    )


@pytest.mark.parametrize("norm", ["post", pytest.param("pre", marks=pytest.mark.slow)])
def test_stack_passes_the_layer_checks(norm):
    final_norm = {"post": 0, "pre": 1}[norm]
    run_layer_checks(
        Encoder,
        {**SIZES, "num_layers": 3, "dropout": 0.3, "norm": norm},
        {"inputs": normal(B, S, D), "attention_mask": padding(5, 3)},
        num_weights=3 * 12 + 2 * final_norm,
        num_parameters=3 * LAYER_PARAMETERS + 2 * D * final_norm,
    )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_padding_changes_no_output(norm):
    encoder = Encoder(num_layers=2, **SIZES, norm=norm)
    short = normal(B, 3, D)
    expected = as_array(encoder(short))
    padded = np.concatenate([short, 1e3 * normal(B, 2, D)], axis=1)
    received = as_array(encoder(padded, attention_mask=padding(3, 3)))[:, :3]
    np.testing.assert_allclose(received, expected, atol=1e-5)


def test_without_positions_the_order_of_the_inputs_does_not_matter():
    encoder, x, order = Encoder(num_layers=2, **SIZES), normal(B, S, D), [3, 0, 4, 1, 2]
    np.testing.assert_allclose(
        as_array(encoder(x[:, order])), as_array(encoder(x))[:, order], atol=1e-5
    )


def test_the_stack_is_its_layers_one_after_another():
    encoder, x, mask = Encoder(num_layers=3, **SIZES, norm="pre"), normal(B, S, D), padding(5, 3)
    encoder.build((None, None, D))
    randomize(encoder)
    outputs, weights = encoder(x, mask, return_attention_scores=True)
    for layer, layer_weights in zip(encoder.layers, weights, strict=True):
        assert tuple(layer_weights.shape) == (B, 2, S, S)
        assert np.all(as_array(layer_weights)[1, :, :, 3:] == 0)
        x = layer(x, attention_mask=mask)
    np.testing.assert_allclose(as_array(outputs), as_array(encoder.final_norm(x)), atol=1e-5)


def test_heads_share_the_width_unless_their_size_is_given():
    layer = EncoderLayer(d_model=6, d_ff=11, num_heads=3)
    assert (layer.key_dim, layer.value_dim) == (2, 2)
    layer = EncoderLayer(d_model=6, d_ff=11, num_heads=4, key_dim=5)
    assert (layer.key_dim, layer.value_dim) == (5, 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"key_dim": None, "num_heads": 4},
            "d_model must be divisible by num_heads unless key_dim is given, "
            "received d_model=6 and num_heads=4",
        ),
        ({"num_heads": 0}, "num_heads must be at least 1, received 0"),
        ({"norm": "none"}, "norm must be 'post' or 'pre', received 'none'"),
        ({"num_layers": 0}, "num_layers must be at least 1, received 0"),
        ({"num_layers": -1}, "num_layers must be at least 1, received -1"),
    ],
)
def test_wrong_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Encoder(**{"num_layers": 2, **SIZES, **arguments})
