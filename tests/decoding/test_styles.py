"""The searches of Marian and of Hugging Face, against a few lines of Python for each."""

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.styles import STYLES, get_style

EOS, V, LIMIT = 3, 5, 5


def extend(tree, live, number):
    """Return all continuations of live beams by one token, best first."""
    return sorted(
        (
            (log_prob + tree[number(ids, V), token], (*ids, token))
            for log_prob, ids in live
            for token in range(V)
        ),
        reverse=True,
    )


def search_like_marian(tree, alpha, beam_size, number):
    live, finished = [(0.0, ())], []
    for length in range(1, LIMIT + 1):
        candidates = extend(tree, live, number)[: beam_size - len(finished)]
        ends = [each for each in candidates if each[1][-1] == EOS or length == LIMIT]
        finished += [(log_prob / length**alpha, ids) for log_prob, ids in ends]
        live = [each for each in candidates if each not in ends]
    return sorted(finished, reverse=True)


def search_like_transformers(tree, alpha, beam_size, number):
    live, finished = [(0.0, ())], []
    for length in range(1, LIMIT + 1):
        candidates = extend(tree, live, number)[: 2 * beam_size]
        if length == LIMIT:
            candidates = [(log_prob, (*ids, EOS)) for log_prob, ids in live]
        ends = [each for each in candidates[:beam_size] if each[1][-1] == EOS]
        finished += [(log_prob / length**alpha, ids) for log_prob, ids in ends]
        finished = sorted(finished, reverse=True)[:beam_size]
        live = [each for each in candidates if each[1][-1] != EOS][:beam_size]
        is_full = len(finished) == beam_size
        if is_full and live and live[0][0] / length**alpha <= finished[-1][0]:
            break
    return finished


@pytest.mark.parametrize("is_single", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("beam_size", [2, 4])
@pytest.mark.parametrize(
    ("style", "expected"),
    [("marian", search_like_marian), ("transformers", search_like_transformers)],
)
def test_the_n_best_are_those_of_a_search_in_python(
    style, expected, beam_size, alpha, is_single, search, random_trees, prefix_number
):
    trees = random_trees(
        seed=beam_size, batch=1 if is_single else 12, vocab_size=V, max_length=LIMIT
    )
    found = search(
        trees,
        beam_size=beam_size,
        max_lengths=[LIMIT] * len(trees),
        length_penalty=alpha,
        num_hypotheses=beam_size,
        style=style,
        pad_id=-1,
        single_sentence=is_single,
    )
    for tree, ids, scores in zip(trees, found.ids.numpy(), found.scores.numpy(), strict=True):
        best = expected(tree, alpha, beam_size, prefix_number)
        rows = [tuple(token for token in row if token != -1) for row in ids.tolist()]
        assert rows[: len(best)] == [row for _, row in best]
        np.testing.assert_allclose(scores[: len(best)], [score for score, _ in best], rtol=1e-5)


def test_greedy_search_of_transformers_ends_at_its_limit_at_no_cost(search, tree):
    probabilities = tree({(): [0.1, 0.6, 0.2, 0.1], (1,): [0.2, 0.5, 0.2, 0.1]})
    options = {"max_lengths": [2], "length_penalty": 0.0}
    found = search(probabilities[np.newaxis], style="transformers", **options)
    assert found.ids.numpy().tolist() == [[[1, EOS]]]
    assert np.exp(found.scores.numpy().item()) == pytest.approx(0.6)
    found = search(probabilities[np.newaxis], style="paper", **options)
    assert found.ids.numpy().tolist() == [[[1, 1]]]
    assert np.exp(found.scores.numpy().item()) == pytest.approx(0.3)


@pytest.mark.parametrize("beam_size", [None, 2])
@pytest.mark.parametrize("single_sentence", [False, True])
def test_the_probability_of_excluded_tokens_counts(beam_size, single_sentence, search, tree):
    probabilities = tree({(): [0.5, 0.1, 0.1, 0.3]})
    excluded = tf.constant([-1e9, 0.0, 0.0, 0.0])
    options = {"single_sentence": single_sentence} if beam_size else {}
    found = search(
        probabilities[np.newaxis],
        beam_size=beam_size,
        max_lengths=[1],
        length_penalty=0.0,
        excluded=excluded,
        **options,
    )
    assert found.ids.numpy().tolist() == [[[EOS]]]
    assert np.exp(found.scores.numpy().item()) == pytest.approx(0.3)


def test_an_unknown_style_is_refused():
    with pytest.raises(ValueError, match="style must be one of paper, marian, transformers"):
        get_style("moses")
    assert set(STYLES) == {"paper", "marian", "transformers"}
