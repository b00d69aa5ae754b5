import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import greedy_search, repeat_rows, sample_search
from keras_transformer.decoding.rules import min_length
from keras_transformer.decoding.search import Stages

EOS, V = 3, 6


def make_step(trees):
    """Return a step over tables [B, V, V] of logits after each token; its state is the sentence."""
    trees = tf.constant(trees, tf.float32)

    def step(ids, parents, position, state):
        return tf.gather_nd(trees, tf.stack([state, ids], axis=1)), state

    return step


def tables(seed, batch):
    return np.random.default_rng(seed).normal(0, 1.5, [batch, V, V])


def sample(trees, *, num_samples=1, keys=None, max_lengths=None, **options):
    keys = range(len(trees)) if keys is None else keys
    max_lengths = [9] * len(trees) if max_lengths is None else max_lengths
    state = repeat_rows(tf.range(len(trees)), num_samples)
    return sample_search(
        make_step(trees),
        state,
        max_lengths=max_lengths,
        keys=list(keys),
        num_samples=num_samples,
        **options,
    )


def rows(result, sentence=0):
    ids, lengths = result.ids[sentence].numpy(), result.lengths[sentence].numpy()
    return [tuple(row[:length]) for row, length in zip(ids, lengths, strict=True)]


def shares(result):
    """Return the share of samples that start with each token."""
    first = result.ids.numpy()[:, :, 0].ravel()
    return np.bincount(first, minlength=V) / len(first)


def first_logits(probabilities):
    with np.errstate(divide="ignore"):
        return np.tile(np.maximum(np.log(probabilities), -1e9), (1, V, 1))


PROBABILITIES = [0.05, 0.2, 0.1, 0.4, 0.25, 0.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, PROBABILITIES),
        ({"temperature": 0.5}, np.square(PROBABILITIES) / np.square(PROBABILITIES).sum()),
        ({"top_k": 2}, [0, 0, 0, 0.4 / 0.65, 0.25 / 0.65, 0]),
        ({"top_k": 99}, PROBABILITIES),
        ({"top_p": 0.6}, [0, 0, 0, 0.4 / 0.65, 0.25 / 0.65, 0]),
        ({"top_p": 0.7}, [0, 0.2 / 0.85, 0, 0.4 / 0.85, 0.25 / 0.85, 0]),
        ({"top_p": 0.01}, [0, 0, 0, 1, 0, 0]),
        ({"top_k": 3, "top_p": 0.5}, [0, 0, 0, 0.4 / 0.65, 0.25 / 0.65, 0]),
    ],
)
def test_tokens_are_drawn_with_their_probabilities(options, expected):
    count = 4000
    result = sample(
        first_logits(PROBABILITIES), num_samples=count, max_lengths=[1], seed=7, **options
    )
    received, expected = shares(result), np.array(expected)
    assert not received[expected == 0].any()
    # Four standard deviations. The seed is fixed, so the result is reproducible.
    np.testing.assert_array_less(
        np.abs(received - expected), 4 * np.sqrt(expected * (1 - expected) / count) + 1e-9
    )


def test_tokens_of_one_translation_are_drawn_independently():
    trees = first_logits([0.5, 0.5, 0, 0, 0, 0])
    result = sample(trees, num_samples=4000, max_lengths=[3], seed=3)
    counts = np.unique(result.ids.numpy()[0], axis=0, return_counts=True)[1]
    assert len(counts) == 8
    assert np.abs(counts / 4000 - 1 / 8).max() < 4 * (1 / 8 * 7 / 8 / 4000) ** 0.5


def test_the_samples_of_a_sentence_do_not_depend_on_the_batch():
    trees, keys, limits = tables(1, 5), [11, -3, 2**62, 11, 0], [9, 4, 7, 9, 8]
    trees[3] = trees[0]
    together = sample(trees, keys=keys, max_lengths=limits, num_samples=3)
    for i in range(5):
        alone = sample(
            trees[i : i + 1], keys=keys[i : i + 1], max_lengths=limits[i : i + 1], num_samples=3
        )
        assert rows(alone) == rows(together, i)
        np.testing.assert_allclose(alone.scores[0], together.scores[i], atol=1e-6)
    assert rows(together, 0) == rows(together, 3)


def test_more_samples_include_the_fewer():
    few, many = (set(rows(sample(tables(2, 1), num_samples=n))) for n in (2, 8))
    assert few < many


def test_other_seeds_and_keys_draw_other_samples():
    trees = tables(3, 1)
    drawn = [rows(sample(trees, num_samples=4, seed=s, keys=[k])) for s in (0, 1) for k in (0, 1)]
    assert len({tuple(result) for result in drawn}) == 4
    assert rows(sample(trees, num_samples=4)) == drawn[0]


def test_scores_are_those_of_the_model_in_descending_order():
    trees = tables(4, 1)
    log_probs = trees[0] - np.log(np.exp(trees[0]).sum(-1, keepdims=True))
    result = sample(trees, num_samples=6, temperature=2.0, top_k=4, length_penalty=1.0)
    for row, score in zip(rows(result), result.scores[0].numpy(), strict=True):
        expected = sum(log_probs[a, b] for a, b in zip((2, *row[:-1]), row, strict=True))
        np.testing.assert_allclose(score, expected / ((5 + len(row)) / 6), rtol=1e-4)
        assert row[-1] == EOS or len(row) == 9
    assert np.all(np.diff(result.scores[0]) <= 0)


@pytest.mark.parametrize("options", [{"temperature": 0.001}, {"top_k": 1}, {"top_p": 1e-6}])
def test_the_sharpest_sampling_is_greedy_search(options):
    trees = tables(5, 4)
    limits = [9, 3, 9, 6]
    expected = greedy_search(make_step(trees), tf.range(4), max_lengths=limits)
    received = sample(trees, max_lengths=limits, **options)
    assert received.ids.numpy().tolist() == expected.ids.numpy().tolist()
    np.testing.assert_allclose(received.scores, expected.scores, atol=1e-5)


def test_sampling_follows_its_rules():
    result = sample(tables(6, 1), num_samples=50, rules=[min_length(4)])
    assert min(len(row) for row in rows(result)) == 5


@pytest.mark.parametrize("compiled", [False, True])
def test_a_graph_draws_the_same_as_eager_execution(compiled):
    trees = tables(8, 3)
    options = {"num_samples": 2, "top_k": 4, "top_p": 0.9}
    graph = tf.function(lambda: sample(trees, **options), autograph=False, jit_compile=compiled)
    if compiled:  # XLA needs fixed shapes.
        stages = Stages((4, 9), lambda state, size: state)
        graph = tf.function(
            lambda: sample(trees, stages=stages, **options), autograph=False, jit_compile=True
        )
    received, expected = graph(), sample(trees, **options)
    assert [rows(received, i) for i in range(3)] == [rows(expected, i) for i in range(3)]


def test_all_invalid_options_are_reported_together():
    with pytest.raises(ValueError) as error:
        sample(tables(9, 1), seed=-1, temperature=0.0, top_k=-1, top_p=0.0)
    message = str(error.value)
    for part in (
        "seed must be at least 0 and below 2 ** 64, received -1",
        "temperature must be between 0.001 and 100, received 0.0",
        "top_k must be at least 0, where 0 is all tokens, received -1",
        "top_p must be above 0 and at most 1, where 1 is all tokens, received 0.0",
    ):
        assert part in message
    with pytest.raises(ValueError, match="num_samples must be at least 1, received 0"):
        sample_search(None, None, max_lengths=[1], keys=[0], num_samples=0)
