import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import losses
from keras_transformer.losses import (
    LabelSmoothedCrossEntropy,
    distilled_cross_entropy,
    smoothed_cross_entropy,
    token_weights,
)
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from tests.helpers.layer_checks import as_array, value_and_gradient

B, T, V = 3, 4, 7
EPSILONS = pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])


def batch(scale=2.0):
    """Return labels of sentences of 4, 2 and 1 tokens, and logits."""
    labels = np.random.randint(1, V, size=(B, T)).astype("int32")
    labels[1, 2:] = 0
    labels[2, 1:] = 0
    return labels, (scale * np.random.normal(size=(B, T, V))).astype("float32")


def dense_loss(labels, logits, epsilon):
    """The mean cross entropy over tokens with the one-hot distribution written out."""
    target = (1 - epsilon) * ops.one_hot(labels, V) + epsilon / V
    values = -ops.sum(target * ops.log_softmax(ops.cast(logits, "float32")), axis=-1)
    weights = ops.cast(ops.not_equal(labels, 0), "float32")
    return ops.sum(values * weights) / ops.sum(weights)


def test_labels_of_large_vocabularies_cost_as_much_whatever_keras_prefers():
    before = keras.config.floatx()
    keras.config.set_floatx("bfloat16")  # Whose integers have 16 bits by default.
    logits = np.zeros((1, 2, 40_000), "float32")
    logits[..., 5] = 20
    try:
        loss = losses.plain_cross_entropy(ops.array([[6, 39_000]], "int32"), ops.array(logits), 0)
    finally:
        keras.config.set_floatx(before)
    np.testing.assert_allclose(as_array(loss), np.full((1, 2), np.log(39_999 + np.exp(20))), 1e-5)


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="needs KERAS_BACKEND=torch")
def test_the_gradient_with_pytorch_has_a_gradient():
    import torch

    labels, logits = batch()

    def penalty(loss):
        x = torch.tensor(logits, requires_grad=True)
        (gradient,) = torch.autograd.grad(loss(torch.tensor(labels), x), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x)[0]

    expected = penalty(lambda labels, logits: dense_loss(labels, logits, 0.1))
    received = penalty(LabelSmoothedCrossEntropy(0.1))
    np.testing.assert_allclose(as_array(received), as_array(expected), atol=1e-6)
    assert np.abs(as_array(received)).max() > 1e-3


def test_one_token_by_hand():
    # The softmax of log 1, log 2, log 5 is 1/8, 2/8, 5/8; the label is the last.
    logits = np.log([[[1.0, 2.0, 5.0]]])
    plain = float(smoothed_cross_entropy(np.array([[2]]), ops.array(logits))[0, 0])
    assert plain == pytest.approx(-math.log(5 / 8))
    # With epsilon 0.3 the label's distribution is 0.1, 0.1, 0.1 + 0.7.
    smoothed = float(smoothed_cross_entropy(np.array([[2]]), ops.array(logits), 0.3)[0, 0])
    by_hand = -0.1 * math.log(1 / 8) - 0.1 * math.log(2 / 8) - 0.8 * math.log(5 / 8)
    assert smoothed == pytest.approx(by_hand)


def test_the_mean_is_over_tokens_and_not_over_sentences():
    # Two tokens with probability 1/2 and one with 1/4; the fourth place is padding.
    logits = np.zeros((2, 2, 4))
    logits[0, :, 1] = math.log(3)  # 3 / (3 + 1 + 1 + 1) = 1/2
    loss = LabelSmoothedCrossEntropy(0.0)(np.array([[1, 1], [2, 0]]), logits)
    assert float(loss) == pytest.approx((2 * math.log(2) + math.log(4)) / 3)


def test_reductions_are_those_of_keras():
    labels, logits = batch()
    values, total = (
        LabelSmoothedCrossEntropy(reduction=r)(labels, logits) for r in ("none", "sum")
    )
    assert values.shape == (B, T)
    np.testing.assert_array_equal(as_array(values)[labels == 0], 0)
    np.testing.assert_allclose(as_array(total), as_array(values).sum(), rtol=1e-6)
    mean = LabelSmoothedCrossEntropy()(labels, logits)
    np.testing.assert_allclose(as_array(mean), as_array(values).sum() / (4 + 2 + 1), rtol=1e-6)
    half = LabelSmoothedCrossEntropy(dtype="float16")(labels, logits)
    assert keras.backend.standardize_dtype(half.dtype) == "float16"
    with pytest.raises(ValueError, match="received 'sum_over_batch_size'. Use 'mean'"):
        LabelSmoothedCrossEntropy(reduction="sum_over_batch_size")


@EPSILONS
@pytest.mark.parametrize("scale", [0.1, 2.0, 30.0])
def test_value_and_gradient_equal_the_dense_formula(epsilon, scale):
    labels, logits = batch(scale)
    loss = LabelSmoothedCrossEntropy(epsilon)
    value, gradient = value_and_gradient(lambda x: loss(labels, x), logits)
    dense, dense_gradient = value_and_gradient(lambda x: dense_loss(labels, x, epsilon), logits)
    assert value == pytest.approx(dense, rel=1e-5)
    np.testing.assert_allclose(gradient, dense_gradient, atol=1e-6)


def test_without_smoothing_equals_keras():
    labels, logits = batch()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    expected = float(loss(labels, logits))
    assert float(LabelSmoothedCrossEntropy(0.0)(labels, logits)) == pytest.approx(expected)


@EPSILONS
def test_padding_adds_nothing(epsilon):
    labels, logits = batch()
    loss = LabelSmoothedCrossEntropy(epsilon)
    expected = float(loss(labels, logits))
    padded_labels = np.pad(labels, ((0, 2), (0, 3)))
    padded_logits = np.pad(logits, ((0, 2), (0, 3), (0, 0)), constant_values=9.0)
    value, gradient = value_and_gradient(lambda x: loss(padded_labels, x), padded_logits)
    assert value == pytest.approx(expected, rel=1e-6)
    assert np.all(gradient[padded_labels == 0] == 0)
    assert np.all(gradient[padded_labels != 0] != 0)


def test_a_batch_of_padding_has_loss_and_gradient_zero():
    labels, logits = np.zeros((B, T), "int32"), batch()[1]
    value, gradient = value_and_gradient(
        lambda x: LabelSmoothedCrossEntropy(0.1)(labels, x), logits
    )
    assert value == 0
    assert np.array_equal(gradient, np.zeros((B, T, V)))


@EPSILONS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_logits_are_summed_in_float32(epsilon, dtype):
    labels, logits = batch()
    rounded = as_array(ops.cast(logits, dtype))
    loss = LabelSmoothedCrossEntropy(epsilon)
    value, gradient = value_and_gradient(lambda x: loss(labels, x), logits, dtype)
    expected, expected_gradient = value_and_gradient(lambda x: loss(labels, x), rounded)
    assert value == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=0.01, atol=1e-4)


@EPSILONS
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_huge_logits_do_not_overflow(epsilon, size):
    labels, _ = batch()
    # The label alone stands out: only the smoothing, epsilon / V on each other one, costs.
    logits = as_array(size * ops.one_hot(labels, V))
    value, gradient = value_and_gradient(
        lambda x: LabelSmoothedCrossEntropy(epsilon)(labels, x), logits
    )
    # Some processors' softmax rounds a probability of 1 to the number before it in float32.
    assert value == pytest.approx(epsilon * size * (V - 1) / V, rel=1e-5, abs=1.2e-7)
    assert np.all(np.isfinite(gradient))


def test_a_label_whose_probability_is_0_in_float32_costs_what_its_logit_says():
    # 200 nats below the other; the next token is an even guess between two.
    labels, logits = np.array([[1, 2]]), np.array([[[0.0, -200.0, -300.0], [-300.0, 0.0, 0.0]]])
    loss = LabelSmoothedCrossEntropy(0.0)
    value, gradient = value_and_gradient(lambda x: loss(labels, x), logits)
    assert value == pytest.approx((200 + math.log(2)) / 2)
    np.testing.assert_allclose(gradient, [[[0.5, -0.5, 0.0], [0.0, 0.25, -0.25]]], atol=1e-7)


@EPSILONS
@pytest.mark.parametrize("size", [-(2.0**26), 2.0**26])
def test_equal_logits_give_the_log_of_the_vocabulary_size_however_large_they_are(epsilon, size):
    # Powers of two, so that the logits' mean is exact.
    value = LabelSmoothedCrossEntropy(epsilon)(batch()[0], np.full((B, T, 8), size))
    assert float(value) == pytest.approx(math.log(8))


def test_a_sentence_weight_counts_as_that_many_copies():
    labels, logits = batch()
    loss = LabelSmoothedCrossEntropy(0.1)
    order = [0, 0, 0, 2]  # The first sentence three times, the second not at all.
    weighted = loss(labels, logits, sample_weight=np.array([3.0, 0.0, 1.0]))
    assert float(weighted) == pytest.approx(float(loss(labels[order], logits[order])), rel=1e-6)


def test_token_weights_equal_sentence_weights_repeated():
    labels, logits = batch()
    loss, weights = LabelSmoothedCrossEntropy(0.1), np.array([3.0, 0.5, 1.0])
    by_token = loss(labels, logits, sample_weight=np.repeat(weights[:, None], T, axis=1))
    assert float(by_token) == pytest.approx(
        float(loss(labels, logits, sample_weight=weights)), rel=1e-6
    )


def test_a_token_of_weight_zero_is_as_padding():
    labels, logits = batch()
    weights = np.ones((B, T), "float32")
    weights[0, 1] = 0
    masked = labels.copy()
    masked[0, 1] = 0
    loss = LabelSmoothedCrossEntropy(0.1)
    assert float(loss(labels, logits, sample_weight=weights)) == pytest.approx(
        float(loss(masked, logits)), rel=1e-6
    )


def test_token_weights_are_zero_on_padding():
    labels = np.array([[5, 6, 0], [7, 0, 0]])
    weights = as_array(token_weights(labels, np.array([2.0, 3.0])))
    assert weights.tolist() == [[2, 2, 0], [3, 0, 0]]


def test_serialization_keeps_the_options():
    loss = LabelSmoothedCrossEntropy(0.25, name="mine")
    config = keras.saving.serialize_keras_object(loss)
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, LabelSmoothedCrossEntropy)
    assert (copy.label_smoothing, copy.name) == (0.25, "mine")


@pytest.mark.parametrize("epsilon", [-0.1, 1.0])
def test_smoothing_out_of_range_is_refused(epsilon):
    with pytest.raises(ValueError, match=f"at least 0 and below 1, received {epsilon}"):
        LabelSmoothedCrossEntropy(epsilon)


def test_the_config_of_version_0_1_is_read():
    config = {"label_smoothing": 0.25, "r_drop": 0.0, "distillation": 0.0, "name": "mine"}
    assert LabelSmoothedCrossEntropy.from_config(config).label_smoothing == 0.25


def test_removed_options_are_refused_with_what_to_do():
    config = {"label_smoothing": 0.25, "r_drop": 5.0, "name": "mine"}
    with pytest.raises(ValueError, match=r"'r_drop': 5.0.*compile=False"):
        LabelSmoothedCrossEntropy.from_config(config)


# Wrong labels

WRONG = pytest.mark.parametrize("wrong", [-100, -1, V, 2**32 + 1])
USES = pytest.mark.parametrize(
    "use",
    [
        LabelSmoothedCrossEntropy(),
        smoothed_cross_entropy,
        lambda labels, logits: distilled_cross_entropy(labels, logits, logits),
        lambda labels, logits: NegativeLogLikelihood().update_state(labels, logits),
        lambda labels, logits: TokenAccuracy().update_state(labels, logits),
    ],
    ids=["loss", "cross entropy", "distillation", "likelihood", "accuracy"],
)


@WRONG
@USES
def test_a_label_out_of_range_is_refused(use, wrong):
    labels, logits = batch()
    labels = labels.astype("int64")
    labels[0, 1] = wrong
    if keras.backend.backend() == "jax" and wrong > 2**31:
        pytest.skip("JAX has no integers of 64 bits")
    rule = rf"from 0 to {V - 1} \(0, the padding id, for tokens to ignore\), received {wrong}"
    with pytest.raises(ValueError, match=rule):
        use(labels, ops.array(logits))


@USES
@pytest.mark.parametrize(
    ("shape", "received"),
    [
        ((B, T - 1), r"\(3, 3\)"),
        ((T, B), r"\(4, 3\)"),
        ((B,), r"\(3,\)"),
        ((B, T, 2), r"\(3, 4, 2\)"),
    ],
    ids=["length", "transposed", "rank", "columns"],
)
def test_labels_of_another_shape_are_refused(use, shape, received):
    message = rf"ids \[B, T\] .*labels of shape {received} and logits of shape \(3, 4, 7\)\.$"
    with pytest.raises(ValueError, match=message):
        use(np.ones(shape, "int32"), ops.array(batch()[1]))


@USES
def test_one_hot_labels_are_refused_by_what_to_do(use):
    labels, logits = batch()
    with pytest.raises(
        ValueError, match=r"Give one-hot labels as ids, ops.argmax\(labels, axis=-1\)"
    ):
        use(np.eye(V)[labels], ops.array(logits))


def test_labels_may_have_a_last_axis_of_one_as_in_keras():
    labels, logits = batch()
    loss, metric, same = LabelSmoothedCrossEntropy(), TokenAccuracy(), TokenAccuracy()
    assert float(loss(labels[..., None], logits)) == float(loss(labels, logits))
    metric.update_state(labels[..., None], logits)
    same.update_state(labels, logits)
    assert float(metric.result()) == float(same.result()) <= 1


def model_of_vectors(**options):
    model = keras.Sequential([keras.Input((None, 3)), keras.layers.Dense(V)])
    metrics = [TokenAccuracy(), NegativeLogLikelihood()]
    model.compile("sgd", LabelSmoothedCrossEntropy(), metrics=metrics, **options)
    return model


@WRONG
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_label_out_of_range_is_an_error_or_nan_in_fit(wrong, jit_compile):
    backend = keras.backend.backend()
    if wrong > 2**31 and (backend == "jax" or jit_compile):
        pytest.skip("integers of 64 bits are for labels that a step can refuse")
    labels, _ = batch()
    labels = labels.astype("int64")
    labels[0, 1] = wrong
    x = np.ones((B, T, 3), "float32")
    model = model_of_vectors(jit_compile=jit_compile if backend == "tensorflow" else "auto")
    if backend == "jax" or (backend == "tensorflow" and jit_compile):
        logs = model.fit(x, labels, verbose=0).history
        assert np.isnan([logs[name][0] for name in ("loss", "accuracy", "nll")]).all()
        assert all(np.all(np.isnan(weight)) for weight in model.get_weights())
        return
    for use in (model.fit, model.evaluate):
        with pytest.raises(Exception, match=rf"from 0 to {V - 1} \(0, the padding"):
            use(x, labels, verbose=0)


def test_transposed_labels_are_refused_where_only_the_graph_knows_shapes():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("other backends know all shapes")
    import tensorflow as tf

    labels, logits = batch()
    specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, V])]
    loss = tf.function(LabelSmoothedCrossEntropy(), input_signature=specs)
    assert float(loss(labels, logits)) == pytest.approx(
        float(LabelSmoothedCrossEntropy()(labels, logits))
    )
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"Labels must have the shape \[B, T\]"
    ):
        loss(labels.T, logits)


def test_on_several_replicas_transposed_labels_make_the_loss_nan(monkeypatch):
    """Without an assertion that waits for the logits, and keeps the next replica waiting."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("replicas are TensorFlow's")
    import tensorflow as tf

    monkeypatch.setattr(losses, "replica_count", lambda: 2)
    labels, logits = batch()
    specs = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None, V])]
    loss = tf.function(smoothed_cross_entropy, input_signature=specs)
    np.testing.assert_allclose(loss(labels, logits), smoothed_cross_entropy(labels, logits), 1e-6)
    assert np.isnan(loss(labels.T, logits)).all()
    types = [each.type for each in loss.get_concrete_function().graph.get_operations()]
    assert "Assert" not in types


@pytest.mark.parametrize("shape", [(T,), (T, B), (B, T, 1)])
def test_weights_of_another_shape_are_refused(shape):
    labels, logits = batch()
    message = r"sample_weight must be \[B\] or \[B, T\] .* received shape .* for \(3, 4\)"
    with pytest.raises(ValueError, match=message):
        LabelSmoothedCrossEntropy()(labels, logits, sample_weight=np.ones(shape))
