"""Options of the layers beyond the paper, and what holds for all of them."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    LearnedPositionEncoding,
    MultiHeadAttention,
    SinusoidalPositionEncoding,
    TokenEmbedding,
    causal_mask,
)
from keras_transformer.layers.residual import LayerNorm
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, run_layer_checks

B, T, S, D, D_FF, H = 2, 5, 7, 12, 20, 3
OPTIONS = {
    "activation": "gelu",
    "use_bias": True,
    "layer_norm_epsilon": 1e-3,
    "kernel_initializer": "he_normal",
    "seed": 3,
    "dropout": 0.2,
}


def test_a_feed_forward_network_has_the_activation_and_bias_that_it_is_given():
    layer = FeedForward(D, D_FF, activation="tanh", use_bias=False)
    x = normal(B, T, D)
    inner, outer = (np.random.normal(size=s) for s in ((D, D_FF), (D_FF, D)))
    layer.build(x.shape)
    layer.set_weights([inner, outer])
    np.testing.assert_allclose(as_array(layer(x)), np.tanh(x @ inner) @ outer, atol=1e-5)


def test_the_epsilon_of_a_normalization_is_added_to_the_variance():
    x = np.array([[1.0, 3.0]], "float32")  # Of mean 2 and variance 1.
    np.testing.assert_allclose(as_array(LayerNorm(epsilon=3.0)(x)), [[-0.5, 0.5]], atol=1e-6)


@pytest.mark.parametrize("layer_class", [EncoderLayer, DecoderLayer])
def test_a_layer_with_options_passes_the_layer_checks(layer_class):
    inputs = {"inputs": normal(B, T, D)}
    attentions = 1
    if layer_class is DecoderLayer:
        inputs["memory"] = normal(B, S, D)
        attentions = 2
    run_layer_checks(
        layer_class,
        {"d_model": D, "d_ff": D_FF, "num_heads": H, **OPTIONS},
        inputs,
        num_weights=attentions * 10 + 6,
        num_parameters=attentions * (4 * D * D + 6 * D) + 2 * D * D_FF + D_FF + 3 * D,
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: EncoderLayer(D, D_FF, H, seed=seed),
        lambda seed: Encoder(2, D, D_FF, H, seed=seed),
        lambda seed: FeedForward(D, D_FF, seed=seed),
        lambda seed: MultiHeadAttention(H, 4, seed=seed, compatibility="additive"),
    ],
    ids=["encoder layer", "encoder", "feed forward", "attention"],
)
def test_the_same_seed_gives_the_same_kernels_and_no_two_equal_ones(make):
    def kernels(seed):
        layer = make(seed)
        layer.build((None, None, D))
        return [as_array(w) for w in layer.weights if len(w.shape) > 1]

    first, second, other = kernels(5), kernels(5), kernels(6)
    for one, same, different in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, different)
    for i, one in enumerate(first):
        assert not any(np.array_equal(one, another) for another in first[:i])


def test_weights_that_share_an_initializer_start_different():
    layer = MultiHeadAttention(H, 4, kernel_initializer=keras.initializers.RandomNormal())
    layer.build((None, None, D))
    assert not np.array_equal(as_array(layer.query_kernel), as_array(layer.key_kernel))


@pytest.mark.parametrize("layer_class", [EncoderLayer, Encoder, MultiHeadAttention])
def test_a_causal_layer_sees_nothing_later(layer_class):
    arguments = {EncoderLayer: (D, D_FF, H), Encoder: (2, D, D_FF, H), MultiHeadAttention: (H, 4)}
    layer = layer_class(*arguments[layer_class])
    inputs = keras.Input((None, D))
    given = (inputs, inputs) if layer_class is MultiHeadAttention else (inputs,)
    model = keras.Model(inputs, layer(*given, use_causal_mask=True))
    x = normal(B, T, D)
    changed = x.copy()
    changed[:, 3] += 1
    one, other = as_array(model(x)), as_array(model(changed))
    np.testing.assert_array_equal(one[:, :3], other[:, :3])
    assert np.all(np.any(one[:, 3:] != other[:, 3:], axis=-1))


def test_causal_mask_says_what_to_do_where_the_length_is_unknown():
    with pytest.raises(ValueError, match="received None.* use_causal_mask=True instead"):
        causal_mask(ops.shape(keras.Input((None, D)))[1])


# Decoder-only stacks


def test_a_decoder_without_memory_is_a_causal_encoder():
    decoder, encoder = Decoder(2, D, D_FF, H, norm="pre"), Encoder(2, D, D_FF, H, norm="pre")
    x = normal(B, T, D)
    decoder(x), encoder(x)
    assert decoder.count_params() == encoder.count_params()
    encoder.set_weights([w + normal(*w.shape) for w in decoder.get_weights()])
    decoder.set_weights(encoder.get_weights())
    expected, weights = encoder(x, use_causal_mask=True, return_attention_scores=True)
    received, layers = decoder(x, return_attention_scores=True)
    np.testing.assert_allclose(as_array(received), as_array(expected), atol=1e-5)
    for (own,), other in zip(layers, weights, strict=True):
        np.testing.assert_allclose(as_array(own), as_array(other), atol=1e-6)


def test_a_decoder_only_layer_passes_the_layer_checks():
    run_layer_checks(
        DecoderLayer,
        {"d_model": D, "d_ff": D_FF, "num_heads": H, "dropout": 0.2},
        {"inputs": normal(B, T, D), "attention_mask": np.random.random((B, 1, T)) < 0.7},
        num_weights=4 + 4 + 4,
        num_parameters=4 * D * D + 2 * D * D_FF + D_FF + D + 4 * D,
    )


def test_padding_on_the_left_changes_no_output_of_a_decoder_only_layer():
    layer, x = DecoderLayer(D, D_FF, H), normal(B, T, D)
    expected = as_array(layer(x))
    padded = np.concatenate([100 * normal(B, 2, D), x], axis=1)
    mask = np.broadcast_to(np.arange(T + 2) >= 2, (B, 1, T + 2))
    received = as_array(layer(padded, attention_mask=mask))
    np.testing.assert_allclose(received[:, 2:], expected, atol=1e-5)


@pytest.mark.parametrize("make", [lambda: DecoderLayer(D, D_FF, H), lambda: Decoder(2, D, D_FF, H)])
def test_a_memory_must_be_given_always_or_never(make):
    x, memory = normal(B, T, D), normal(B, S, D)
    layer = make()
    layer(x)
    with pytest.raises(ValueError, match="was built without a memory, received one. Pass"):
        layer(x, memory)
    layer = make()
    layer(x, memory)
    with pytest.raises(ValueError, match="was built with a memory, received none. Pass"):
        layer(x)


# Masks


def model_of_ids(layer):
    """Return a functional model of ids, whose embeddings have an implicit mask."""
    ids = keras.Input((None,), dtype="int32")
    embedding = TokenEmbedding(30, D, mask_zero=True)
    return keras.Model(ids, layer(embedding(ids)))


@pytest.mark.parametrize(
    "layer",
    [
        lambda: EncoderLayer(D, D_FF, H),
        lambda: Encoder(2, D, D_FF, H),
        lambda: DecoderLayer(D, D_FF, H),
        lambda: Decoder(2, D, D_FF, H),
    ],
    ids=["encoder layer", "encoder", "decoder layer", "decoder"],
)
def test_an_implicit_mask_hides_padding(layer):
    model = model_of_ids(layer())
    ids = np.array([[0, 0, 5, 6, 7], [0, 8, 9, 10, 11]])
    unpadded = as_array(model(ids[:1, 2:]))
    np.testing.assert_allclose(as_array(model(ids))[:1, 2:], unpadded, atol=1e-5)


def test_implicit_masks_of_attention_and_memory_hide_padding():
    source, target = (keras.Input((None,), dtype="int32") for _ in range(2))
    embedding = TokenEmbedding(30, D, mask_zero=True)
    memory, x = embedding(source), embedding(target)
    attention, layer = MultiHeadAttention(H, 4), DecoderLayer(D, D_FF, H)
    model = keras.Model([source, target], [attention(x, memory), layer(x, memory)])
    ids = np.array([[5, 6, 7, 8]])
    short = model([np.array([[9, 10, 11]]), ids])
    padded = model([np.array([[9, 10, 11, 0, 0]]), ids])
    for one, other in zip(short, padded, strict=True):
        np.testing.assert_allclose(as_array(one), as_array(other), atol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EncoderLayer(D, D_FF, H, norm="pre"),
        lambda: Encoder(2, D, D_FF, H),
        lambda: DecoderLayer(D, D_FF, H),
        lambda: Decoder(2, D, D_FF, H, norm="pre"),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_an_explicit_mask_is_combined_with_an_implicit_one(make, causal):
    layer, x = make(), normal(B, T, D)
    is_token = np.ones((B, T), "bool")
    is_token[1, :2] = False
    x[~is_token] = 0
    options, explicit = {}, np.random.random((B, T, T)) < 0.7
    if isinstance(layer, EncoderLayer | Encoder):
        options["use_causal_mask"] = causal
    expected = as_array(layer(x, attention_mask=explicit & is_token[:, None], **options))
    masked = keras.layers.Masking()(x)
    for received in (
        layer(masked, attention_mask=explicit, **options),
        layer(x, attention_mask=explicit, mask=is_token, **options),
    ):
        np.testing.assert_allclose(as_array(received)[is_token], expected[is_token], atol=1e-5)
    assert not np.allclose(as_array(layer(x, attention_mask=explicit, **options)), expected)


@pytest.mark.parametrize("layer", [DecoderLayer(D, D_FF, H), Decoder(2, D, D_FF, H)])
def test_a_mask_of_the_memory_is_combined_with_its_implicit_one(layer):
    x, memory = normal(B, T, D), normal(B, S, D)
    memory[1, 4:] = 0
    is_token = np.any(memory != 0, axis=-1)
    explicit = np.random.random((B, 1, S)) < 0.7
    explicit[:, :, 0] = True
    expected = as_array(layer(x, memory, memory_mask=explicit & is_token[:, None]))
    received = layer(x, keras.layers.Masking()(memory), memory_mask=explicit)
    np.testing.assert_allclose(as_array(received), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "advice"), [("float32", "`mask == 0`"), ("int32", "`mask != 0`")]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda x, mask: MultiHeadAttention(H, 4)(x, x, attention_mask=mask),
        lambda x, mask: EncoderLayer(D, D_FF, H)(x, mask),
        lambda x, mask: DecoderLayer(D, D_FF, H)(x, attention_mask=mask),
        lambda x, mask: DecoderLayer(D, D_FF, H)(x, x, memory_mask=mask),
    ],
    ids=["attention", "encoder layer", "decoder layer", "memory"],
)
def test_a_mask_that_is_not_boolean_is_refused(call, dtype, advice):
    with pytest.raises(ValueError, match=f"must be boolean.*received dtype {dtype}.*{advice}"):
        call(normal(B, T, D), np.zeros((B, 1, T), dtype))


def test_a_mask_may_be_a_list_and_a_padding_mask_needs_an_axis_of_queries():
    layer, x = EncoderLayer(D, D_FF, H), normal(1, 3, D)
    mask = [[[True, True, False]]]
    expected = as_array(layer(x, attention_mask=np.array(mask)))
    assert np.array_equal(as_array(layer(x, attention_mask=mask)), expected)
    with pytest.raises(ValueError, match=r"shape \(1, 3\). Give .* \[B, S\] as mask\[:, None\]"):
        layer(x, attention_mask=np.ones((1, 3), "bool"))


def test_embeddings_may_have_another_scale():
    ids = np.array([[4, 5]])
    paper, plain = TokenEmbedding(9, 16), TokenEmbedding(9, 16, scale=1.0)
    paper(ids), plain(ids)
    plain.set_weights(paper.get_weights())
    np.testing.assert_allclose(as_array(paper(ids)), 4 * as_array(plain(ids)), rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "shapes", "expected"),
    [
        (MultiHeadAttention(H, 4), ((B, T, D), (B, S, D)), (B, T, D)),
        (TokenEmbedding(30, D), ((B, T),), (B, T, D)),
        (EncoderLayer(D, D_FF, H), ((B, T, D),), (B, T, D)),
        (DecoderLayer(D, D_FF, H), ((B, T, D), (B, S, D)), (B, T, D)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_output_shapes_are_known_before_a_call(layer, shapes, expected):
    assert layer.compute_output_shape(*shapes) == expected


NARROW, FLAT, DEEP = (keras.Input(shape) for shape in ((None, 5), (D,), (3, None, D)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: EncoderLayer(D, D_FF, H),
        lambda: DecoderLayer(D, D_FF, H),
        lambda: Encoder(1, D, D_FF, H),
        lambda: Decoder(1, D, D_FF, H),
        lambda: SinusoidalPositionEncoding(),
        lambda: LearnedPositionEncoding(9),
        lambda: MultiHeadAttention(H, 4),
        lambda: FeedForward(D, D_FF),
    ],
)
def test_inputs_of_another_rank_or_width_are_refused(make):
    def call(layer, x):
        return layer(x, x) if isinstance(layer, MultiHeadAttention) else layer(x)

    if not isinstance(make(), FeedForward):  # It takes any number of axes.
        for inputs in (FLAT, DEEP, normal(B, D), normal(1, B, T, D)):
            with pytest.raises(ValueError, match="ndim=3, found ndim|must be .B, length, width"):
                call(make(), inputs)
    layer = make()
    call(layer, normal(B, T, D))
    for inputs in (NARROW, normal(B, T, 2 * D)):
        with pytest.raises(ValueError, match=f"axis .* must be {D}|axis -1 .* to have value {D}"):
            call(layer, inputs)


@pytest.mark.parametrize("is_built", [False, True])
@pytest.mark.parametrize("shape", [(B, D), (1, B, S, D)])
def test_values_keys_and_memories_of_another_rank_are_refused(shape, is_built):
    x, other = normal(B, T, D), normal(*shape)
    calls = [
        (MultiHeadAttention(H, 4), "value", {"value": other}),
        (MultiHeadAttention(H, 4), "key", {"value": x, "key": other}),
        (DecoderLayer(D, D_FF, H), "value", {"memory": other}),
        (Decoder(1, D, D_FF, H), "value", {"memory": other}),
    ]
    for layer, name, inputs in calls:
        if is_built:
            layer(x, x)
        received = re.escape(str(shape))
        with pytest.raises(
            ValueError, match=rf"{name} must be \[B, length, width\], received shape {received}"
        ):
            layer(x, **inputs)


@pytest.mark.parametrize("width", [5, 2 * D])
def test_values_and_memories_of_another_width_are_refused(width):
    attention, decoder = MultiHeadAttention(H, 4), DecoderLayer(D, D_FF, H)
    x = normal(B, T, D)
    attention(x, x), decoder(x, x)
    for layer in (attention, decoder):
        with pytest.raises(ValueError, match=f"last axis .* must be {D}, .* shape .*, {width}"):
            layer(x, normal(B, S, width))


@pytest.mark.parametrize("layer_class", [EncoderLayer, DecoderLayer, Encoder, Decoder])
def test_a_missing_size_is_reported_by_the_class(layer_class):
    message = f"^{layer_class.__name__}: missing a required argument: 'd_ff'"
    with pytest.raises(TypeError, match=message):
        layer_class(**{"num_layers": 2} if "Layer" not in layer_class.__name__ else {}, d_model=D)
