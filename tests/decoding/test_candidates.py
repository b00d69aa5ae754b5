import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.decoding.candidates import best_continuations, best_tokens

# 2: blocks of one token; 7: a prime; 24: blocks of 12; 130: more blocks than are searched.
VOCAB_SIZES = pytest.mark.parametrize("vocab_size", [2, 7, 24, 130])


WAYS = pytest.mark.parametrize("way", [{}, {"few_rows": True}, {"device": "gpu"}], ids=str)


@VOCAB_SIZES
@WAYS
def test_the_best_continuations_are_the_first_of_all_sorted(vocab_size, way):
    random = np.random.default_rng(vocab_size)
    batch, beam_size = 5, 3
    logits = 5 * random.normal(size=[batch * beam_size, vocab_size]).astype(np.float32)
    live = random.normal(size=[batch, beam_size]).astype(np.float32)
    values, beams, tokens = best_continuations(tf.constant(logits), tf.constant(live), 6, **way)

    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    totals = (live.reshape(-1, 1) + log_probs).reshape(batch, -1)
    order = np.argsort(-totals, axis=1)[:, :6]
    np.testing.assert_allclose(values, np.take_along_axis(totals, order, 1), atol=1e-5)
    np.testing.assert_array_equal(beams, order // vocab_size)
    np.testing.assert_array_equal(tokens, order % vocab_size)


def test_several_continuations_may_share_a_block():
    logits = np.full([2, 128], -9.0, np.float32)  # N 2, blocks of 64
    logits[0, [70, 71, 72]] = 9, 8, 7
    logits[1, 5] = 9.5
    values, beams, tokens = best_continuations(tf.constant(logits), tf.zeros([1, 2]), 4)
    # Of the first beam's three, e^9, e^8 and e^7, the first has 1 / (1 + e^-1 + e^-2).
    first = -np.log(1 + np.exp(-1) + np.exp(-2))
    np.testing.assert_allclose(values, [[0, first, first - 1, first - 2]], atol=1e-5)
    assert beams.numpy().tolist() == [[1, 0, 0, 0]]
    assert tokens.numpy().tolist() == [[5, 70, 71, 72]]


def test_a_beam_that_is_not_live_comes_last():
    live = tf.constant([[-50.0, -np.inf]])
    values, beams, _ = best_continuations(tf.fill([2, 4], -1.0), live, 4)
    np.testing.assert_allclose(values, [[-50 - np.log(4)] * 4], rtol=1e-6)
    assert beams.numpy().tolist() == [[0] * 4]


@pytest.mark.parametrize("compiled", [False, True])
@WAYS
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_log_probabilities_are_exact_for_large_logits(offset, way, compiled):
    logits = tf.constant([[3.0, 2.0, -1e9, -400.0], [1.0, 1.0, -1e9, -1e6]]) + offset
    live = tf.constant([[-0.25, -0.5]])
    search = tf.function(best_continuations, jit_compile=compiled)
    values, beams, tokens = search(logits, live, 4, **way)
    likely, half = -np.log(1 + np.exp(-1)), -np.log(2)
    expected = [[likely - 0.25, half - 0.5, half - 0.5, likely - 1.25]]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert (beams.numpy().tolist(), tokens.numpy().tolist()) == ([[0, 1, 1, 0]], [[0, 0, 1, 1]])


@VOCAB_SIZES
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_best_token_equals_argmax(vocab_size, device):
    logits = np.random.default_rng(vocab_size).integers(0, 9, [70, vocab_size]).astype(np.float32)
    assert vocab_size == 2 or (np.sort(logits)[:, -2:] == logits.max(1, keepdims=True)).all(1).any()
    np.testing.assert_array_equal(best_tokens(tf.constant(logits), device), logits.argmax(axis=1))
    unknown = tf.function(best_tokens, input_signature=[tf.TensorSpec([None, None])])
    np.testing.assert_array_equal(unknown(logits), logits.argmax(axis=1))


@pytest.mark.parametrize(
    ("shape", "received"), [([None, None], r"\(None, None\)"), ([2, 1], r"\(2, 1\)")]
)
def test_a_vocabulary_that_is_unknown_or_of_one_token_is_rejected(shape, received):
    @tf.function(input_signature=[tf.TensorSpec(shape)])
    def search(logits):
        return best_continuations(logits, tf.zeros([1, 2]), 4)

    with pytest.raises(ValueError, match=f"static size of at least 2, received shape {received}"):
        search(tf.zeros([2, 1]))
