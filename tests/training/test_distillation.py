"""A loss and a model that learn of what teachers predict."""

import math

import keras
import numpy as np
import pytest
from keras import ops
from tests.helpers.layer_checks import as_array, randomize, saved_and_loaded, value_and_gradient

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.cross_entropy import distilled_cross_entropy
from keras_transformer.losses import LabelSmoothedCrossEntropy

B, S, T, V = 3, 5, 4, 7


def batch():
    """Return labels of sentences of 4, 2 and 1 tokens, logits, and a distribution for each."""
    labels = np.random.randint(1, V, size=(B, T)).astype("int32")
    labels[1, 2:] = labels[2, 1:] = 0
    logits, taught = (2 * np.random.normal(size=(B, T, V)) for _ in range(2))
    return labels, logits.astype("float32"), as_array(ops.softmax(taught.astype("float32")))


def dense_loss(labels, logits, taught, epsilon, share):
    """The mean cross entropy over tokens with the whole target written out."""
    smoothed = (1 - epsilon) * ops.one_hot(labels, V) + epsilon / V
    target = (1 - share) * smoothed + share * taught
    values = -ops.sum(target * ops.log_softmax(ops.cast(logits, "float32")), axis=-1)
    weights = ops.cast(ops.not_equal(labels, 0), "float32")
    return ops.sum(values * weights) / ops.sum(weights)


def test_one_token_by_hand():
    # Probabilities 1/2, 1/4, 1/4. The label is the first, the teachers see 1/2 in each other one.
    logits, taught = np.log([[[2.0, 1.0, 1.0]]]), np.array([[[0.0, 0.5, 0.5]]])
    value = distilled_cross_entropy(np.array([[0]]), ops.array(logits), taught, share=0.25)
    assert float(value[0, 0]) == pytest.approx(0.75 * math.log(2) + 0.25 * math.log(4))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_value_and_gradient_equal_the_dense_formula(epsilon, share):
    labels, logits, taught = batch()
    loss = LabelSmoothedCrossEntropy(epsilon, distillation=share)
    value, gradient = value_and_gradient(lambda x: loss(labels, (x, taught)), logits)
    dense, dense_gradient = value_and_gradient(
        lambda x: dense_loss(labels, x, taught, epsilon, share), logits
    )
    assert value == pytest.approx(dense, rel=1e-5)
    np.testing.assert_allclose(gradient, dense_gradient, atol=1e-6)


def test_where_the_student_agrees_with_its_only_teacher_there_is_nothing_to_learn():
    labels, logits, _ = batch()
    taught = as_array(ops.softmax(logits))
    loss = LabelSmoothedCrossEntropy(0.1, distillation=1.0)
    gradient = value_and_gradient(lambda x: loss(labels, (x, taught)), logits)[1]
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_no_gradient_goes_to_the_teachers():
    labels, logits, _ = batch()
    taught = as_array(ops.softmax(2 * logits))
    loss = LabelSmoothedCrossEntropy(0.1, distillation=0.5)
    gradient = value_and_gradient(lambda x: loss(labels, (x, ops.softmax(2 * x))), logits)[1]
    expected = value_and_gradient(lambda x: loss(labels, (x, taught)), logits)[1]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_serialisation_keeps_the_share():
    loss = LabelSmoothedCrossEntropy(0.25, distillation=0.5)
    config = keras.saving.serialize_keras_object(loss)
    assert keras.saving.deserialize_keras_object(config).distillation == 0.5


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match=f"distillation must be from 0 to 1, received {share}"):
        LabelSmoothedCrossEntropy(0.1, distillation=share)


def test_two_passes_and_teachers_are_refused():
    with pytest.raises(ValueError, match="received r_drop=5.0 and distillation=0.5. Set one"):
        LabelSmoothedCrossEntropy(0.1, r_drop=5.0, distillation=0.5)


def build(num_layers=1, vocab_size=V, dropout=0.0):
    sizes = {"num_layers": num_layers, "d_model": 8, "d_ff": 11, "num_heads": 2}
    model = Transformer(TransformerConfig(vocab_size, dropout=dropout, **sizes))
    randomize(model)
    return model


def compiled(model, share=0.5, teachers=()):
    if teachers:
        model.learn_from(teachers)
    model.compile(keras.optimizers.SGD(1.0), LabelSmoothedCrossEntropy(0.1, distillation=share))
    return model


def sentences():
    inputs = {"source": np.random.randint(4, V, (B, S)), "target": np.random.randint(4, V, (B, T))}
    return inputs, np.random.randint(1, V, (B, T))


def test_a_step_is_towards_the_mean_of_the_teachers_without_their_dropout():
    inputs, labels = sentences()
    # Their sizes are their own.
    teachers = [build(num_layers=3, dropout=0.5), build(dropout=0.5)]
    before = [teacher.get_weights() for teacher in teachers]
    model = build(num_layers=2)
    taught = sum(as_array(ops.softmax(teacher(inputs))) for teacher in teachers) / 2
    expected = dense_loss(labels, as_array(model(inputs)), taught, 0.1, 0.3)
    received = compiled(model, 0.3, teachers).train_on_batch(inputs, labels)
    assert received == pytest.approx(float(expected), rel=1e-5)
    for teacher, weights in zip(teachers, before, strict=True):
        for old, new in zip(weights, teacher.get_weights(), strict=True):
            assert np.array_equal(old, new)


def test_a_student_comes_to_predict_what_its_teacher_does():
    inputs, labels = sentences()
    teacher, student = build(num_layers=2), build()
    expected = as_array(ops.softmax(teacher(inputs)))

    def distance():
        return np.abs(as_array(ops.softmax(student(inputs))) - expected).max()

    before = distance()
    student.learn_from([teacher])
    student.compile(keras.optimizers.Adam(0.01), LabelSmoothedCrossEntropy(distillation=1.0))
    student.fit(inputs, labels, epochs=200, verbose=0)
    assert distance() < before / 4


def test_teachers_may_change_between_trainings():
    inputs, labels = sentences()
    one, other, model = build(), build(), build()
    before = model.get_weights()

    def loss():
        model.set_weights(before)
        return model.fit(inputs, labels, verbose=0).history["loss"][0]

    compiled(model, 1.0, [one])
    first = loss()
    model.learn_from([other])
    second = loss()
    assert abs(second - first) > 1e-3
    compiled(model, 1.0, [other])
    assert loss() == pytest.approx(second, rel=1e-6)


def test_a_validation_needs_no_teachers():
    inputs, labels = sentences()
    model = build()
    model.compile(loss=LabelSmoothedCrossEntropy(0.1))
    expected = model.evaluate(inputs, labels, verbose=0)
    model.compile(loss=LabelSmoothedCrossEntropy(0.1, distillation=0.5))
    assert model.evaluate(inputs, labels, verbose=0) == pytest.approx(expected, rel=1e-6)


def test_teachers_are_no_part_of_the_model_and_not_saved():
    model, teacher = build(), build()
    paths = [weight.path for weight in model.weights]
    model.learn_from([teacher])
    assert [weight.path for weight in model.weights] == paths
    copy = saved_and_loaded(model)
    assert len(copy.weights) == len(paths)


def test_without_teachers_the_loss_says_what_is_missing():
    inputs, labels = sentences()
    with pytest.raises(ValueError, match=r"distillation=0.5 needs teachers.*Call learn_from"):
        compiled(build()).train_on_batch(inputs, labels)


def test_other_vocabularies_are_refused():
    with pytest.raises(ValueError, match=r"has 7 and 7 subwords; received 2 with .*\(8, 8\)"):
        build().learn_from([build(), build(vocab_size=8)])
    with pytest.raises(ValueError, match="received 0 with"):
        build().learn_from([])
