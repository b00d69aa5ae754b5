import keras
import numpy as np
import pytest

from keras_transformer.layers import Decoder, DecoderLayer
from keras_transformer.layers.masks import mask_bias
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
@pytest.mark.parametrize("position", range(1, T))
def test_a_later_input_changes_no_earlier_output(norm, position):
    decoder = build(Decoder, num_layers=2, norm=norm)
    x, memory = normal(B, T, D), normal(B, S, D)
    before = as_array(decoder(x, memory))
    x[:, position] *= -1
    after = as_array(decoder(x, memory))
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


def steps(layer, x, memory, mask, beams):
    """Run a layer, position by position, on beams none of which continues another."""
    heads, cache, outputs = layer.project_memory(memory), layer.empty_cache(B), []
    for position in range(x.shape[1]):
        written = np.arange((position + 1) * beams)
        visible = np.tile(written % beams == np.arange(beams)[:, None], (B, 1, 1))
        output, cache = layer.step(
            x[:, position],
            heads,
            mask_bias(mask),
            cache,
            write=lambda cached, new: keras.ops.concatenate([cached, new], axis=2),
            projections=layer.join_projections(),
            self_bias=mask_bias(visible) if beams > 1 else None,
        )
        outputs.append(as_array(output))
    return np.stack(outputs, axis=1), cache


@NORMS
@pytest.mark.parametrize("beams", [1, 3])
def test_cached_steps_of_beams_equal_the_full_pass(norm, beams):
    layer, memory, mask = build(DecoderLayer, norm=norm), normal(B, S, D), padding(7, 4)
    x = normal(B * beams, T, D)
    repeated = [np.repeat(array, beams, axis=0) for array in (memory, mask)]
    expected = as_array(layer(x, *repeated))
    received, (keys, values) = steps(layer, x, memory, mask, beams)
    np.testing.assert_allclose(received, expected, atol=1e-5)
    assert tuple(keys.shape) == (B, 2, T * beams, 4)
    assert tuple(values.shape) == (B, 2, T * beams, 3)


@NORMS
def test_cached_steps_of_the_stack_equal_the_full_pass(norm):
    decoder = build(Decoder, num_layers=2, norm=norm)
    x, memory, mask = normal(B, T, D), normal(B, S, D), padding(7, 4)
    received, caches = steps(decoder, x, memory, mask, beams=1)
    np.testing.assert_allclose(received, as_array(decoder(x, memory, mask)), atol=1e-5)
    assert len(caches) == 2


def test_the_layers_attention_weights_are_those_of_its_output():
    layer, x, memory, mask = build(DecoderLayer), normal(B, T, D), normal(B, S, D), padding(7, 4)
    output, (self_weights, cross_weights) = layer(x, memory, mask, return_attention_scores=True)
    assert np.array_equal(as_array(output), as_array(layer(x, memory, mask)))
    assert tuple(self_weights.shape) == (B, 2, T, T)
    assert tuple(cross_weights.shape) == (B, 2, T, S)
    assert not np.any(np.triu(as_array(self_weights), k=1))
    assert not np.any(as_array(cross_weights)[1, :, :, 4:])


def test_beams_do_not_depend_on_each_other():
    layer, memory, mask = build(DecoderLayer), normal(B, S, D), padding(7, 4)
    x = normal(B * 3, T, D)
    before = steps(layer, x, memory, mask, beams=3)[0]
    x[2] *= -1  # The last beam of the first sentence.
    after = steps(layer, x, memory, mask, beams=3)[0]
    others = [0, 1, 3, 4, 5]
    np.testing.assert_allclose(after[others], before[others], atol=1e-6)
    assert np.abs(after[2] - before[2]).max() > 1e-3


def test_the_cache_has_the_compute_dtype():
    layer = build(DecoderLayer, dtype="mixed_bfloat16")
    keys, values = layer.empty_cache(3)
    assert tuple(keys.shape) == (3, 2, 0, 4)
    assert tuple(values.shape) == (3, 2, 0, 3)
    assert "bfloat16" in str(keys.dtype)


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="received d_model=6 and num_heads=4"):
        DecoderLayer(d_model=6, d_ff=11, num_heads=4)
    with pytest.raises(ValueError, match="num_layers must be at least 1, received -2"):
        Decoder(num_layers=-2, **SIZES)
