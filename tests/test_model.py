from types import FunctionType

import keras
import numpy as np
import pytest

from keras_transformer import Transformer, TransformerConfig, layers, losses
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.utils import backends
from tests.helpers.layer_checks import as_array, randomize, saved_and_loaded

B, S, T, V = 2, 7, 5, 13
SIZES = {
    "vocab_size": V,
    "num_layers": 2,
    "d_model": 8,
    "d_ff": 11,
    "num_heads": 2,
    "key_dim": 3,
    "value_dim": 5,
}
VARIANTS = pytest.mark.parametrize(
    "variant",
    [
        {},
        {"norm": "pre", "position": "learned", "max_length": 10, "share_embeddings": "none"},
        {"norm": "pre", "embedding_norm": True, "position_offset": 2},
    ],
    ids=["paper", "variant", "embedding_norm"],
)


def build(**arguments):
    model = Transformer(TransformerConfig(**{**SIZES, **arguments}))
    randomize(model)
    return model


def ids(*shape):
    return np.random.randint(4, V, size=shape).astype("int32")


def sentences():
    """Return the ids of a source of 7 and one of 4 tokens, and of their targets."""
    source = ids(B, S)
    source[1, 4:] = 0
    return {"source": source, "target": ids(B, T)}


@VARIANTS
def test_a_later_token_changes_no_earlier_logits(variant):
    model, inputs = build(**variant), sentences()
    before = as_array(model(inputs))
    assert before.shape == (B, T, V)
    for position in range(1, T):
        target = inputs["target"].copy()
        target[:, position] = 3
        after = as_array(model({"source": inputs["source"], "target": target}))
        assert np.array_equal(after[:, :position], before[:, :position])
        assert np.all(np.abs(after - before)[:, position:].max(axis=-1) > 1e-4)


@VARIANTS
def test_padding_changes_no_logits(variant):
    model, inputs = build(**variant), sentences()
    expected = as_array(model(inputs))
    padded = {name: np.pad(array, ((0, 0), (0, 3))) for name, array in inputs.items()}
    np.testing.assert_allclose(as_array(model(padded))[:, :T], expected, atol=1e-5)


@VARIANTS
def test_a_sentence_does_not_depend_on_its_neighbors(variant):
    model, inputs = build(**variant), sentences()
    alone = {"source": inputs["source"][1:, :4], "target": inputs["target"][1:]}
    np.testing.assert_allclose(as_array(model(alone))[0], as_array(model(inputs))[1], atol=1e-5)


@VARIANTS
def test_attention_weights_are_those_behind_the_logits(variant):
    model, inputs = build(dropout=0.5, **variant), sentences()
    weights = {name: as_array(array) for name, array in model.attention_weights(inputs).items()}
    shapes = {name: array.shape for name, array in weights.items()}
    assert shapes == {
        "encoder": (B, 2, 2, S, S),
        "decoder": (B, 2, 2, T, T),
        "cross": (B, 2, 2, T, S),
    }
    for array in weights.values():
        np.testing.assert_allclose(array.sum(axis=-1), 1, atol=1e-5)
    assert not weights["encoder"][1, ..., 4:].any()  # Padding.
    assert not weights["cross"][1, ..., 4:].any()
    assert not np.triu(weights["decoder"], k=1).any()  # Later tokens.
    memory, mask = model.encode(inputs["source"])
    for i, (decoder, cross) in enumerate(model.decode(inputs["target"], memory, mask)[1]):
        np.testing.assert_allclose(weights["decoder"][:, i], as_array(decoder), atol=1e-6)
        np.testing.assert_allclose(weights["cross"][:, i], as_array(cross), atol=1e-6)


def embeddings(model):
    layers = (model.source_embedding, model.target_embedding, model.output_embedding)
    return [layer.embeddings for layer in layers]


@pytest.mark.parametrize(("sharing", "matrices"), [("all", 1), ("target", 2), ("none", 3)])
def test_shared_embeddings_are_one_variable_also_after_saving(sharing, matrices):
    model, inputs = build(share_embeddings=sharing), sentences()
    copy = saved_and_loaded(model)
    for one in (model, copy):
        source, target, output = embeddings(one)
        assert (source is target) == (sharing == "all")
        assert (target is output) == (sharing != "none")
        shape = (V, SIZES["d_model"])
        assert sum(tuple(weight.shape) == shape for weight in one.weights) == matrices
    assert copy.config == model.config
    assert np.array_equal(as_array(copy(inputs)), as_array(model(inputs)))


def test_a_change_of_a_shared_matrix_is_seen_everywhere():
    model = saved_and_loaded(build())
    source, target, output = embeddings(model)
    source.assign(np.zeros((V, SIZES["d_model"])))
    assert not np.any(as_array(model(sentences())))  # Logits are products with the matrix.


def test_the_target_may_have_a_vocabulary_of_its_own():
    model = build(target_vocab_size=V + 4, share_embeddings="target")
    inputs = sentences()
    inputs["target"][0, 0] = V + 3
    assert tuple(model(inputs).shape) == (B, T, V + 4)
    assert tuple(model.source_embedding.embeddings.shape) == (V, SIZES["d_model"])


def test_config_round_trip_of_the_model():
    model = build(norm="pre", share_embeddings="target", target_vocab_size=9)
    copy = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(model))
    assert copy.config == model.config
    assert [w.path for w in copy.weights] == [w.path for w in model.weights]


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_logits_are_float32_under_mixed_precision(policy):
    model, inputs = build(), sentences()
    keras.config.set_dtype_policy(policy)
    copy = Transformer(model.config)
    copy.set_weights(model.get_weights())
    assert keras.backend.standardize_dtype(copy(inputs).dtype) == "float32"
    assert keras.backend.standardize_dtype(copy.encode(inputs["source"])[0].dtype) == (
        policy.removeprefix("mixed_")
    )
    tolerance = {"mixed_float16": 0.03, "mixed_bfloat16": 0.2}[policy]
    np.testing.assert_allclose(as_array(copy(inputs)), as_array(model(inputs)), atol=tolerance)
    keras.config.set_dtype_policy("float32")
    assert saved_and_loaded(copy).compute_dtype == policy.removeprefix("mixed_")


def test_another_type_has_the_same_weights_rounded():
    model, inputs = build(), sentences()
    copy = model.with_dtype("bfloat16")
    assert {weight.dtype for weight in copy.weights} == {"bfloat16"}
    assert copy.config == model.config
    for weight, other in zip(copy.weights, model.weights, strict=True):
        np.testing.assert_allclose(as_array(weight).astype("float32"), as_array(other), rtol=2**-8)
    logits = copy(inputs)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    np.testing.assert_allclose(as_array(logits), as_array(model(inputs)), atol=0.2)
    assert {weight.dtype for weight in model.weights} == {"float32"}


def test_dropout_applies_in_training_only():
    model, inputs = build(dropout=0.3), sentences()
    assert np.array_equal(as_array(model(inputs)), as_array(model(inputs, training=False)))
    one, other = (as_array(model(inputs, training=True)) for _ in range(2))
    assert not np.array_equal(one, other)


def test_dropout_applies_to_the_sums_of_embeddings_and_positions(monkeypatch):
    model = build(vocab_size=8, d_model=8, share_embeddings="none", dropout=0.5)
    model.output_embedding.embeddings.assign(np.eye(8))  # Logits are what the decoder returns.
    monkeypatch.setattr(layers.Encoder, "call", lambda self, x, *_, **__: (x, None))
    monkeypatch.setattr(layers.Decoder, "call", lambda self, x, *_, **__: (x, None))
    source, target = np.full((B, 50), 5), np.full((B, 40), 6)
    for call in (
        lambda training: model.encode(source, training=training)[0],
        lambda training: model.decode(target, None, training=training)[0],
    ):
        kept, dropped = as_array(call(False)), as_array(call(True))
        assert np.all((dropped == 0) | np.isclose(dropped, 2 * kept, atol=1e-6))
        assert 0.4 < np.mean(dropped == 0) < 0.6


@pytest.mark.slow
def test_its_layers_make_a_classifier_in_a_functional_model():
    source = keras.Input((None,), dtype="int32")
    x = layers.TokenEmbedding(V, 8)(source)
    x = layers.SinusoidalPositionEncoding()(x)
    x = layers.Encoder(num_layers=1, d_model=8, d_ff=11, num_heads=2, dropout=0.0)(
        x, attention_mask=layers.padding_mask(source)
    )
    model = keras.Model(source, keras.layers.Dense(1, activation="sigmoid")(x[:, 0]))
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"])
    # Does token 4 occur? The answer is at position 0, so attention has to carry it there.
    inputs = np.random.randint(5, V, size=(64, S))
    inputs[::2, 3] = 4
    inputs[:, 5:] = 0
    answers = (inputs == 4).any(axis=1).astype("float32")
    epochs = [np.tile(array, (20, 1)[: array.ndim]) for array in (inputs, answers)]
    model.fit(*epochs, batch_size=32, verbose=0)
    assert model.evaluate(inputs, answers, verbose=0)[1] == 1.0
    expected = as_array(model(inputs[:, :5]))  # Without the padding.
    np.testing.assert_allclose(as_array(saved_and_loaded(model)(inputs)), expected, atol=1e-5)


def test_the_model_is_part_of_a_functional_model():
    model, inputs = build(), sentences()
    symbols = {name: keras.Input((None,), dtype="int32", name=name) for name in inputs}
    logits = model(symbols)
    assert tuple(logits.shape) == (None, None, V)
    received = as_array(keras.Model(symbols, logits)(inputs))
    np.testing.assert_allclose(received, as_array(model(inputs)), atol=1e-5)


def test_fit_learns_to_copy_and_moves_every_weight():
    model = Transformer(
        TransformerConfig(V, num_layers=1, d_model=32, d_ff=64, num_heads=2, dropout=0.0)
    )
    source = ids(256, 4)
    source[::2, 3] = 0
    bos = np.full((256, 1), 2, "int32")
    inputs = {"source": source, "target": np.concatenate([bos, source[:, :-1]], axis=1)}
    before = model.get_weights()
    model.compile(
        keras.optimizers.Adam(0.01),
        LabelSmoothedCrossEntropy(0.1),
        metrics=[NegativeLogLikelihood(), TokenAccuracy()],
    )
    history = model.fit(inputs, source, batch_size=32, epochs=10, verbose=0).history
    # A guess among the nine tokens has a loss of log 9 = 2.2 and is right in 0.11 of the cases.
    assert history["loss"][0] > 1.5
    assert history["nll"][-1] < 0.8
    assert model.evaluate(inputs, source, verbose=0, return_dict=True)["accuracy"] > 0.7
    for old, new in zip(before, model.get_weights(), strict=True):
        assert not np.array_equal(old, new)


@pytest.mark.parametrize(
    ("method", "steps", "wrong"),
    [
        *(("fit", 1, -100), ("fit", 2, V), ("evaluate", 1, V), ("evaluate", 2, V)),
        *(("train_on_batch", 1, V), ("train_on_batch", 2, V)),
        *(("test_on_batch", 1, -100), ("test_on_batch", 2, V)),
    ],
)
def test_a_label_out_of_range_is_refused_before_a_step(wrong, steps, method):
    model, labels, is_jax = build(), ids(B, T), keras.backend.backend() == "jax"
    if steps > 1 and keras.backend.backend() == "torch":
        pytest.skip("Keras makes one step at a time on PyTorch")
    model.compile("sgd", LabelSmoothedCrossEntropy(), jit_compile=is_jax, steps_per_execution=steps)
    before = model.get_weights()
    labels[0 if steps == 1 else 1, 2] = wrong
    options = {} if method.endswith("batch") else {"batch_size": 1, "verbose": 0}
    options |= {"shuffle": False} if method == "fit" else {}
    with pytest.raises(Exception, match=rf"Labels must be from 0 to {V - 1} \(.* received"):
        getattr(model, method)(sentences(), labels, **options)
    if is_jax or steps == 1:  # TensorFlow has made the first of two steps.
        for weight, value in zip(model.get_weights(), before, strict=True):
            assert np.array_equal(weight, value)
    assert np.all(np.isfinite(model.predict(sentences(), verbose=0)))


def test_autograph_transforms_what_a_step_calls():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("AutoGraph is part of TensorFlow")
    import tensorflow as tf

    from keras_transformer.layers import adaptation
    from keras_transformer.translation import cached_step

    classes = [adaptation.KernelLayer, adaptation.Adapter]
    for holder in (backends, losses, cached_step, *classes):
        functions = [f for f in vars(holder).values() if isinstance(f, FunctionType)]
        assert functions
        for function in functions:
            tf.autograph.to_code(function)  # An error here is a warning in a user's log.


def test_labels_of_unknown_rank_are_refused_by_what_to_do():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("shapes are unknown in TensorFlow's graphs")
    import tensorflow as tf

    model, inputs = build(), sentences()
    model.compile("sgd", LabelSmoothedCrossEntropy(), jit_compile=False)
    data = tf.data.Dataset.from_tensors(inputs).map(
        lambda x: (x, tf.py_function(lambda: ids(B, T), [], tf.int32))
    )
    with pytest.raises(ValueError, match=r"unknown rank. Set it with tf.ensure_shape\(labels"):
        model.fit(data, verbose=0)
    model.fit(data.map(lambda x, y: (x, tf.ensure_shape(y, [None, None]))), verbose=0)


def test_training_without_labels_is_refused():
    model = build()
    model.compile("sgd", LabelSmoothedCrossEntropy(), jit_compile=False)
    with pytest.raises(ValueError, match="needs labels, .* received none. Call fit"):
        model.fit(sentences(), verbose=0)


def test_ids_without_a_batch_axis_are_refused():
    with pytest.raises(
        ValueError, match=r"received shapes \(7,\) and \(5,\). Give one sentence as"
    ):
        build()({"source": ids(S), "target": ids(T)})
