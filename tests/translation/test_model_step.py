import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.translation.model_step import ModelStep
from tests.helpers.layer_checks import randomize

B, S, T, V = 2, 7, 5, 13
VARIANTS = pytest.mark.parametrize(
    "variant",
    [{}, {"norm": "pre", "position": "learned", "max_length": 7, "share_embeddings": "none"}],
    ids=["paper", "variant"],
)
WAYS = pytest.mark.parametrize(
    "way",
    [{}, {"stage_lengths": (2, 4, T)}, {"stage_lengths": (2, T), "device": "gpu"}],
    ids=["growing", "fixed", "fixed, on a GPU"],
)


def build(**variant):
    sizes = {"d_model": 8, "d_ff": 11, "num_heads": 2, "key_dim": 3, "value_dim": 5} | variant
    model = Transformer(TransformerConfig(vocab_size=V, num_layers=2, **sizes))
    randomize(model)
    return model


def sources():
    ids = np.random.randint(4, V, size=(B, S)).astype("int32")
    ids[1, 4:] = 0
    return ids


def run(step, tokens, parents):
    """Logits [B * N, T, V] of tokens [B * N, T] that continue the rows `parents` [B * N, T]."""
    state, logits = step.initial_state(), []
    for position in range(tokens.shape[1]):
        if step.stages and position in (0, *step.stages.lengths[:-1]):
            larger = next(size for size in step.stages.lengths if size > position)
            state = step.stages.enlarge(state, larger)
        ids = tf.constant(tokens[:, position])
        received, state = step(ids, parents[:, position], tf.constant(position), state)
        logits.append(received.numpy())
    return np.stack(logits, axis=1)


@VARIANTS
@WAYS
@pytest.mark.parametrize("beams", [1, 3])
def test_cached_steps_equal_the_full_pass(variant, way, beams):
    model, source = build(**variant), sources()
    tokens = np.random.randint(4, V, size=(B * beams, T)).astype("int32")
    bias = np.linspace(-2, 2, V).astype("float32")
    expected = model({"source": np.repeat(source, beams, axis=0), "target": tokens}) + bias
    step = ModelStep(model, tf.constant(source), beams, T, logit_bias=bias, **way)
    own = np.tile(np.arange(B * beams)[:, None], T)
    np.testing.assert_allclose(run(step, tokens, own), expected, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"single_sentence": True}, {"stage_lengths": (2, 4, T)}],
    ids=["growing", "single sentence", "fixed"],
)
@pytest.mark.parametrize("beams", [1, 3])
def test_steps_of_one_sentence_equal_the_full_pass_in_each_mode(options, beams):
    model, source = build(), sources()[:1]
    tokens = np.random.randint(4, V, size=(beams, T)).astype("int32")
    expected = model({"source": np.repeat(source, beams, axis=0), "target": tokens})
    step = ModelStep(model, tf.constant(source), beams, T, **options)
    received = run(step, tokens, np.tile(np.arange(beams)[:, None], T))
    np.testing.assert_allclose(received, expected, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"stage_lengths": (2, T)}], ids=["batch", "fixed"])
def test_single_sentence_is_rejected_for_a_batch_and_for_fixed_shapes(options):
    source = tf.constant(sources() if not options else sources()[:1])
    with pytest.raises(ValueError, match=r"single_sentence needs a source of shape \[1, S\]"):
        ModelStep(build(), source, 1, T, single_sentence=True, **options)


@WAYS
def test_a_beam_attends_to_what_its_parents_attended_to(way):
    model, source = build(), sources()
    beams = 3
    random = np.random.default_rng(5)
    tokens = random.integers(4, V, size=(B * beams, T), dtype="int32")
    # At each position, a beam continues any beam of its sentence: some have several, some none.
    parents = random.integers(0, beams, size=(B * beams, T), dtype="int32")
    parents += np.repeat(np.arange(B, dtype="int32") * beams, beams)[:, None]
    assert len({tuple(sorted(parents[:beams, t])) for t in range(1, T)}) > 1
    histories = np.zeros((B * beams, 0), "int32")
    expected = []
    for position in range(T):
        histories = np.concatenate(
            [histories[parents[:, position]], tokens[:, position : position + 1]], axis=1
        )
        whole = model({"source": np.repeat(source, beams, axis=0), "target": histories})
        expected.append(whole[:, -1])
    step = ModelStep(model, tf.constant(source), beams, T, **way)
    received = run(step, tokens, parents)
    np.testing.assert_allclose(received, np.stack(expected, axis=1), atol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
def test_dropping_sentences_does_not_change_the_others(beams):
    model, source = build(), sources()
    source = np.concatenate([source, source[::-1, ::-1]])
    step = ModelStep(model, tf.constant(source), beams, T)
    tokens = tf.constant(np.random.randint(4, V, size=(2, len(source) * beams)), tf.int32)
    rows = tf.range(len(source) * beams)
    _, state = step(tokens[0], rows, tf.constant(0), step.initial_state())
    expected, _ = step(tokens[1], rows, tf.constant(1), state)
    sentences = tf.constant([1, 3])
    kept = tf.reshape(sentences[:, tf.newaxis] * beams + tf.range(beams), [-1])
    state = step.select(state, sentences)
    received, _ = step(tf.gather(tokens[1], kept), rows[: 2 * beams], tf.constant(1), state)
    np.testing.assert_allclose(received, tf.gather(expected, kept), atol=1e-5)


@pytest.mark.parametrize("policy", ["bfloat16", "mixed_bfloat16"])
@pytest.mark.parametrize("sentences, beams", [(B, 1), (1, 1), (1, 3)])
def test_steps_in_bfloat16_equal_the_full_pass_up_to_rounding(policy, sentences, beams):
    model, source = build().with_dtype(policy), sources()[:sentences]
    rows = sentences * beams
    tokens = np.random.randint(4, V, size=(rows, T)).astype("int32")
    expected = model({"source": np.repeat(source, beams, axis=0), "target": tokens})
    step = ModelStep(model, tf.constant(source), beams, T, single_sentence=sentences == 1)
    received = run(step, tokens, np.tile(np.arange(rows)[:, None], T))
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, expected, atol=0.05 * np.abs(expected).max())
