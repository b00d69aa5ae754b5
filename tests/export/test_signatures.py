import numpy as np
import pytest
import tensorflow as tf

from keras_transformer.serving.parts import join
from tests.helpers.tiny import NO_UTF8, ODD, toy_sentences

pytestmark = pytest.mark.slow  # Each export traces and optimizes every signature.

TEXTS = [text.encode() for text in [*toy_sentences(14), *ODD]] + NO_UTF8
HUGE = [b"one two " * 125_000, b"\xff" * 1_000_000, "\ufdfa".encode() * 333_333, b" " * 1_000_000]
STRING, FLOAT, INT = (dtype.as_datatype_enum for dtype in (tf.string, tf.float32, tf.int32))
SIGNATURES = {
    "serving_default": ({"text"}, {"translation": (STRING, [None])}),
    "translate_with_scores": (
        {"text"},
        {"translation": (STRING, [None]), "score": (FLOAT, [None]), "length": (INT, [None])},
    ),
    "translate_document": ({"text"}, {"translation": (STRING, [None])}),
    "n_best": ({"text"}, {"translations": (STRING, [None, 2]), "scores": (FLOAT, [None, 2])}),
    "score": ({"text", "translation"}, {"score": (FLOAT, [None]), "length": (INT, [None])}),
    "attend": (
        {"text"},
        {
            "source_tokens": (STRING, [None, None]),
            "target_tokens": (STRING, [None, None]),
            "attention": (FLOAT, [None, 2, None, None]),
        },
    ),
    "inspect": (
        {"text"},
        {
            "source_tokens": (STRING, [None, None]),
            "target_tokens": (STRING, [None, None]),
            "encoder_attention": (FLOAT, [None, 2, 3, None, None]),
            "decoder_attention": (FLOAT, [None, 2, 3, None, None]),
            "cross_attention": (FLOAT, [None, 2, 3, None, None]),
            "probabilities": (FLOAT, [None, None]),
            "candidates": (STRING, [None, None, 5]),
            "candidate_probabilities": (FLOAT, [None, None, 5]),
        },
    ),
}
AXES = {  # Those of the tokens, in one row of an output.
    "source_tokens": "s",
    "target_tokens": "t",
    "attention": "lts",
    "encoder_attention": "lhss",
    "decoder_attention": "lhtt",
    "cross_attention": "lhts",
    "probabilities": "t",
    "candidates": "tn",
    "candidate_probabilities": "tn",
}


def about(tensors):
    return {
        name: (tensor.dtype, tf.TensorShape(tensor.tensor_shape).as_list())
        for name, tensor in tensors.items()
    }


def inputs(signature, texts):
    return dict.fromkeys(SIGNATURES[signature][0], texts)


def unpadded(outputs, i):
    """Return row i of a signature's outputs without padding."""
    row = {name: output[i] for name, output in outputs.items()}
    if "source_tokens" in row:
        sizes = {side[0]: np.count_nonzero(row[f"{side}_tokens"]) for side in ("source", "target")}
        for name, axes in AXES.items():
            for axis, letter in enumerate(axes if name in row else ""):
                used = range(sizes.get(letter, row[name].shape[axis]))
                assert not np.delete(row[name], used, axis).any(), name
                row[name] = np.take(row[name], used, axis)
    return row


def assert_equal(received, expected):
    assert received.keys() == expected.keys()
    for name in expected:
        if np.asarray(expected[name]).dtype.kind in "OS":  # strings, or a single one
            assert np.array_equal(received[name], expected[name]), name
        else:
            np.testing.assert_allclose(received[name], expected[name], atol=1e-5, err_msg=name)


def test_names_types_and_shapes(graph):
    signatures = graph.signatures
    served = {name for name in signatures if not name.startswith("__")}
    assert served == set(SIGNATURES)
    for name, (texts, outputs) in SIGNATURES.items():
        assert signatures[name].method_name == "tensorflow/serving/predict"
        assert about(signatures[name].inputs) == dict.fromkeys(texts, (STRING, [None]))
        assert about(signatures[name].outputs) == outputs
        # REST would encode bytes in base 64, and would not fill in a default.
        assert not any(output.endswith("_bytes") for output in outputs)
        assert not signatures[name].defaults


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize(
    "texts", [[], [b""], [b" "], TEXTS, HUGE, TEXTS[:20] * 50], ids="0 1 1 all huge 1000".split()
)
def test_any_batch_has_an_answer(signature, texts, serve):
    if texts is HUGE and signature == "translate_document":
        texts = [text[:6000] for text in HUGE]  # It leaves nothing out.
    outputs = serve(signature, **inputs(signature, texts))
    for output in outputs.values():
        assert len(output) == len(texts)
        if output.dtype == object:
            for string in output.ravel():
                string.decode("utf-8")
        else:
            assert np.isfinite(output).all()


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_row_depends_on_no_other(signature, serve):
    texts = [*TEXTS, TEXTS[0], TEXTS[5]]
    together = serve(signature, **inputs(signature, texts))
    backwards = serve(signature, **inputs(signature, texts[::-1]))
    parts = (texts[i : i + 9] for i in range(0, len(texts), 9))
    joined = join([serve(signature, **inputs(signature, part)) for part in parts])
    assert_equal(joined, together)  # With the same padding.
    for i, text in enumerate(texts):
        alone = unpadded(serve(signature, **inputs(signature, [text])), 0)
        assert_equal(unpadded(together, i), alone)
        assert_equal(unpadded(backwards, len(texts) - 1 - i), alone)


def test_inputs_of_different_sizes_are_refused(serve):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shapes of all inputs must match"):
        serve("score", text=[b"one"], translation=[b"eins", b"zwei"])
