import numpy as np
import pytest
import tensorflow as tf
from tests.helpers.layer_checks import randomize

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.translation.model_step import ModelStep

B, S, T, V = 2, 7, 5, 13
VARIANTS = pytest.mark.parametrize(
    "variant",
    [{}, {"norm": "pre", "position": "learned", "max_length": 3, "share_embeddings": "none"}],
    ids=["paper", "variant"],
)
SIZES = pytest.mark.parametrize("sizes", [None, (2, 4, T)], ids=["growing", "fixed"])


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
@SIZES
@pytest.mark.parametrize("beams", [1, 3])
def test_cached_steps_equal_the_full_pass(variant, sizes, beams):
    model, source = build(**variant), sources()
    tokens = np.random.randint(4, V, size=(B * beams, T)).astype("int32")
    bias = np.linspace(-2, 2, V).astype("float32")
    expected = model({"source": np.repeat(source, beams, axis=0), "target": tokens}) + bias
    step = ModelStep(model, tf.constant(source), beams, T, bias, sizes)
    own = np.tile(np.arange(B * beams)[:, None], T)
    np.testing.assert_allclose(run(step, tokens, own), expected, atol=1e-5)


@SIZES
@pytest.mark.parametrize("beams", [1, 3])
def test_a_single_sentence(sizes, beams):
    model, source = build(), sources()[:1]
    tokens = np.random.randint(4, V, size=(beams, T)).astype("int32")
    expected = model({"source": np.repeat(source, beams, axis=0), "target": tokens})
    step = ModelStep(model, tf.constant(source), beams, T, sizes=sizes)
    assert step.is_alone == (sizes is None)
    received = run(step, tokens, np.tile(np.arange(beams)[:, None], T))
    np.testing.assert_allclose(received, expected, atol=1e-5)


@SIZES
def test_a_beam_sees_what_its_parents_saw(sizes):
    model, source = build(), sources()
    beams = 3
    random = np.random.default_rng(5)
    tokens = random.integers(4, V, size=(B * beams, T), dtype="int32")
    # At each position a beam continues any of its sentence's, some of them none or several.
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
    step = ModelStep(model, tf.constant(source), beams, T, sizes=sizes)
    received = run(step, tokens, parents)
    np.testing.assert_allclose(received, np.stack(expected, axis=1), atol=1e-5)


@pytest.mark.parametrize("beams", [1, 3])
def test_sentences_that_are_kept_go_on_as_they_would_have(beams):
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
def test_in_bfloat16_steps_equal_the_full_pass_but_for_rounding(policy, sentences, beams):
    model, source = build().with_dtype(policy), sources()[:sentences]
    rows = sentences * beams
    tokens = np.random.randint(4, V, size=(rows, T)).astype("int32")
    expected = model({"source": np.repeat(source, beams, axis=0), "target": tokens})
    step = ModelStep(model, tf.constant(source), beams, T)
    received = run(step, tokens, np.tile(np.arange(rows)[:, None], T))
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, expected, atol=0.05 * np.abs(expected).max())


@pytest.mark.parametrize("rows, before_the_bias", [(1, "Reshape"), (None, "MatMul")])
def test_a_single_row_is_kept_from_the_operation_of_product_and_bias(rows, before_the_bias):
    model = build()

    @tf.function(input_signature=[tf.TensorSpec([rows, S], tf.int32)], autograph=False)
    def first_logits(source):
        step = ModelStep(model, source, beam_size=1, max_length=T)
        ids = tf.fill([step.batch], 2)
        return step(ids, tf.range(step.batch), tf.constant(0), step.initial_state())[0]

    operations = first_logits.get_concrete_function().graph.get_operations()
    sums = [operation.inputs[0].op for operation in operations if operation.type == "Relu"]
    products = [total.inputs[0].op.type for total in sums]
    assert len(products) == 4  # Two layers of the encoder, and then two of the decoder.
    assert products[2:] == [before_the_bias] * 2
