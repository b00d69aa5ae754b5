import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import beam_search, greedy_search, sample_search, score_tokens
from keras_transformer.decoding.styles import length_penalty
from tests.helpers.search_trees import prefix_number, random_trees, search


def test_alpha_is_the_exponent_of_the_length():
    np.testing.assert_allclose(length_penalty([[1, 7, 19]], alpha=0.5), [[1, 2**0.5, 2]])
    np.testing.assert_allclose(length_penalty([1, 7, 19], alpha=1.0), [1, 2, 4])
    assert length_penalty(1, alpha=0.6).numpy() == 1.0
    np.testing.assert_array_equal(length_penalty([1, 50], alpha=0.0), [1, 1])


def test_a_penalty_depends_only_on_its_length():
    lengths = tf.range(1, 80)
    together = length_penalty(lengths, alpha=0.6)
    alone = [length_penalty(length, alpha=0.6) for length in lengths]
    np.testing.assert_array_equal(together, alone)
    in_graph = tf.function(lambda lengths: length_penalty(lengths, alpha=0.6))(lengths)
    np.testing.assert_array_equal(together, in_graph)


def test_a_score_is_the_log_probability_over_the_penalty_of_the_length():
    half, quarter = np.log([0.5, 0.25])
    log_probs = np.full([2, 3, 5], -9.0, np.float32)
    log_probs[0, [0, 1, 2], [4, 1, 3]] = half, quarter, half  # labels 4 1 3
    log_probs[1, 0, 3] = quarter  # label 3, then padding
    scores = score_tokens(log_probs, [[4, 1, 3], [3, 0, 0]], length_penalty=1.0)
    np.testing.assert_allclose(scores, [np.log(0.0625) / (8 / 6), quarter], rtol=1e-6)


def test_padding_neither_counts_nor_adds():
    log_probs = np.log(np.full([1, 2, 4], 0.25, np.float32))
    longer = np.concatenate([log_probs, np.full([1, 1, 4], -np.inf, np.float32)], axis=1)
    np.testing.assert_array_equal(
        score_tokens(longer, [[1, 3, 0]]), score_tokens(log_probs, [[1, 3]])
    )


def test_a_row_of_padding_scores_0():
    assert score_tokens(np.full([1, 2, 4], -1.0, np.float32), [[0, 0]]).numpy() == 0.0


@pytest.mark.parametrize("beam_size", [None, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_the_score_equals_that_of_the_search(beam_size, alpha):
    trees = random_trees(seed=0, batch=4, vocab_size=6, max_length=5)
    # Without padding the id 0 is a token like any other.
    result = search(
        trees, beam_size=beam_size, max_lengths=[5, 2, 4, 5], length_penalty=alpha, pad_id=-1
    )
    best = result.ids[:, 0].numpy()
    log_probs = [
        [tree[prefix_number(ids[:t], 6) % len(tree)] for t in range(len(ids))]
        for tree, ids in zip(trees, np.maximum(best, 0), strict=True)
    ]
    labels = np.where(best == -1, 9, best)
    scores = score_tokens(
        np.pad(log_probs, [(0, 0), (0, 0), (0, 4)]), labels, length_penalty=alpha, pad_id=9
    )
    np.testing.assert_allclose(scores, result.scores[:, 0], rtol=1e-6)


@pytest.mark.parametrize(
    "use",
    [
        lambda alpha: length_penalty(1, alpha),
        lambda alpha: score_tokens(np.zeros([1, 1, 4], np.float32), [[3]], alpha),
        lambda alpha: greedy_search(None, (), max_lengths=[1], length_penalty=alpha),
        lambda alpha: beam_search(None, (), max_lengths=[1], length_penalty=alpha),
        lambda alpha: sample_search(None, (), max_lengths=[1], keys=[0], length_penalty=alpha),
    ],
    ids=["penalty", "score", "greedy", "beam", "samples"],
)
def test_a_negative_length_penalty_is_rejected(use):
    with pytest.raises(ValueError, match="length_penalty must be at least 0, received -0.5"):
        use(-0.5)
