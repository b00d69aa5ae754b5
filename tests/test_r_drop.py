import math

import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import as_array, value_and_gradient

from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.r_drop import RDropLoss, divergence_of_pairs, each_row_twice

B, T, V = 3, 4, 7


def batch(scale=2.0):
    """Return labels of sentences of 4, 2 and 1 tokens, each twice in a row, and other logits."""
    labels = np.random.randint(1, V, size=(B, T)).astype("int32")
    labels[1, 2:] = 0
    labels[2, 1:] = 0
    logits = (scale * np.random.normal(size=(2 * B, T, V))).astype("float32")
    return np.repeat(labels, 2, axis=0), logits


def divergence_by_keras(logits):
    """The mean of both divergences with distributions and logarithms written out."""
    one, other = ops.softmax(logits[::2]), ops.softmax(logits[1::2])
    logs = ops.log_softmax(logits[::2]), ops.log_softmax(logits[1::2])
    return (ops.sum(one * (logs[0] - logs[1]), -1) + ops.sum(other * (logs[1] - logs[0]), -1)) / 2


@pytest.mark.parametrize("scale", [0.1, 2.0, 30.0])
def test_divergence_and_gradient_equal_the_plain_formula(scale):
    _, logits = batch(scale)
    weights = np.random.normal(size=(B, T)).astype("float32")
    value, gradient = value_and_gradient(
        lambda x: ops.sum(weights * divergence_of_pairs(x)), logits
    )
    plain, plain_gradient = value_and_gradient(
        lambda x: ops.sum(weights * divergence_by_keras(x)), logits
    )
    assert value == pytest.approx(plain, rel=1e-4)
    np.testing.assert_allclose(gradient, plain_gradient, rtol=1e-4, atol=1e-5)


def test_divergence_by_hand():
    # KL((3/4, 1/4), (1/4, 3/4)) = 3/4 log 3 - 1/4 log 3 = 1/2 log 3, and so the other way round.
    logits = np.log([[[3.0, 1.0]], [[1.0, 3.0]]])
    assert float(divergence_of_pairs(logits)[0, 0]) == pytest.approx(math.log(3) / 2)


def test_the_loss_is_cross_entropy_and_half_of_alpha_times_the_mean_divergence():
    labels, logits = batch()
    apart = as_array(divergence_of_pairs(logits))[labels[::2] != 0].mean()
    expected = float(LabelSmoothedCrossEntropy(0.1)(labels, logits)) + 3 / 2 * apart
    assert float(RDropLoss(3, 0.1)(labels, logits)) == pytest.approx(expected, rel=1e-6)


def test_predictions_that_agree_have_the_cross_entropy_alone():
    labels, logits = batch()
    logits[1::2] = logits[::2]
    loss, plain = RDropLoss(5, 0.1), LabelSmoothedCrossEntropy(0.1)
    value, gradient = value_and_gradient(lambda x: loss(labels, x), logits)
    expected, expected_gradient = value_and_gradient(lambda x: plain(labels, x), logits)
    assert value == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-5)


def test_padding_and_weights_of_zero_add_nothing():
    labels, logits = batch()
    loss = RDropLoss(5, 0.1)
    expected = float(loss(labels, logits))
    wide = np.pad(logits, ((0, 2), (0, 3), (0, 0)), constant_values=9.0)
    wide[:, T:] += np.random.normal(size=(2 * B + 2, 3, V))
    labels = np.pad(labels, ((0, 2), (0, 3)))
    value, gradient = value_and_gradient(lambda x: loss(labels, x), wide)
    assert value == pytest.approx(expected, rel=1e-5)
    assert np.all(gradient[labels == 0] == 0)
    labels[2 * B :] = 3
    weights = np.array([1] * (2 * B) + [0, 0], "float32")
    assert float(loss(labels, wide, weights)) == pytest.approx(expected, rel=1e-5)
    assert float(loss(np.zeros_like(labels), wide)) == 0


def test_copies_are_neighbours():
    source, labels = np.arange(6).reshape(3, 2), np.arange(12).reshape(3, 4)
    inputs, twice = each_row_twice({"source": source, "target": labels}, labels)
    assert as_array(inputs["source"]).tolist() == [[0, 1]] * 2 + [[2, 3]] * 2 + [[4, 5]] * 2
    assert np.array_equal(as_array(inputs["target"]), as_array(twice))
    assert np.array_equal(as_array(twice), np.repeat(labels, 2, axis=0))


def test_serialisation_keeps_its_numbers():
    config = keras.saving.serialize_keras_object(RDropLoss(3.0, 0.25, name="mine"))
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, RDropLoss)
    assert (copy.alpha, copy.label_smoothing, copy.name) == (3.0, 0.25, "mine")


@pytest.mark.parametrize(("alpha", "epsilon"), [(-1, 0.1), (1, 1.0)])
def test_numbers_out_of_range_are_refused(alpha, epsilon):
    with pytest.raises(ValueError, match=f"below 1; received {alpha} and {epsilon}"):
        RDropLoss(alpha, epsilon)
