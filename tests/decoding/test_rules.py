import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.config import DecodingConfig
from keras_transformer.decoding import repeat_rows
from keras_transformer.decoding.rules import (
    forced_prefix,
    make_rules,
    min_length,
    no_repeat_ngram,
    repetition_penalty,
)
from tests.helpers.search_trees import make_tree, prefix_number, random_trees, search, translations

EOS = 3
ANYTHING = 2_000_000_000


def apply(rules, logits, history, position):
    """Return the logits after all rules."""
    for rule in rules:
        logits = rule(tf.constant(logits, tf.float32), tf.constant(history), tf.constant(position))
    return logits.numpy()


def random_case(seed, rows=5, length=9, vocab_size=7, position=6):
    """Return logits, a history with arbitrary tokens from `position` on, and `position`."""
    random = np.random.default_rng(seed)
    history = random.integers(0, vocab_size, [rows, length], np.int32)
    history[:, position:] = ANYTHING
    return random.normal(0, 3, [rows, vocab_size]), history, position


def repeated_ngrams(tokens, size):
    ngrams = [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]
    return len(ngrams) - len(set(ngrams))


# At every step, eos is the most probable token, and 1 the second.
ALWAYS_EOS = {(1,) * length: [0.1, 0.3, 0.1, 0.5] for length in range(5)}


@pytest.mark.parametrize("beam_size", [None, 2])
@pytest.mark.parametrize(("length", "expected"), [(0, [EOS]), (1, [1, EOS]), (3, [1, 1, 1, EOS])])
def test_a_translation_has_a_minimal_length_without_eos(beam_size, length, expected):
    rules = [min_length(length)]
    result = search([make_tree(ALWAYS_EOS)], beam_size=beam_size, max_lengths=[5], rules=rules)
    assert translations(result) == [expected]


@pytest.mark.parametrize("beam_size", [None, 2])
def test_the_limit_overrides_the_minimal_length(beam_size):
    options = {"beam_size": beam_size, "length_penalty": 0.0, "rules": [min_length(4)]}
    result = search([make_tree(ALWAYS_EOS)], max_lengths=[2], **options)
    assert translations(result) == [[1, 1]]
    np.testing.assert_allclose(np.exp(result.scores), [[0.6 * 0.6]], rtol=1e-6)  # 0.3 / (1 - 0.5)


def test_the_penalty_depends_on_the_sign_of_the_logit():
    history = [[1, 2, 1, 4], [0, 0, 0, 0]]  # The last token is arbitrary.
    logits = [[3.0, 3.0, -3.0, -3.0, 3.0], [3.0, 3.0, -3.0, -3.0, 3.0]]
    received = apply([repetition_penalty(1.5)], logits, np.int32(history), 3)
    np.testing.assert_allclose(received, [[3, 2, -4.5, -3, 3], [2, 3, -3, -3, 3]])


def test_a_repeated_token_is_penalized_once():
    logits, history, position = random_case(1)
    expected = np.float32(logits)
    for row, tokens in zip(expected, history, strict=True):
        for token in set(tokens[:position]):
            row[token] *= 1.3 if row[token] < 0 else 1 / 1.3
    received = apply([repetition_penalty(1.3)], logits, history, position)
    np.testing.assert_allclose(received, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 20])  # 20 is longer than any history.
@pytest.mark.parametrize("position", [0, 1, 2, 5, 8])
def test_exactly_the_tokens_that_repeat_an_ngram_are_banned(size, position):
    # With 3 tokens, many n-grams repeat.
    logits, history, _ = random_case(10 * size, 40, 9, 3, position)
    received = apply([no_repeat_ngram(size)], logits, history, position)
    expected = [
        [
            repeated_ngrams([*tokens[:position], token], size)
            > repeated_ngrams(tokens[:position], size)
            for token in range(3)
        ]
        for tokens in history
    ]
    np.testing.assert_array_equal(received < -1000, expected)
    np.testing.assert_array_equal(received[received > -1000], np.float32(logits)[received > -1000])


@pytest.mark.parametrize("beam_size", [None, 3])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_translation_repeats_an_ngram(beam_size, size):
    trees = random_trees(1, 20, 4, 7)
    trees[:, :, 1] += 3
    options = {"beam_size": beam_size, "max_lengths": [7] * 20, "length_penalty": 1.0}
    free = search(trees, **options)
    ruled = search(trees, rules=[no_repeat_ngram(size)], **options)
    assert any([repeated_ngrams(translations(free, i)[0], size) for i in range(20)])
    assert not any([repeated_ngrams(translations(ruled, i)[0], size) for i in range(20)])


def test_eos_stays_possible_after_all_other_tokens():
    # V is 4. Each of the other three tokens comes once, although eos has only 0.01.
    probabilities = {(): [0.4, 0.3, 0.29, 0.01], (0,): [0.4, 0.3, 0.29, 0.01]}
    probabilities |= {(0, 1): [0.4, 0.3, 0.29, 0.01], (0, 1, 2): [0.4, 0.3, 0.29, 0.01]}
    result = search([make_tree(probabilities)], max_lengths=[9], rules=[no_repeat_ngram(1)])
    assert translations(result) == [[0, 1, 2, EOS]]
    expected = 0.4 * (0.3 / 0.6) * (0.29 / 0.3)  # and eos is certain
    np.testing.assert_allclose(np.exp(result.scores), [[expected]], rtol=1e-5)


@pytest.mark.parametrize("beam_size", [None, 2, 3])
def test_after_a_prefix_the_search_is_that_of_the_rest(beam_size):
    trees, prefixes = random_trees(2, 4, 5, 5), [[4, 0], [1], [], [2, 2]]
    ids = np.int32([(prefix + [0, 0])[:2] for prefix in prefixes])
    lengths = np.int32([len(prefix) for prefix in prefixes])
    rows = beam_size or 1
    rule = forced_prefix(repeat_rows(ids, rows), repeat_rows(lengths, rows))
    options = {"beam_size": beam_size, "length_penalty": 0.0}
    result = search(trees, max_lengths=[5] * 4, rules=[rule], **options)
    for i, (tree, prefix) in enumerate(zip(trees, prefixes, strict=True)):
        rest = np.zeros_like(tree)
        for number in range(1, 5 ** (5 - len(prefix))):
            tail = []  # The tokens of a number, in base 5 after a leading 1.
            while number > 1:
                number, token = divmod(number, 5)
                tail.insert(0, token)
            if number == 1:
                rest[prefix_number(tail, 5)] = tree[prefix_number([*prefix, *tail], 5)]
        expected = search(rest[np.newaxis], max_lengths=[5 - len(prefix)], **options)
        assert translations(result, i) == [[*prefix, *translations(expected)[0]]]
        # A score near 0 has the absolute error of the probabilities near 1 behind it.
        np.testing.assert_allclose(result.scores[i], expected.scores[0], rtol=1e-6, atol=5e-7)


@pytest.mark.parametrize("beam_size", [None, 3])
def test_a_prefix_overrides_bans(beam_size):
    rules = [no_repeat_ngram(1), min_length(9), forced_prefix([[1, 1, 2]], [3])]
    result = search(
        [make_tree(ALWAYS_EOS)] * 2, beam_size=beam_size, max_lengths=[3, 2], rules=rules
    )
    assert [translations(result, i) for i in (0, 1)] == [[[1, 1, 2]], [[1, 1]]]
    assert result.scores.numpy().tolist() == [[0.0], [0.0]]


def test_banned_tokens_are_in_no_translation():
    # At the first step, all tokens but 1 are banned, including eos.
    result = search(
        [make_tree({(1,): [0.3, 0.6, 0.1, 0.0]})],
        beam_size=4,
        max_lengths=[2],
        length_penalty=0.0,
        num_hypotheses=4,
        rules=[forced_prefix([[1]], [1])],
    )
    assert result.ids.numpy().tolist() == [[[1, 1], [1, 0], [1, 2], [0, 0]]]
    assert result.lengths.numpy().tolist() == [[2, 2, 2, 0]]
    np.testing.assert_allclose(np.exp(result.scores), [[0.6, 0.3, 0.1, 0]], rtol=1e-6)


def test_banning_every_token_keeps_the_order_of_the_model():
    ban_eos = [min_length(9, eos_id=0)]
    ban_rest = [no_repeat_ngram(1)]
    logits = [[2.0, 1.0, 3.0]]
    received = apply(ban_eos + ban_rest, logits, np.int32([[1, 2, 1, 0]]), 3)
    assert np.argsort(received).tolist() == [[1, 0, 2]]
    expected = tf.nn.softmax(logits)
    np.testing.assert_allclose(tf.nn.softmax(received), expected, atol=0.02)


ALL_RULES = DecodingConfig(min_length=2, no_repeat_ngram_size=2, repetition_penalty=1.4)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_graph_returns_the_same_as_eager_execution(compiled):
    rules = make_rules(ALL_RULES, [5, 1])

    @tf.function(jit_compile=compiled, autograph=False, reduce_retracing=True)
    def graph(logits, history, position):
        for rule in rules:
            logits = rule(logits, history, position)
        return logits

    for position in range(10):
        case = random_case(position, position=position)
        received = graph(*map(tf.constant, (np.float32(case[0]), *case[1:])))
        np.testing.assert_allclose(received, apply(rules, *case), rtol=1e-6)
    no_rows = graph(tf.zeros([0, 7]), tf.zeros([0, 9], tf.int32), tf.constant(3))
    assert no_rows.shape == (0, 7)


def test_a_configuration_applies_its_rules_in_order():
    assert make_rules(DecodingConfig()) == []
    logits, history = [[2.0, -2.0, 1.0, 4.0]], np.int32([[1, 2, 1, 0]])
    expected = apply(
        [repetition_penalty(1.4), no_repeat_ngram(2), min_length(4), forced_prefix([[1]], [1])],
        logits,
        history,
        3,
    )
    config = DecodingConfig(min_length=4, no_repeat_ngram_size=2, repetition_penalty=1.4)
    received = apply(make_rules(config, [1]), logits, history, 3)
    np.testing.assert_array_equal(received, expected)
    np.testing.assert_allclose(received, [[2.0, -2.8, 1 / 1.4 - 1e6, 4 - 1e6]], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: repetition_penalty(0.9), "penalty must be at least 1 and finite, received 0.9"),
        (lambda: repetition_penalty(np.inf), "penalty must be .* finite, received inf"),
        (lambda: no_repeat_ngram(0), "size must be at least 1, received 0"),
        (lambda: min_length(-1), "length must be at least 0, received -1"),
        (lambda: forced_prefix([5, 1], [2]), r"must have shape \[R, P\] .* received \(2,\)"),
        (lambda: forced_prefix([[5, 1]], 2), r"and lengths \[R\], .* received \(1, 2\) and \(\)"),
    ],
)
def test_arguments_out_of_range_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
