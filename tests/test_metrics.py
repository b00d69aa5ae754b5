import math

import keras
import numpy as np
import pytest

from keras_transformer.metrics import NegativeLogLikelihood, Perplexity, TokenAccuracy

METRICS = pytest.mark.parametrize(
    "metric_class", [NegativeLogLikelihood, Perplexity, TokenAccuracy]
)


def logits_for(probabilities):
    """Return logits [1, T, 3] that give id 1 these probabilities and id 2 the rest."""
    p = np.array(probabilities)
    return np.log(np.stack([np.full_like(p, 1e-9), p, 1 - p], axis=-1))[None]


# A batch of three tokens with probabilities 1/2, 1/2 and 1/8, then one of a single token with 1/4.
# The mean over tokens is (1 + 1 + 3 + 2) / 4 = 7/4 bits; the mean over batches would be 11/6.
BATCHES = [
    (np.array([[1, 2, 1, 0]]), logits_for([0.5, 0.5, 0.125, 0.9])),
    (np.array([[1, 0, 0, 0]]), logits_for([0.25, 0.9, 0.9, 0.9])),
]
BITS = 7 / 4


def updated(metric, **arguments):
    for labels, logits in BATCHES:
        metric.update_state(labels, logits, **arguments)
    return metric


def test_negative_log_likelihood_is_a_mean_over_tokens():
    result = updated(NegativeLogLikelihood()).result()
    assert float(result) == pytest.approx(BITS * math.log(2))


def test_perplexity_is_the_exponential_of_the_mean_over_tokens():
    assert float(updated(Perplexity()).result()) == pytest.approx(2**BITS)


def test_accuracy_is_a_mean_over_tokens():
    metric = TokenAccuracy()
    metric.update_state(np.array([[1, 2, 1, 0]]), logits_for([0.6, 0.3, 0.2, 0.9]))  # 2 of 3
    metric.update_state(np.array([[1, 0, 0, 0]]), logits_for([0.7, 0.9, 0.9, 0.9]))  # 1 of 1
    assert float(metric.result()) == pytest.approx(3 / 4)


def test_sentence_weights_count_as_so_many_copies():
    metric = NegativeLogLikelihood()
    labels = np.array([[1, 0], [1, 1]])
    logits = np.concatenate([logits_for([0.5, 0.9]), logits_for([0.25, 0.125])])
    metric.update_state(labels, logits, sample_weight=np.array([3.0, 1.0]))
    # Three times 1 bit, once 2 and 3 bits, over 3 + 2 tokens.
    assert float(metric.result()) == pytest.approx((3 * 1 + 2 + 3) / 5 * math.log(2))


@METRICS
def test_reset_forgets_everything(metric_class):
    metric = metric_class()
    metric.update_state(np.array([[2, 2]]), logits_for([0.9, 0.7]))
    metric.reset_state()
    assert float(updated(metric).result()) == float(updated(metric_class()).result())


@pytest.mark.parametrize(
    ("metric_class", "nothing"), [(NegativeLogLikelihood, 0), (Perplexity, 1), (TokenAccuracy, 0)]
)
def test_without_tokens_the_result_is_finite(metric_class, nothing):
    metric = metric_class()
    metric.update_state(np.array([[0, 0]]), logits_for([0.9, 0.7]))
    assert float(metric.result()) == nothing


@METRICS
def test_low_precision_logits_are_summed_in_float32(metric_class):
    metric = metric_class()
    logits = keras.ops.cast(logits_for([0.5, 0.25] * 600), "float16")
    metric.update_state(np.ones((1, 1_200), "int32"), logits)
    expected = {"nll": 1.5 * math.log(2), "perplexity": 2**1.5, "accuracy": 0.5}[metric.name]
    # The logarithms are rounded to 11 bits; a sum above 2,048 in float16 would no longer grow.
    assert float(metric.result()) == pytest.approx(expected, rel=2e-3)


@METRICS
def test_serialization(metric_class):
    config = keras.saving.serialize_keras_object(metric_class(name="mine"))
    copy = keras.saving.deserialize_keras_object(config)
    assert type(copy) is metric_class
    assert copy.name == "mine"
