import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import TokenEmbedding
from tests.helpers.layer_checks import as_array, run_layer_checks

V, D = 11, 4


class MaskReader(keras.layers.Layer):
    """Keep the implicit mask of the inputs, or None."""

    supports_masking = True

    def call(self, inputs, mask=None):
        self.found = mask
        return inputs


def implicit_mask(outputs):
    layer = MaskReader()
    layer(outputs)
    return layer.found


def test_passes_the_layer_checks_on_ids():
    run_layer_checks(
        TokenEmbedding,
        {"vocab_size": V, "d_model": D},
        {"inputs": np.array([[1, 2, 10], [0, 3, 7]], "int32")},
        num_weights=1,
        num_parameters=V * D,
    )


def test_passes_the_layer_checks_on_vectors():
    run_layer_checks(
        TokenEmbedding,
        {"vocab_size": V, "d_model": D},
        {"inputs": np.random.normal(size=(2, 5, D)).astype("float32")},
        num_weights=1,
        num_parameters=V * D,
        output_dtype="float32",
        reverse=True,
    )


def test_vectors_are_rows_times_the_root_of_d_model():
    layer = TokenEmbedding(V, D)
    vectors = as_array(layer(np.array([[3, 10]])))
    matrix = layer.get_weights()[0]
    np.testing.assert_allclose(vectors, 2 * matrix[[[3, 10]]], rtol=1e-6)  # sqrt(4)


def test_logits_are_the_product_with_the_unscaled_rows():
    layer = TokenEmbedding(V, D)
    layer.build()
    x = np.random.normal(size=(2, 5, D)).astype("float32")
    logits = as_array(layer(x, reverse=True))
    np.testing.assert_allclose(logits, x @ layer.get_weights()[0].T, atol=1e-5)


def test_embeddings_start_with_unit_variance():
    layer = TokenEmbedding(2_000, 64)
    vectors = as_array(layer(np.arange(2_000)[None]))
    assert vectors.std() == pytest.approx(1, abs=0.02)
    assert vectors.mean() == pytest.approx(0, abs=0.02)


def test_logits_are_float32_under_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    layer = TokenEmbedding(V, D)
    assert keras.backend.standardize_dtype(layer(np.ones((1, 2, D)), reverse=True).dtype) == (
        "float32"
    )


def test_ids_that_come_as_floats_are_not_rounded_under_mixed_precision():
    layer = TokenEmbedding(1_000, D, dtype="mixed_bfloat16")
    ids = np.array([[257, 259, 999]])  # None of them is a bfloat16 number.
    assert np.array_equal(as_array(layer(ids.astype("float32"))), as_array(layer(ids)))


@pytest.mark.parametrize("wrong", [-1, V, 2.5, float("nan")])
def test_an_id_out_of_range_or_not_whole_is_refused(wrong):
    with pytest.raises(ValueError, match=f"Ids must be from 0 to {V - 1}, received {wrong}"):
        TokenEmbedding(V, D)(np.array([[1, wrong]]))


@pytest.mark.parametrize("wrong", [-1, V])
def test_an_id_out_of_range_is_noticed_in_training(wrong):
    model = keras.Sequential([keras.Input((None,), dtype="int32"), TokenEmbedding(V, D)])
    is_jax = keras.backend.backend() == "jax"
    model.compile("sgd", "mse", jit_compile=is_jax)
    batch = np.array([[1, wrong]], "int32"), np.zeros((1, 2, D))
    if is_jax:
        assert np.isnan(model.fit(*batch, verbose=0).history["loss"][0])
        return
    with pytest.raises(Exception, match=f"Ids must be from 0 to {V - 1}, received"):
        model.fit(*batch, verbose=0)


@pytest.mark.parametrize("wrong", [-1, V])
def test_an_id_out_of_range_never_gives_the_vector_of_another(wrong):
    model = keras.Sequential([keras.Input((None,), dtype="int32"), TokenEmbedding(V, D)])
    ids = np.array([[1, wrong]], "int32")
    if keras.backend.backend() == "jax":
        assert np.isnan(model.predict(ids, verbose=0)[0, 1]).all()
        return
    with pytest.raises(Exception, match="(?i)out of range|not in|Ids must be"):
        model.predict(ids, verbose=0)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_ids_of_any_rank_have_a_mask(dtype):
    layer = TokenEmbedding(V, D, mask_zero=True)
    for shape in ((D,), (2, D), (2, 3, D)):
        ids = np.random.default_rng(1).integers(0, 3, shape).astype(dtype)
        assert np.array_equal(as_array(implicit_mask(layer(ids))), ids != 0)


@pytest.mark.parametrize("shape", [(5, D), (D, D), (2, 5, D)])
def test_logits_have_no_mask_but_that_of_the_vectors(shape):
    layer = TokenEmbedding(V, D, mask_zero=True)
    vectors = np.zeros(shape, "float32")
    assert implicit_mask(layer(vectors, reverse=True)) is None
    symbol = keras.Input(shape[1:])
    assert implicit_mask(layer(symbol, reverse=True)) is None
    if len(shape) == 3:
        vectors[:, :3] = 1
        logits = layer(keras.layers.Masking()(vectors), reverse=True)
        assert as_array(implicit_mask(logits)).tolist() == [[True] * 3 + [False] * 2] * 2


def test_the_loss_of_pooled_vectors_has_no_mask():
    layer = TokenEmbedding(V, D, mask_zero=True)
    ids = keras.Input((None,), dtype="int32")
    model = keras.Model(ids, layer(keras.ops.relu(layer(ids)[:, 0]), reverse=True))
    batch, labels = np.array([[1, 0, 0], [2, 3, 0], [4, 5, 6], [7, 0, 0]]), np.array([1, 2, 3, 4])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=False)
    received = model.evaluate(batch, labels, verbose=0)  # A batch of D sentences.
    assert received == pytest.approx(float(loss(labels, as_array(model(batch)))), rel=1e-5)


@pytest.mark.parametrize("d_model", [D, 3])
def test_float_ids_have_the_mask_of_their_integers(d_model):
    layer = TokenEmbedding(V, d_model, mask_zero=True)
    for ids in (np.array([[5, 0, 0]]), np.array([[5.0, 0.0, 0.0]])):
        assert as_array(layer.compute_mask(ops.array(ids))).tolist() == [[True, False, False]]


@pytest.mark.parametrize("argument", ["vocab_size", "d_model"])
def test_sizes_below_one_are_refused(argument):
    with pytest.raises(ValueError, match=f"{argument} must be at least 1, received 0"):
        TokenEmbedding(**{"vocab_size": V, "d_model": D, argument: 0})
