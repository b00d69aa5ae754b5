"""Distillation: a loss against teachers' predictions, and a model that trains on it."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy, distilled_cross_entropy, token_mean
from keras_transformer.training.model import TrainingTransformer
from tests.helpers.layer_checks import as_array, randomize, saved_and_loaded, value_and_gradient

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


def distilled_loss(labels, logits, taught, epsilon, share):
    return token_mean(distilled_cross_entropy(labels, logits, taught, epsilon, share), labels)


def test_one_token_by_hand():
    # Probabilities 1/2, 1/4, 1/4. The label is the first, the teachers see 1/2 in each other one.
    logits, taught = np.log([[[2.0, 1.0, 1.0]]]), np.array([[[0.0, 0.5, 0.5]]])
    value = distilled_cross_entropy(np.array([[0]]), ops.array(logits), taught, share=0.25)
    assert float(value[0, 0]) == pytest.approx(0.75 * math.log(2) + 0.25 * math.log(4))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_value_and_gradient_equal_the_dense_formula(epsilon, share):
    labels, logits, taught = batch()
    value, gradient = value_and_gradient(
        lambda x: distilled_loss(labels, x, taught, epsilon, share), logits
    )
    dense, dense_gradient = value_and_gradient(
        lambda x: dense_loss(labels, x, taught, epsilon, share), logits
    )
    assert value == pytest.approx(dense, rel=1e-5)
    np.testing.assert_allclose(gradient, dense_gradient, atol=1e-6)


def test_where_the_student_agrees_with_its_only_teacher_there_is_nothing_to_learn():
    labels, logits, _ = batch()
    taught = as_array(ops.softmax(logits))
    gradient = value_and_gradient(
        lambda x: distilled_loss(labels, x, taught, 0.1, share=1.0), logits
    )[1]
    np.testing.assert_allclose(gradient, 0, atol=1e-6)


def test_no_gradient_goes_to_the_teachers():
    labels, logits, _ = batch()
    taught = as_array(ops.softmax(2 * logits))
    gradient, expected = (
        value_and_gradient(lambda x, t=t: distilled_loss(labels, x, t(x), 0.1, 0.5), logits)[1]
        for t in (lambda x: ops.softmax(2 * x), lambda x: taught)
    )
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def build(num_layers=1, vocab_size=V, dropout=0.0, **training):
    sizes = {"num_layers": num_layers, "d_model": 8, "d_ff": 11, "num_heads": 2}
    config = TransformerConfig(vocab_size, dropout=dropout, **sizes)
    model = TrainingTransformer(config, **training) if training else Transformer(config)
    randomize(model)
    return model


def compiled(model, optimizer=None):
    model.compile(optimizer or keras.optimizers.SGD(1.0), LabelSmoothedCrossEntropy(0.1))
    return model


def sentences():
    inputs = {"source": np.random.randint(4, V, (B, S)), "target": np.random.randint(4, V, (B, T))}
    return inputs, np.random.randint(1, V, (B, T))


@pytest.mark.slow
def test_a_step_is_towards_the_mean_of_the_teachers_without_their_dropout():
    inputs, labels = sentences()
    # Their sizes are their own.
    teachers = [build(num_layers=3, dropout=0.5), build(dropout=0.5)]
    before = [teacher.get_weights() for teacher in teachers]
    model = build(num_layers=2, teachers=teachers, distillation=0.3)
    taught = sum(as_array(ops.softmax(teacher(inputs))) for teacher in teachers) / 2
    expected = dense_loss(labels, as_array(model(inputs)), taught, 0.1, 0.3)
    logs = compiled(model).train_on_batch(inputs, labels, return_dict=True)
    assert logs["loss"] == pytest.approx(float(expected), rel=1e-5)
    for teacher, weights in zip(teachers, before, strict=True):
        for old, new in zip(weights, teacher.get_weights(), strict=True):
            assert np.array_equal(old, new)


@pytest.mark.slow
def test_a_student_comes_to_predict_what_its_teacher_does():
    inputs, labels = sentences()
    teacher = build(num_layers=2)
    student = build(teachers=[teacher], distillation=1.0)
    expected = as_array(ops.softmax(teacher(inputs)))

    def distance():
        return np.abs(as_array(ops.softmax(student(inputs))) - expected).max()

    before = distance()
    epoch = keras.tree.map_structure(lambda ids: np.tile(ids, (200, 1)), (inputs, labels))
    compiled(student, keras.optimizers.Adam(0.01)).fit(*epoch, batch_size=B, verbose=0)
    assert distance() < before / 4


def test_validation_uses_the_labels_alone():
    inputs, labels = sentences()
    model, teacher = build(), build()
    student = build(teachers=[teacher])
    student.set_weights(model.get_weights())
    expected = compiled(model).evaluate(inputs, labels, verbose=0)
    assert compiled(student).evaluate(inputs, labels, verbose=0) == pytest.approx(expected)


@pytest.mark.slow
def test_the_saved_file_is_a_plain_transformer_without_the_teachers():
    inputs, labels = sentences()
    model = compiled(build(teachers=[build(num_layers=2)]), keras.optimizers.Adam(0.01))
    paths = [[weight.path.split("/")[1:] for weight in x.weights] for x in (model, build())]
    assert paths[0] == paths[1]
    model.train_on_batch(inputs, labels)
    copy = saved_and_loaded(model)
    assert type(copy) is Transformer
    assert int(copy.optimizer.iterations) == 1
    np.testing.assert_array_equal(as_array(copy(inputs)), as_array(model(inputs)))


def test_other_vocabularies_are_refused():
    with pytest.raises(ValueError, match=r"of 7 and 7 tokens; received teachers with .*\(8, 8\)"):
        build(teachers=[build(), build(vocab_size=8)])
