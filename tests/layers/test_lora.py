import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer
from keras_transformer.layers import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    TokenEmbedding,
)
from keras_transformer.losses import LabelSmoothedCrossEntropy
from tests.helpers.layer_checks import as_array, randomize, saved_and_loaded

D, RANK, ALPHA = 6, 2, 3
X = np.random.default_rng(3).normal(size=(2, 5, D)).astype("float32")
IDS = np.array([[1, 4, 10], [0, 3, 7]], "int32")

LAYERS = {
    "attention": (
        lambda: MultiHeadAttention(num_heads=2, key_dim=4, value_dim=5),
        lambda f: f(X, X),
    ),
    "feed_forward": (lambda: FeedForward(d_model=D, d_ff=11), lambda f: f(X)),
    "embedding": (lambda: TokenEmbedding(vocab_size=13, d_model=D), lambda f: f(IDS)),
    "logits": (
        lambda: TokenEmbedding(vocab_size=13, d_model=D, name="logits"),
        lambda f: f(X, reverse=True),
    ),
}
every_layer = pytest.mark.parametrize(("make", "call"), LAYERS.values(), ids=LAYERS)


def adapted(make, call):
    """Return a layer with random kernels, and with LoRA in which no matrix is zero."""
    layer = make()
    call(layer)
    randomize(layer)
    layer.enable_lora(RANK, ALPHA)
    randomize(layer.adapter)
    return layer


def kernels_of(layer):
    return {name: as_array(getattr(layer, name)) for name in layer.kernel_names}


@every_layer
def test_outputs_are_the_same_until_lora_is_trained(make, call):
    layer = make()
    expected = as_array(call(layer))
    layer.enable_lora(RANK)
    assert np.array_equal(as_array(call(layer)), expected)
    assert layer.has_lora


@every_layer
def test_a_kernel_is_the_base_plus_alpha_over_rank_a_b(make, call):
    layer = adapted(make, call)
    received = as_array(call(layer))
    plain = make()
    call(plain)
    plain.set_weights(layer.get_weights()[: len(plain.weights)])
    for name in layer.kernel_names:
        a, b = (as_array(getattr(layer.adapter, f"{name}_lora_{part}")) for part in "ab")
        assert a.shape[1] == b.shape[0] == RANK
        base = getattr(plain, name)
        base.assign(as_array(base) + 1.5 * a @ b)
    np.testing.assert_allclose(received, as_array(call(plain)), atol=1e-5)


@every_layer
def test_merging_changes_kernels_and_no_output(make, call):
    layer = adapted(make, call)
    bases, expected = kernels_of(layer), as_array(call(layer))
    layer.merge_lora()
    np.testing.assert_allclose(as_array(call(layer)), expected, atol=1e-5)
    assert all(np.any(bases[name] != kernel) for name, kernel in kernels_of(layer).items())
    fresh = make()
    call(fresh)
    assert [w.path.split("/")[-1] for w in layer.trainable_weights] == [
        w.path.split("/")[-1] for w in fresh.trainable_weights
    ]


@every_layer
def test_the_configuration_restores_the_rank(make, call):
    layer = adapted(make, call)
    copy = type(layer).from_config(layer.get_config())
    call(copy)
    assert copy.adapter.state == {"lora_rank": RANK, "lora_alpha": ALPHA}
    assert [w.shape for w in copy.trainable_weights] == [w.shape for w in layer.trainable_weights]
    copy.set_weights(layer.get_weights())
    assert np.array_equal(as_array(call(copy)), as_array(call(layer)))


def test_kernels_are_frozen_and_biases_are_not():
    layer = adapted(*LAYERS["feed_forward"])
    names = [weight.name for weight in layer.trainable_weights]
    assert names[:2] == ["inner_bias", "outer_bias"]
    assert [name.split("_")[0] for name in names[2:]] == ["inner", "inner", "outer", "outer"]
    assert layer.trainable_weights[2].path.endswith("inner_kernel_lora_a")


def test_training_moves_a_and_b_and_leaves_the_kernels_alone():
    layer = FeedForward(d_model=D, d_ff=11)
    model = keras.Sequential([keras.Input((5, D)), layer])
    layer.enable_lora(RANK)
    bases = kernels_of(layer)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(X, 2 * X, epochs=2, verbose=0)
    assert np.any(as_array(layer.adapter.inner_kernel_lora_b))
    assert all(np.array_equal(bases[name], kernel) for name, kernel in kernels_of(layer).items())


def test_what_was_traced_before_a_merge_does_not_add_lora_twice():
    inputs, encoder = keras.Input((5, D)), Encoder(num_layers=1, d_model=D, d_ff=11, num_heads=2)
    functional = keras.Model(inputs, encoder(inputs))
    model = Transformer.from_size("tiny", vocab_size=13, num_layers=1, dropout=0.0)
    ids = {"source": IDS, "target": IDS}
    for each, part, given, labels, loss in (
        (functional, encoder, X, 2 * X, "mse"),
        (model, model.encoder, ids, IDS, LabelSmoothedCrossEntropy()),
    ):
        part.enable_lora(RANK)
        each.compile(keras.optimizers.SGD(0.5), loss, jit_compile=False)
        before = each.predict(given, verbose=0)
        each.fit(given, labels, epochs=2, verbose=0)
        expected = each.predict(given, verbose=0)
        assert not np.allclose(expected, before, atol=1e-3)
        part.merge_lora()
        np.testing.assert_allclose(each.predict(given, verbose=0), expected, atol=1e-5)
        np.testing.assert_allclose(as_array(each(given)), expected, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_low_precision_keeps_a_and_b_in_float32(policy):
    exact = adapted(*LAYERS["feed_forward"])
    layer = FeedForward.from_config({**exact.get_config(), "dtype": policy})
    layer(X)
    layer.set_weights(exact.get_weights())
    assert {weight.dtype for weight in layer.adapter.weights} == {"float32"}
    outputs = layer(X)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    np.testing.assert_allclose(as_array(outputs), as_array(exact(X)), atol=0.1, rtol=0.05)


def test_a_functional_model_with_lora_in_one_layer_survives_a_file():
    inputs = keras.Input((None, D))
    encoder = Encoder(num_layers=2, d_model=D, d_ff=11, num_heads=2)
    model = keras.Model(inputs, encoder(inputs))
    encoder.layers[1].self_attention.enable_lora(RANK, ALPHA)
    randomize(model)
    copy = saved_and_loaded(model)
    assert np.array_equal(as_array(copy(X)), as_array(model(X)))
    assert list(copy.layers[1].get_config()["adaptation"]) == ["layer_1/self_attention"]
    assert len({weight.path for weight in model.weights}) == len(model.weights)


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda layer: layer.enable_lora(0), "rank must be at least 1, received 0"),
        (lambda layer: layer.enable_lora(2), "has no kernels yet"),
        (
            lambda layer: (layer(ops.ones((1, D))), layer.enable_lora(2), layer.enable_lora(3)),
            "already",
        ),
        (
            lambda layer: (layer(ops.ones((1, D))), layer.quantize("int8"), layer.enable_lora(3)),
            "already",
        ),
    ],
)
def test_lora_is_refused_where_it_makes_no_sense(prepare, message):
    with pytest.raises(ValueError, match=message):
        prepare(FeedForward(d_model=D, d_ff=11))


@pytest.mark.parametrize(
    "layer",
    [
        EncoderLayer(d_model=D, d_ff=11, num_heads=2),
        DecoderLayer(d_model=D, d_ff=11, num_heads=2),
        Encoder(num_layers=2, d_model=D, d_ff=11, num_heads=2),
        Decoder(num_layers=2, d_model=D, d_ff=11, num_heads=2),
    ],
    ids=lambda layer: layer.name,
)
def test_layers_of_layers_have_lora_too(layer):
    with pytest.raises(ValueError, match="has no kernels yet"):
        layer.enable_lora(RANK)
    expected = as_array(layer(X))  # Decoders have no memory here.
    kernels = sum(len(each.kernel_names) for each in layer.kernel_layers().values() if each.built)
    others = len(layer.weights) - kernels
    layer.enable_lora(RANK)
    assert np.array_equal(as_array(layer(X)), expected)
    assert len(layer.trainable_weights) == others + 2 * kernels
    for each in layer.kernel_layers().values():
        randomize(each.adapter)
    trained = as_array(layer(X))
    assert not np.allclose(trained, expected, atol=1e-3)
    inputs = keras.Input((None, D))
    copy = saved_and_loaded(keras.Model(inputs, layer(inputs)))
    np.testing.assert_array_equal(as_array(copy(X)), trained)
    layer.merge_lora()
    np.testing.assert_allclose(as_array(layer(X)), trained, atol=1e-5)
    assert len(layer.trainable_weights) == others + kernels
