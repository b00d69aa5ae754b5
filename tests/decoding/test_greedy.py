import numpy as np
import tensorflow as tf

from keras_transformer.decoding import greedy_search
from tests.helpers.search_trees import make_tree, search, translations

EOS = 3


def probable(token, probability=0.7):
    """Return the probabilities of 4 tokens: one given, the others equal."""
    return [probability if i == token else (1 - probability) / 3 for i in range(4)]


def count_steps(log_probs):
    calls = []

    def step(ids, parents, position, state):
        calls.append((ids.numpy().tolist(), int(position)))
        return tf.constant(log_probs, tf.float32), state

    return step, calls


def test_greedy_search_takes_the_most_probable_token_after_each_prefix():
    probabilities = {(): probable(1), (1,): probable(2, 0.4), (1, 2): probable(EOS, 0.9)}
    result = search([make_tree(probabilities)], max_lengths=[9])
    assert translations(result) == [[1, 2, EOS]]
    np.testing.assert_allclose(result.scores, [[np.log(0.7 * 0.4 * 0.9)]], rtol=1e-6)


def test_the_length_penalty_divides_the_score():
    one_token = search([make_tree({(): probable(EOS)})], max_lengths=[9], length_penalty=1.0)
    np.testing.assert_allclose(one_token.scores, [[np.log(0.7)]], rtol=1e-6)
    probabilities = {(): probable(1), (1,): probable(EOS)}
    two_tokens = search([make_tree(probabilities)], max_lengths=[9], length_penalty=1.0)
    np.testing.assert_allclose(two_tokens.scores, [[np.log(0.49) / (7 / 6)]], rtol=1e-6)


def test_each_sentence_keeps_its_limit_and_is_padded():
    endless = make_tree({prefix: probable(1) for prefix in [(), (1,), (1, 1), (1, 1, 1)]})
    trees = [endless, endless, np.broadcast_to(make_tree({(): probable(EOS)})[1], endless.shape)]
    result = search(np.stack(trees), max_lengths=[2, 4, 4])
    assert result.ids.numpy().tolist() == [[[1, 1, 0, 0]], [[1, 1, 1, 1]], [[EOS, 0, 0, 0]]]
    assert result.lengths.numpy().tolist() == [[2], [4], [1]]
    np.testing.assert_allclose(result.scores[:, 0], np.log([0.7**2, 0.7**4, 0.7]), rtol=1e-6)


def test_a_search_stops_when_every_sentence_is_finished():
    step, calls = count_steps([np.log(probable(EOS)), np.log(probable(1))])
    result = greedy_search(step, (), max_lengths=[50, 3])
    assert [position for _, position in calls] == [0, 1, 2]
    assert result.ids.shape == (2, 1, 3)


def test_a_step_receives_bos_and_then_the_chosen_tokens():
    step, calls = count_steps([np.log(probable(1)), np.log(probable(0))])
    greedy_search(step, (), max_lengths=[2, 2])
    assert calls == [([2, 2], 0), ([1, 0], 1)]


def test_the_lowest_of_equally_probable_ids_wins():
    assert translations(search([make_tree({(): [0.25] * 4})], max_lengths=[1])) == [[0]]
