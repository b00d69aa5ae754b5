import json

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import Decoder, EncoderLayer, FeedForward, MultiHeadAttention
from tests.helpers.layer_checks import as_array, randomize, saved_and_loaded
from tests.layers.test_lora import IDS, LAYERS, D, X, every_layer


def built(make, call):
    layer = make()
    call(layer)
    randomize(layer)
    return layer


@every_layer
def test_int8_kernels_are_within_half_a_step_of_the_float_ones(make, call):
    layer = built(make, call)
    before = {name: as_array(getattr(layer, name)) for name in layer.kernel_names}
    layer.quantize("int8")
    for name, kernel in before.items():
        values = as_array(getattr(layer.adapter, f"{name}_int8"))
        assert (values.dtype, values.shape) == (np.int8, kernel.shape)
        assert getattr(layer, name) is None
        step = np.abs(kernel).max(axis=layer.scaled_axis, keepdims=True) / 127
        np.testing.assert_allclose(as_array(getattr(layer.adapter, f"{name}_scale")), step, 1e-3)
        assert np.all(np.abs(as_array(layer.kernel(name)) - kernel) <= 0.51 * step)


@every_layer
def test_int8_outputs_are_those_of_the_int8_kernels(make, call):
    layer = built(make, call)
    plain = make()
    call(plain)
    plain.set_weights(layer.get_weights())
    layer.quantize("int8")
    for name in plain.kernel_names:
        getattr(plain, name).assign(layer.kernel(name))
    np.testing.assert_allclose(as_array(call(layer)), as_array(call(plain)), atol=1e-5)
    assert layer.quantization_mode == "int8"


@every_layer
def test_the_configuration_restores_int8(make, call):
    layer = built(make, call)
    layer.quantize("int8")
    copy = type(layer).from_config(json.loads(json.dumps(layer.get_config())))
    call(copy)
    copy.set_weights(layer.get_weights())
    assert np.array_equal(as_array(call(copy)), as_array(call(layer)))
    assert [weight.dtype for weight in copy.weights] == [weight.dtype for weight in layer.weights]


def test_keras_quantizes_our_layers_in_a_functional_model():
    inputs = keras.Input((None, D))
    x = EncoderLayer(d_model=D, d_ff=11, num_heads=2)(inputs)
    x = MultiHeadAttention(num_heads=2, key_dim=4)(x, x)
    model = keras.Model(inputs, Decoder(1, D, 11, num_heads=2)(x))  # A decoder without memory.
    expected = as_array(model(X))
    with pytest.warns(UserWarning, match="LayerNorm does not have a `quantize` method"):
        model.quantize("int8")
    kernels = [weight for weight in model.weights if len(weight.shape) == 2]
    assert {weight.dtype for weight in kernels if weight.shape[0] > 1} == {"int8"}
    received = as_array(model(X))
    assert 0 < np.abs(received - expected).max() < 0.1
    assert np.array_equal(as_array(saved_and_loaded(model)(X)), received)


def test_bfloat16_outputs_have_that_dtype():
    exact = built(*LAYERS["feed_forward"])
    layer = FeedForward.from_config({**exact.get_config(), "dtype": "mixed_bfloat16"})
    layer(X)
    layer.set_weights(exact.get_weights())
    layer.quantize("int8")
    outputs = layer(X)
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    np.testing.assert_allclose(as_array(outputs), as_array(exact(X)), atol=0.1, rtol=0.05)


def test_an_embedding_of_integers_needs_no_whole_table():
    layer = built(*LAYERS["embedding"])
    layer.quantize("int8")
    rows = as_array(layer.kernel("embeddings"))[IDS]
    np.testing.assert_allclose(as_array(layer(IDS)), D**0.5 * rows, rtol=1e-5)


@pytest.mark.parametrize("mode", ["int4", "float8"])
def test_other_modes_are_refused(mode):
    layer = built(*LAYERS["feed_forward"])
    with pytest.raises(ValueError, match=f"can be quantized to 'int8', received '{mode}'"):
        layer.quantize(mode)


def test_a_weight_quantizer_is_refused():
    layer = built(*LAYERS["feed_forward"])
    config = keras.quantizers.Int8QuantizationConfig(keras.quantizers.AbsMaxQuantizer(axis=0))
    with pytest.raises(ValueError, match="one scale per output, received the weight quantizer"):
        layer.quantize(config=config)


def test_quantizing_twice_or_with_lora_is_refused():
    layer = built(*LAYERS["feed_forward"])
    layer.enable_lora(2)
    with pytest.raises(ValueError, match=r"has LoRA weights .* Call merge_lora\(\) first"):
        layer.quantize("int8")
    layer.merge_lora()
    layer.quantize("int8")
    with pytest.raises(ValueError, match="is int8 already"):
        layer.quantize("int8")


def test_gradients_pass_through_int8_kernels_to_the_inputs():
    layer = built(*LAYERS["feed_forward"])
    layer.quantize("int8")
    below = keras.layers.Dense(D, use_bias=False)
    model = keras.Sequential([keras.Input((5, D)), below, layer])
    before = as_array(below.kernel)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    model.fit(X, ops.zeros_like(X), epochs=1, verbose=0)
    assert np.any(as_array(below.kernel) != before)
