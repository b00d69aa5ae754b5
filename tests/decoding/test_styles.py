"""The styles of beam search, each compared with a search in a few lines of Python."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.rules import min_length, repetition_penalty
from keras_transformer.decoding.styles import STYLES, get_style
from tests.helpers.search_trees import make_tree, prefix_number, random_trees, search

EOS = 3


def extend(tree, live, number):
    """Return all continuations of live beams by one token, best first."""
    vocab_size = tree.shape[1]
    return sorted(
        (
            (log_prob + tree[number(ids, vocab_size), token], (*ids, token))
            for log_prob, ids in live
            for token in range(vocab_size)
        ),
        reverse=True,
    )


def search_like_the_paper(tree, limit, alpha, beam_size, number):
    """Search to the limit: stopping early must not change the result."""
    live, finished = [(0.0, ())], []
    for length in range(1, limit + 1):
        candidates = extend(tree, live, number)[: 2 * beam_size]
        penalty = ((5 + length) / 6) ** alpha
        finished += [(log_prob / penalty, ids) for log_prob, ids in candidates if ids[-1] == EOS]
        live = [each for each in candidates if each[1][-1] != EOS][:beam_size]
    return sorted(finished, reverse=True) + [(log_prob / penalty, ids) for log_prob, ids in live]


def search_like_marian(tree, limit, alpha, beam_size, number):
    live, finished = [(0.0, ())], []
    for length in range(1, limit + 1):
        candidates = extend(tree, live, number)[: beam_size - len(finished)]
        ends = [each for each in candidates if each[1][-1] == EOS or length == limit]
        finished += [(log_prob / length**alpha, ids) for log_prob, ids in ends]
        live = [each for each in candidates if each not in ends]
    return sorted(finished, reverse=True)


def search_like_transformers(tree, limit, alpha, beam_size, number, stops_when_full=False):
    live, finished = [(0.0, ())], []
    for length in range(1, limit + 1):
        candidates = extend(tree, live, number)[: 2 * beam_size]
        if length == limit:
            candidates = [(log_prob, (*ids, EOS)) for log_prob, ids in live]
        ends = [each for each in candidates[:beam_size] if each[1][-1] == EOS]
        finished += [(log_prob / length**alpha, ids) for log_prob, ids in ends]
        finished = sorted(finished, reverse=True)[:beam_size]
        live = [each for each in candidates if each[1][-1] != EOS][:beam_size]
        is_full = len(finished) == beam_size
        if is_full and stops_when_full:
            break
        if is_full and live and live[0][0] / length**alpha <= finished[-1][0]:
            break
    return finished


SEARCHES = {
    "paper": search_like_the_paper,
    "marian": search_like_marian,
    "transformers": search_like_transformers,
    "transformers_early": functools.partial(search_like_transformers, stops_when_full=True),
}
# The last two beams hold every translation: their search is exhaustive.
CASES = [(style, (5, 5), n) for style in SEARCHES for n in (2, 3, 4)]
CASES += [("paper", (4, 4), 3**3 * 4 // 2), ("paper", (5, 3), 4**2 * 5 // 2)]


@pytest.mark.parametrize("is_single", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("style", "sizes", "beam_size"), CASES)
def test_the_n_best_are_those_of_a_search_in_python(style, sizes, beam_size, alpha, is_single):
    vocab_size, limit = sizes
    trees = random_trees(beam_size, 1 if is_single else 12, vocab_size, limit)
    limits = [limit - i % limit for i in range(len(trees))]
    options = {"length_penalty": alpha, "style": style, "single_sentence": is_single}
    for count in {1, min(beam_size, 7)}:
        found = search(
            trees,
            beam_size=beam_size,
            max_lengths=limits,
            num_hypotheses=count,
            pad_id=-1,
            **options,
        )
        for i, tree in enumerate(trees):
            best = SEARCHES[style](tree, limits[i], alpha, beam_size, prefix_number)[:count]
            rows = [tuple(token for token in row if token != -1) for row in found.ids[i].numpy()]
            scores = found.scores[i, : len(best)]
            assert rows[: len(best)] == [ids for _, ids in best]
            np.testing.assert_allclose(scores, [score for score, _ in best], rtol=1e-5)


def test_greedy_search_of_transformers_ends_at_its_limit_at_no_cost():
    probabilities = make_tree({(): [0.1, 0.6, 0.2, 0.1], (1,): [0.2, 0.5, 0.2, 0.1]})
    for style, ids, probability in (("transformers", [1, EOS], 0.6), ("paper", [1, 1], 0.3)):
        found = search([probabilities], style=style, max_lengths=[2], length_penalty=0.0)
        assert found.ids.numpy().tolist() == [[ids]]
        assert np.exp(found.scores.numpy().item()) == pytest.approx(probability)


@pytest.mark.parametrize("single_sentence", [False, True])
@pytest.mark.parametrize(("style", "probability"), [("transformers", 0.3), ("paper", 0.6 * 0.6)])
def test_what_a_ban_takes_goes_to_others_except_in_transformers(
    style, probability, single_sentence
):
    tree = make_tree({(): [0.1, 0.3, 0.1, 0.5], (1,): [0.1, 0.2, 0.1, 0.6]})
    options = {"beam_size": 2, "length_penalty": 0.0, "single_sentence": single_sentence}
    found = search([tree], max_lengths=[2], rules=[min_length(1)], style=style, **options)
    assert found.ids.numpy().tolist() == [[[1, EOS]]]
    assert np.exp(found.scores.numpy().item()) == pytest.approx(probability)


@pytest.mark.parametrize("single_sentence", [False, True])
@pytest.mark.parametrize(("style", "probability"), [("transformers", 0.18), ("paper", 0.24)])
def test_beams_of_transformers_have_a_penalty_on_log_probabilities(
    style, probability, single_sentence
):
    tree = make_tree({(): [0.1, 0.6, 0.2, 0.1], (1,): [0.1, 0.5, 0.1, 0.3]})
    options = {"beam_size": 2, "length_penalty": 0.0, "single_sentence": single_sentence}
    options |= {"max_lengths": [3], "rules": [repetition_penalty(2.0)], "style": style}
    found = search([tree], **options)
    assert found.ids.numpy().tolist() == [[[1, EOS]]]
    assert np.exp(found.scores.numpy().item()) == pytest.approx(probability)  # 0.3 / 0.75 is 0.4.
    # Logits say the same with any constant, unless a rule is applied to them.
    moved = search([tree + 5], **options).scores.numpy().item()
    assert (moved == pytest.approx(np.log(probability))) == (style == "transformers")


@pytest.mark.parametrize("beam_size", [None, 2])
@pytest.mark.parametrize("single_sentence", [False, True])
def test_the_probability_of_excluded_tokens_counts(beam_size, single_sentence):
    excluded = tf.constant([-1e9, 0.0, 0.0, 0.0])
    options = {"single_sentence": single_sentence} if beam_size else {}
    options |= {"beam_size": beam_size, "max_lengths": [1], "length_penalty": 0.0}
    found = search([make_tree({(): [0.5, 0.1, 0.1, 0.3]})], excluded=excluded, **options)
    assert found.ids.numpy().tolist() == [[[EOS]]]
    assert np.exp(found.scores.numpy().item()) == pytest.approx(0.3)


def test_an_unknown_style_is_refused():
    with pytest.raises(ValueError, match="style must be one of paper, marian, transformers"):
        get_style("moses")
    assert set(STYLES) == set(SEARCHES)
