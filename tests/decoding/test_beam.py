import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding import beam_search, greedy_search, repeat_rows, sample_search
from tests.helpers.search_trees import make_tree, random_trees, search, translations

EOS = 3


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


def test_a_second_beam_avoids_the_garden_path():
    result = search(
        [make_tree(GARDEN_PATH)], beam_size=2, max_lengths=[2], length_penalty=0.0, num_hypotheses=2
    )
    assert translations(result) == [[2, EOS], [1, EOS]]
    np.testing.assert_allclose(np.exp(result.scores), [[0.36, 0.15]], rtol=1e-6)
    assert translations(search([make_tree(GARDEN_PATH)], max_lengths=[2])) == [[1, 0]]


def test_the_length_penalty_decides_between_short_and_long():
    def best(alpha):
        result = search(
            [make_tree(SHORT_OR_LONG)], beam_size=2, max_lengths=[2], length_penalty=alpha
        )
        return translations(result)[0], result.scores.numpy().item()

    assert best(0.0) == ([EOS], pytest.approx(np.log(0.3)))
    assert best(1.0) == ([1, EOS], pytest.approx(np.log(0.25) / (7 / 6)))


@pytest.mark.parametrize(
    ("eos", "alpha", "limit", "expected", "steps"),
    [
        (0.6, 0.0, 50, [[EOS]], 1),  # The best live beam has 0.2, and can only fall.
        (0.6, 0.0, 50, [[EOS, 0], [0, EOS]], 2),  # The second best has two tokens.
        # After t tokens the best live beam has log(0.2) * t, and the penalty at the limit is 2: it
        # goes on while -1.61 * t / 2 is above log(0.6) = -0.51: never; or log(0.15) = -1.90: twice.
        (0.6, 1.0, 7, [[EOS]], 1),
        (0.15, 1.0, 7, [[EOS]], 3),
    ],
)
def test_a_search_stops_once_no_beam_can_change_the_result(eos, alpha, limit, expected, steps):
    others = [(1 - 0.2 - eos) / 14] * 14
    step, positions = constant_step([0.2, *others[:2], eos, *others[2:]])
    options = {"beam_size": 2, "length_penalty": alpha, "num_hypotheses": len(expected)}
    result = beam_search(step, (), max_lengths=[limit], **options)
    assert positions == list(range(steps))
    assert result.ids.numpy().tolist() == [expected]


def test_one_beam_is_greedy_search():
    trees = random_trees(3, 7, 6, 5)
    limits = [5, 1, 2, 5, 4, 3, 5]
    beam = search(trees, beam_size=1, max_lengths=limits, length_penalty=0.6)
    greedy = search(trees, max_lengths=limits, length_penalty=0.6)
    for one, other in zip(beam, greedy, strict=True):
        np.testing.assert_array_equal(one, other)


def test_unfinished_translations_follow_the_finished_then_empty_ones():
    # With a limit of one token, there is one finished translation and three others.
    result = search(
        [make_tree({(): [0.4, 0.3, 0.2, 0.1]})], beam_size=6, max_lengths=[1], num_hypotheses=6
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
def test_a_sentence_does_not_depend_on_the_batch(beam_size):
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
def test_a_graph_returns_the_same_as_eager_execution(beam_size):
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


@pytest.mark.parametrize(
    ("search", "rows", "expected"),
    [
        (greedy_search, 1, [[[2, 9]], [[1, 1]]]),
        (
            functools.partial(beam_search, beam_size=2, num_hypotheses=2),
            2,
            [[[2, 9], [1, 2]], [[2, 9], [1, 2]]],
        ),
    ],
    ids=["greedy", "beam"],
)
def test_special_ids_can_be_chosen(search, rows, expected):
    first_ids = []

    def step(ids, parents, position, state):
        first_ids.append(ids.numpy().tolist())
        probabilities = [[0.1, 0.2, 0.6, 0.1], [0.1, 0.6, 0.2, 0.1]]
        return tf.math.log(tf.repeat(probabilities, rows, axis=0)), state

    ids = {"bos_id": 7, "eos_id": 2, "pad_id": 9}
    result = search(step, (), max_lengths=[2, 2], length_penalty=0.0, **ids)
    assert first_ids[0] == [7] * 2 * rows
    assert result.ids.numpy().tolist() == expected


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize(
    ("search", "count"),
    [
        (greedy_search, 1),
        (functools.partial(beam_search, beam_size=3, num_hypotheses=2), 2),
        (functools.partial(sample_search, keys=tf.zeros([0], tf.int64), num_samples=2), 2),
    ],
    ids=["greedy", "beam", "samples"],
)
def test_an_empty_batch_has_an_empty_result(search, count, compiled):
    def run(max_lengths):
        state = tf.zeros([tf.shape(max_lengths)[0], 0])
        return search(
            lambda ids, parents, position, state: (tf.zeros([tf.shape(ids)[0], 6]), state),
            repeat_rows(state, 3),
            max_lengths=max_lengths,
        )

    if compiled:
        run = tf.function(run, input_signature=[tf.TensorSpec([None], tf.int32)])
    result = run(tf.zeros([0], tf.int32))
    assert [tuple(tensor.shape) for tensor in result] == [(0, count, 0), (0, count), (0, count)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, received 0"),
        ({"num_hypotheses": 0}, "num_hypotheses must be between 1 and beam_size=4, received 0"),
        ({"num_hypotheses": 5}, "num_hypotheses must be between 1 and beam_size=4, received 5"),
    ],
)
def test_options_out_of_range_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        beam_search(None, (), max_lengths=[1], **options)


def test_an_unknown_option_is_rejected():
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_length'"):
        beam_search(None, (), max_lengths=[1], max_length=1)
