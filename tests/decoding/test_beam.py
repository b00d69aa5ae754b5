import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import beam_search, repeat_rows

EOS = 3


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def rank(finished, unfinished, count):
    """Return the best ids: finished ones by score, then unfinished ones by log-probability."""
    ranked = sorted(finished, reverse=True) + sorted(unfinished, reverse=True)
    return [list(ids) for _, ids in ranked[:count]]


def search_exhaustively(tree, max_length, alpha, count, number):
    vocab_size = tree.shape[1]
    others = [token for token in range(vocab_size) if token != EOS]
    finished, unfinished = [], []
    for length in range(1, max_length + 1):
        for start in itertools.product(others, repeat=length - 1):
            for last in range(vocab_size):
                ids = (*start, last)
                log_prob = sum(tree[number(ids[:i], vocab_size), ids[i]] for i in range(length))
                if last == EOS:
                    finished.append((log_prob / penalty(length, alpha), ids))
                elif length == max_length:
                    unfinished.append((log_prob, ids))
    return rank(finished, unfinished, count)


def search_to_the_limit(tree, max_length, alpha, beam_size, count, number):
    """Run beam search in plain Python, without early stopping."""
    vocab_size = tree.shape[1]
    live, finished = [(0.0, ())], []
    for length in range(1, max_length + 1):
        candidates = [
            (log_prob + tree[number(ids, vocab_size), token], (*ids, token))
            for log_prob, ids in live
            for token in range(vocab_size)
        ]
        candidates = sorted(candidates, reverse=True)[: 2 * beam_size]
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][:beam_size]
        finished += [
            (log_prob / penalty(length, alpha), ids)
            for log_prob, ids in candidates
            if ids[-1] == EOS
        ]
    return rank(finished, live, count)


def constant_step(probabilities):
    """Return a step with the same probabilities after every prefix, and the positions it gets."""
    positions = []

    def step(ids, parents, position, state):
        positions.append(int(position))
        log_probs = tf.math.log(tf.constant([probabilities]))
        return tf.repeat(log_probs, tf.shape(ids)[0], axis=0), state

    return step, positions


# A garden path: greedy search starts with 1, which leads to less probable tokens.
GARDEN_PATH = {
    (): [0.1, 0.5, 0.4, 0.0],
    (0,): [0.25, 0.25, 0.25, 0.25],
    (1,): [0.34, 0.16, 0.2, 0.3],
    (2,): [0.05, 0.05, 0.0, 0.9],
}
# One token has log-probability -1.204; two have -1.386, or -1.188 after a penalty of 7 / 6.
SHORT_OR_LONG = {(): [0.1, 0.5, 0.1, 0.3], (1,): [0.2, 0.2, 0.1, 0.5]}


def test_a_second_beam_avoids_the_garden_path(search, tree, translations):
    result = search(
        [tree(GARDEN_PATH)], beam_size=2, max_lengths=[2], length_penalty=0.0, num_hypotheses=2
    )
    assert translations(result) == [[2, EOS], [1, EOS]]
    np.testing.assert_allclose(np.exp(result.scores), [[0.36, 0.15]], rtol=1e-6)
    assert translations(search([tree(GARDEN_PATH)], max_lengths=[2])) == [[1, 0]]


def test_the_length_penalty_decides_between_short_and_long(search, tree, translations):
    def best(alpha):
        result = search([tree(SHORT_OR_LONG)], beam_size=2, max_lengths=[2], length_penalty=alpha)
        return translations(result)[0], result.scores.numpy().item()

    assert best(0.0) == ([EOS], pytest.approx(np.log(0.3)))
    assert best(1.0) == ([1, EOS], pytest.approx(np.log(0.25) / (7 / 6)))


def test_a_finished_translation_keeps_its_score(search, tree, translations):
    # It is finished at the first step; the second translation follows at the fourth.
    probabilities = {
        (): [0.0001, 0.5999, 0.0, 0.4],
        (1,): [0.001, 0.999, 0.0, 0.0],
        (1, 1): [0.001, 0.999, 0.0, 0.0],
        (1, 1, 1): [0.05, 0.05, 0.0, 0.9],
    }
    result = search(
        [tree(probabilities)],
        beam_size=2,
        max_lengths=[4],
        length_penalty=0.0,
        num_hypotheses=2,
    )
    assert translations(result) == [[1, 1, 1, EOS], [EOS]]
    np.testing.assert_allclose(
        np.exp(result.scores), [[0.5999 * 0.999 * 0.999 * 0.9, 0.4]], rtol=1e-6
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize(("vocab_size", "max_length"), [(4, 4), (5, 3)])
def test_a_beam_of_everything_is_exhaustive_search(
    vocab_size, max_length, alpha, search, random_trees, prefix_number, translations
):
    trees = random_trees(1, 8, vocab_size, max_length)
    beam_size = (vocab_size - 1) ** (max_length - 1) * vocab_size // 2  # 2N hold every candidate
    for count in (1, 7):
        result = search(
            trees,
            beam_size=beam_size,
            max_lengths=[max_length] * 8,
            length_penalty=alpha,
            num_hypotheses=count,
        )
        for i, tree in enumerate(trees):
            expected = search_exhaustively(tree, max_length, alpha, count, prefix_number)
            assert translations(result, i) == expected


@pytest.mark.parametrize("beam_size", [2, 3, 4])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_stopping_early_never_changes_the_result(
    beam_size, alpha, search, random_trees, prefix_number, translations
):
    trees = random_trees(2, 20, 6, 5)
    limits = [1 + i % 5 for i in range(20)]
    for count in (1, beam_size):
        result = search(
            trees,
            beam_size=beam_size,
            max_lengths=limits,
            length_penalty=alpha,
            num_hypotheses=count,
        )
        for i, (tree, limit) in enumerate(zip(trees, limits, strict=True)):
            expected = search_to_the_limit(tree, limit, alpha, beam_size, count, prefix_number)
            assert translations(result, i) == expected


def test_a_search_stops_as_soon_as_no_beam_can_improve_the_result():
    # Eos at the first step has 0.6. The best live beam has 0.2, and can only fall.
    step, positions = constant_step([0.1, 0.2, 0.1, 0.6])
    result = beam_search(step, (), max_lengths=[50], beam_size=2, length_penalty=0.0)
    assert positions == [0]
    assert result.ids.numpy().tolist() == [[[EOS]]]


def test_a_search_goes_on_while_the_penalty_can_favor_longer_translations():
    # After t tokens the best live beam has log(0.2) * t, and the penalty at the limit is 2: it goes
    # on while -1.61 * t / 2 is above log(0.6) = -0.51, which is never, or log(0.15) = -1.90: twice.
    for eos, steps in ((0.6, 1), (0.15, 3)):
        others = [(1 - 0.2 - eos) / 14] * 14
        step, positions = constant_step([0.2, *others[:2], eos, *others[2:]])
        beam_search(step, (), max_lengths=[7], beam_size=2, length_penalty=1.0)
        assert len(positions) == steps


def test_a_search_goes_on_until_all_requested_hypotheses_are_final():
    step, positions = constant_step([0.1, 0.2, 0.1, 0.6])
    result = beam_search(
        step, (), max_lengths=[50], beam_size=2, length_penalty=0.0, num_hypotheses=2
    )
    assert positions == [0, 1]
    assert result.ids.numpy().tolist() == [[[EOS, 0], [1, EOS]]]


def test_one_beam_is_greedy_search(search, random_trees):
    trees = random_trees(3, 7, 6, 5)
    limits = [5, 1, 2, 5, 4, 3, 5]
    beam = search(trees, beam_size=1, max_lengths=limits, length_penalty=0.6)
    greedy = search(trees, max_lengths=limits, length_penalty=0.6)
    for one, other in zip(beam, greedy, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_n_best_are_sorted_and_distinct(search, random_trees, translations):
    result = search(random_trees(4, 9, 6, 5), beam_size=4, max_lengths=[5] * 9, num_hypotheses=4)
    for i in range(9):
        assert len({tuple(ids) for ids in translations(result, i)}) == 4
        finished = [
            score
            for score, ids in zip(result.scores[i], translations(result, i), strict=True)
            if ids[-1] == EOS
        ]
        assert finished == sorted(finished, reverse=True)


def test_unfinished_translations_follow_the_finished_then_empty_ones(search, tree):
    # With a limit of one token, there is one finished translation and three others.
    result = search(
        [tree({(): [0.4, 0.3, 0.2, 0.1]})], beam_size=6, max_lengths=[1], num_hypotheses=6
    )
    assert result.ids.numpy()[0, :, 0].tolist() == [EOS, 0, 1, 2, 0, 0]
    assert result.lengths.numpy().tolist() == [[1, 1, 1, 1, 0, 0]]
    np.testing.assert_allclose(np.exp(result.scores[0, :4]), [0.1, 0.4, 0.3, 0.2], rtol=1e-6)
    assert result.scores.numpy()[0, 4:].tolist() == [-1e9, -1e9]


def test_unfinished_translations_have_the_length_of_their_limit():
    step, _ = constant_step([0.0, 0.6, 0.4, 0.0])
    result = beam_search(
        step, (), max_lengths=[3, 1], beam_size=2, length_penalty=1.0, num_hypotheses=2
    )
    assert result.ids.numpy().tolist() == [[[1, 1, 1], [1, 1, 2]], [[1, 0, 0], [2, 0, 0]]]
    assert result.lengths.numpy().tolist() == [[3, 3], [1, 1]]
    np.testing.assert_allclose(
        result.scores,
        [[np.log(0.216) * 6 / 8, np.log(0.144) * 6 / 8], np.log([0.6, 0.4])],
        rtol=1e-6,
    )


@pytest.mark.parametrize("beam_size", [None, 3])
def test_a_sentence_does_not_depend_on_the_batch(beam_size, search, random_trees):
    trees, limits = random_trees(5, 6, 6, 6), np.array([6, 1, 3, 6, 2, 5], np.int32)
    together = search(trees, beam_size=beam_size, max_lengths=limits)
    order = np.array([4, 2, 0, 5, 1, 3])
    permuted = search(trees[order], beam_size=beam_size, max_lengths=limits[order])
    np.testing.assert_array_equal(together.ids.numpy()[order], permuted.ids)
    # The last bit of a row's softmax may depend on its place in the batch.
    np.testing.assert_allclose(together.scores.numpy()[order], permuted.scores, rtol=1e-6)
    np.testing.assert_array_equal(together.lengths.numpy()[order], permuted.lengths)
    for i in range(6):
        alone = search(trees[i : i + 1], beam_size=beam_size, max_lengths=limits[i : i + 1])
        np.testing.assert_allclose(alone.scores[0], together.scores[i], rtol=1e-6)
        np.testing.assert_array_equal(alone.lengths[0], together.lengths[i])
        length = alone.ids.shape[2]
        np.testing.assert_array_equal(alone.ids[0], together.ids[i, :, :length])
        assert not together.ids[i, :, length:].numpy().any()


@pytest.mark.parametrize("beam_size", [None, 3])
def test_a_graph_returns_the_same_as_eager_execution(beam_size, search, random_trees):
    trees, limits = random_trees(6, 5, 6, 4), [4, 1, 4, 3, 2]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.int32)])
    def graph(max_lengths):
        return search(trees, beam_size=beam_size, max_lengths=max_lengths)

    eager = search(trees, beam_size=beam_size, max_lengths=limits)
    for one, other in zip(graph(tf.constant(limits)), eager, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_state_may_be_any_nest():
    def step(ids, parents, position, state):
        (log_probs,), counts = state
        return log_probs, ((log_probs,), {"steps": counts["steps"] + 1})

    log_probs = tf.math.log([[0.1, 0.2, 0.1, 0.6], [0.6, 0.1, 0.2, 0.1]])
    state = repeat_rows(((log_probs,), {"steps": tf.zeros([2, 3], tf.int32)}), 2)
    result = beam_search(step, state, max_lengths=[2, 2], beam_size=2, length_penalty=0.0)
    assert result.ids.numpy().tolist() == [[[EOS]], [[EOS]]]
    np.testing.assert_allclose(np.exp(result.scores), [[0.6], [0.1]], rtol=1e-6)


def test_special_ids_can_be_chosen():
    first_ids = []

    def step(ids, parents, position, state):
        first_ids.append(ids.numpy().tolist())
        return tf.math.log(
            tf.repeat([[0.1, 0.2, 0.6, 0.1], [0.1, 0.6, 0.2, 0.1]], 2, axis=0)
        ), state

    result = beam_search(
        step,
        (),
        max_lengths=[2, 2],
        beam_size=2,
        length_penalty=0.0,
        num_hypotheses=2,
        bos_id=7,
        eos_id=2,
        pad_id=9,
    )
    assert first_ids[0] == [7, 7, 7, 7]
    assert result.ids.numpy().tolist() == [[[2, 9], [1, 2]], [[2, 9], [1, 2]]]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
def test_an_empty_batch_has_an_empty_result(compiled):
    def search(max_lengths):
        return beam_search(
            lambda ids, parents, position, state: (tf.zeros([tf.shape(ids)[0], 6]), state),
            repeat_rows(tf.zeros([tf.shape(max_lengths)[0], 0]), 3),
            max_lengths=max_lengths,
            beam_size=3,
            num_hypotheses=2,
        )

    if compiled:
        search = tf.function(search, input_signature=[tf.TensorSpec([None], tf.int32)])
    result = search(tf.zeros([0], tf.int32))
    assert [tuple(tensor.shape) for tensor in result] == [(0, 2, 0), (0, 2), (0, 2)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, received 0"),
        ({"num_hypotheses": 0}, "num_hypotheses must be between 1 and beam_size=4, received 0"),
        ({"num_hypotheses": 5}, "num_hypotheses must be between 1 and beam_size=4, received 5"),
        ({"length_penalty": -0.1}, "length_penalty must be at least 0, received -0.1"),
    ],
)
def test_options_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        beam_search(None, (), max_lengths=[1], **options)


def test_an_unknown_option_is_rejected():
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_length'"):
        beam_search(None, (), max_lengths=[1], max_length=1)
