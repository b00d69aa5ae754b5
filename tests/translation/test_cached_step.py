import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.layers import Decoder, Encoder
from keras_transformer.layers.attention import attention, join_heads
from keras_transformer.layers.masks import mask_bias, padding_mask
from keras_transformer.translation.cached_step import (
    _attend,
    decoder_step,
    empty_cache,
    encode_sentence,
    few_rows_logits,
    has_plain_encoder,
    heads_matmul,
    layer_weights,
    multiply_rows,
    project_memory,
)
from tests.helpers.arrays import normal
from tests.helpers.layer_checks import as_array, randomize

B, H, T, S, D = 3, 2, 5, 7, 6
NORMS = pytest.mark.parametrize("norm", ["post", "pre"])
IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
QUERIES = [(1, 64), (1, 300), (5, 32), (6, 32), (2, 81)]
KERNELS = [(20, 30), (512, 1025), (514, 1025), (513, 600)]
if not IS_TENSORFLOW:  # All sizes have the same kernel.
    del QUERIES[1:], KERNELS[1:]
TYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])


@TYPES
@pytest.mark.parametrize("batch", [1, B])
@pytest.mark.parametrize("queries, size", QUERIES)
def test_a_product_is_that_of_each_sentence_and_head(batch, queries, size, dtype):
    a, keys, weights = (
        normal(batch, H, *shape) for shape in ((queries, size), (S, size), (queries, S))
    )
    a, keys, weights = (ops.cast(x, dtype) for x in (a, keys, weights))
    scores, values = heads_matmul(a, keys, transpose_b=True), heads_matmul(weights, keys)
    assert scores.dtype == a.dtype and values.dtype == a.dtype
    a, keys, weights = (as_array(ops.cast(x, "float32")) for x in (a, keys, weights))
    # The values are rounded as their type says, and may be added up in it.
    tolerance = {"float32": 1e-5, "float16": 2e-2, "bfloat16": 2e-1}[dtype]
    for b, h in np.ndindex(batch, H):
        expected = a[b, h] @ keys[b, h].T
        received = as_array(ops.cast(scores, "float32"))[b, h]
        np.testing.assert_allclose(received, expected, atol=tolerance * size**0.5)
        received = as_array(ops.cast(values, "float32"))[b, h]
        np.testing.assert_allclose(received, weights[b, h] @ keys[b, h], atol=tolerance * S**0.5)


# One tile and four, a size that four does not divide; a few rows and many.
@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("size, width", KERNELS)
@pytest.mark.parametrize("dtype, unit", [("float32", 2**-23), ("bfloat16", 2**-7)])
def test_the_product_is_the_matrix_product(rows, size, width, dtype, unit):
    a, kernel = (ops.cast(x, dtype) for x in (normal(rows, size), normal(size, width)))
    product = multiply_rows(a, kernel)
    assert product.dtype == a.dtype and tuple(product.shape) == (rows, width)
    a, kernel, product = (as_array(ops.cast(x, "float32")) for x in (a, kernel, product))
    # Two units in the last place; sums of float32 are rounded at every addition.
    tolerance = {"rtol": 2 * unit, "atol": 1e-5 * size**0.5}
    np.testing.assert_allclose(product, a @ kernel, **tolerance)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("bfloat16", 0.5)])
def test_logits_come_in_the_order_of_the_vocabulary(count, dtype, tolerance):
    rows, embeddings = normal(count, 64), normal(71, 64)
    logits = few_rows_logits(ops.cast(rows, dtype), ops.cast(embeddings, dtype))
    assert keras.backend.standardize_dtype(logits.dtype) == dtype
    logits = as_array(ops.cast(logits, "float32"))
    np.testing.assert_allclose(logits, rows @ embeddings.T, atol=tolerance)


def test_the_graph_of_logits_is_as_small_for_a_large_vocabulary():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("graphs are TensorFlow's")
    import tensorflow as tf

    def operations(vocab_size):
        specs = tf.TensorSpec([4, 8]), tf.TensorSpec([vocab_size, 8])
        graph = tf.function(few_rows_logits).get_concrete_function(*specs).graph
        return len(graph.get_operations())

    assert operations(256_206) == operations(10)


def build(**arguments):
    """Return a decoder of two layers, heads of unequal sizes and random weights."""
    sizes = {"d_model": D, "d_ff": 11, "num_heads": H, "key_dim": 4, "value_dim": 3}
    decoder = Decoder(num_layers=2, **{**sizes, **arguments})
    decoder.build((None, None, D), (None, None, D))
    randomize(decoder)
    return decoder


def padding(*lengths):
    return np.arange(S) < np.array(lengths)[:, None, None]


def steps(decoder, x, memory, mask, beams):
    """Run a decoder, position by position, on beams none of which continues another."""
    weights = [layer_weights(layer) for layer in decoder.layers]
    heads, caches, outputs = project_memory(decoder, memory), empty_cache(decoder, B), []
    for position in range(x.shape[1]):
        written = np.arange((position + 1) * beams)
        visible = np.tile(written % beams == np.arange(beams)[:, None], (B, 1, 1))
        output, caches = decoder_step(
            decoder,
            weights,
            ops.convert_to_tensor(x[:, position]),
            heads,
            mask_bias(mask),
            caches,
            write=lambda cached, new: ops.concatenate([cached, new], axis=2),
            self_bias=mask_bias(visible) if beams > 1 else None,
        )
        outputs.append(as_array(output))
    return np.stack(outputs, axis=1), caches


@NORMS
@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("beams", [1, 3])
def test_steps_of_beams_equal_the_full_pass(norm, use_bias, beams):
    decoder = build(norm=norm, use_bias=use_bias, activation="silu")
    memory, mask = normal(B, S, D), padding(7, 4, 1)
    x = normal(B * beams, T, D)
    repeated = [np.repeat(array, beams, axis=0) for array in (memory, mask)]
    expected = as_array(decoder(x, *repeated))
    received, caches = steps(decoder, x, memory, mask, beams)
    np.testing.assert_allclose(received, expected, atol=1e-5)
    for keys, values in caches:
        assert tuple(keys.shape) == (B, H, T * beams, 4)
        assert tuple(values.shape) == (B, H, T * beams, 3)


def test_attention_of_large_scores_is_that_of_the_layers():
    query, key, value = 30 * normal(B, H, 2, 4), normal(B, H, S, 4), normal(B, H, S, 3)
    bias = 1e4 + np.zeros((B, 2, S), "float32")  # Its exponential is infinite.
    heads = [ops.convert_to_tensor(x) for x in (query, key, value)]
    expected = as_array(join_heads(attention(*heads)[0])).reshape(-1, H * 3)
    received = as_array(_attend(*heads, ops.convert_to_tensor(bias)))
    np.testing.assert_allclose(received, expected, atol=1e-3)


def test_the_cache_has_the_compute_dtype():
    for keys, values in empty_cache(build(dtype="mixed_bfloat16"), 3):
        assert tuple(keys.shape) == (3, H, 0, 4)
        assert tuple(values.shape) == (3, H, 0, 3)
        assert "bfloat16" in str(keys.dtype)


@NORMS
@pytest.mark.parametrize(
    "options", [{}, {"use_bias": True}, {"embedding_norm": True, "position_offset": 2}]
)
@pytest.mark.parametrize("length", [1, S])
def test_a_single_sentence_is_encoded_as_in_a_batch(norm, options, length):
    sizes = {"d_model": 8, "d_ff": 11, "num_heads": H, "key_dim": 4, "value_dim": 3}
    config = TransformerConfig(vocab_size=13, num_layers=2, norm=norm, **options, **sizes)
    model = Transformer(config)
    randomize(model)
    source = np.random.randint(4, 13, size=(1, length)).astype("int32")
    expected = as_array(model.encode(source)[0])
    received = as_array(encode_sentence(model, source))
    np.testing.assert_allclose(received, expected, atol=1e-5)
    padded = np.pad(source, ((0, 0), (0, 3)))
    received = as_array(encode_sentence(model, padded, padding_mask(padded)))
    np.testing.assert_allclose(received[:, :length], expected, atol=1e-5)


def test_a_sentence_of_padding_is_encoded_as_in_a_batch():
    config = TransformerConfig(vocab_size=13, num_layers=2, d_model=8, d_ff=11, num_heads=H)
    model, source = Transformer(config), np.zeros((1, S), "int32")
    randomize(model)
    expected, mask = model.encode(source)
    received = encode_sentence(model, source, mask)
    np.testing.assert_allclose(as_array(received), as_array(expected), atol=1e-5)


class Doubled(Encoder):
    """An encoder that its user has changed."""

    def call(self, *args, **kwargs):
        outputs, weights = super().call(*args, **{**kwargs, "return_attention_scores": True})
        return 2 * outputs, weights


def test_an_encoder_that_is_overridden_has_no_plain_equivalent():
    model = Transformer.from_size("tiny", vocab_size=13, num_layers=1)
    assert has_plain_encoder(model)
    model.encoder = Doubled(1, 128, 512, 4)
    assert not has_plain_encoder(model)


def test_a_memory_must_be_given_as_the_decoder_was_built():
    with pytest.raises(ValueError, match="was built with a memory, received none"):
        project_memory(build(), None)
    decoder = Decoder(num_layers=1, d_model=D, d_ff=11, num_heads=H)
    decoder.build((None, None, D))
    with pytest.raises(ValueError, match="was built without a memory, received one"):
        project_memory(decoder, normal(B, S, D))


@pytest.mark.skipif(not IS_TENSORFLOW, reason="about TensorFlow's operations")
def test_a_step_of_beams_transposes_nothing():
    import tensorflow as tf

    decoder, heads = build(), project_memory(build(), normal(B, S, D))
    weights = [layer_weights(layer) for layer in decoder.layers]
    bias = tf.zeros([B, 3, 3])

    @tf.function(input_signature=[tf.TensorSpec([None, D])], autograph=False)
    def step(rows):
        caches = empty_cache(decoder, B)
        return decoder_step(
            decoder, weights, rows, heads, None, caches, lambda _, new: new, self_bias=bias
        )[0]

    graph = step.get_concrete_function().graph
    assert not [found.name for found in graph.get_operations() if found.type == "Transpose"]
