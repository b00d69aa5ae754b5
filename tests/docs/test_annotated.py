"""The code of docs/annotated.md against the library, with the same weights.

tests/test_snippets.py runs the whole page; here, only its definitions run.
"""

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.decoding import beam_search
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.schedules import NoamSchedule
from keras_transformer.translation import ModelStep

PAGE = Path(__file__).parents[2] / "docs" / "annotated.md"
SIZES = {"vocab_size": 50, "num_layers": 2, "d_model": 24, "d_ff": 40}
HEADS = 3
SOURCE = np.array([[7, 9, 11, 13, 3], [8, 10, 3, 0, 0], [5, 3, 0, 0, 0]])
TARGET = np.array([[2, 6, 9, 12], [2, 30, 41, 0], [2, 8, 0, 0]])
LABELS = np.array([[6, 9, 12, 3], [30, 41, 3, 0], [8, 3, 0, 0]])
SEEDS = (4, 5, 8)
TOLERANCE = 1e-5
"""Of the largest number compared."""


def page_code():
    return "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL))


def is_definition(node):
    """Return whether a statement imports, defines a function or names the ids of tokens."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "keras_transformer" not in ast.unparse(node)
    is_undecorated = isinstance(node, ast.FunctionDef) and not node.decorator_list
    return is_undecorated or ast.unparse(node).startswith("PAD, ")


@pytest.fixture(scope="module")
def page():
    tree = ast.parse(page_code())
    tree.body = [node for node in tree.body if is_definition(node)]
    names = {}
    exec(compile(tree, f"<code of {PAGE.name}>", "exec"), names)
    return SimpleNamespace(**names)


def random_model(seed):
    """Return a model whose weights are all random, with a large embedding of eos."""
    model = Transformer(TransformerConfig(**SIZES, num_heads=HEADS, dropout=0.0))
    random = np.random.default_rng(seed)
    for weight in model.weights:
        scale = weight.shape[0] ** -0.5 if len(weight.shape) == 2 else 0.5
        weight.assign(random.normal(float("gamma" in weight.path), scale, weight.shape))
    embeddings = ops.convert_to_numpy(model.source_embedding.embeddings).copy()
    embeddings[3] *= 2
    model.source_embedding.embeddings.assign(embeddings)
    return model


def weights_of(model):
    return {weight.path: ops.convert_to_tensor(weight) for weight in model.weights}


@pytest.fixture(scope="module")
def model():
    return random_model(1)


def assert_equal(actual, expected):
    actual, expected = ops.convert_to_numpy(actual), ops.convert_to_numpy(expected)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * abs(expected).max())


def test_the_page_has_about_300_lines_of_code_and_uses_the_library_at_its_end_only():
    code, _, end = page_code().partition("from keras_transformer")
    assert len((code + end).splitlines()) <= 320
    imports = [line for line in code.splitlines() if line.startswith(("import ", "from "))]
    assert imports == [
        "import math",
        "import keras",
        "from keras import ops",
        "import tensorflow as tf",
    ]


def test_the_weights_have_the_names_and_shapes_of_the_library(page, model):
    expected = {weight.path: tuple(weight.shape) for weight in model.weights}
    assert page.weight_shapes(**SIZES) == expected


def test_logits_are_the_library_s(page, model):
    logits = page.transformer(weights_of(model), ops.array(SOURCE), ops.array(TARGET), HEADS)
    assert_equal(logits, model({"source": SOURCE, "target": TARGET}))


def test_loss_and_gradients_are_the_library_s(page, model):
    variables = [weight.value for weight in model.trainable_weights]
    with tf.GradientTape() as tape:
        logits = page.transformer(weights_of(model), ops.array(SOURCE), ops.array(TARGET), HEADS)
        loss = page.smoothed_loss(ops.array(LABELS), logits)
    gradients = tape.gradient(loss, variables)

    with tf.GradientTape() as tape:
        logits = model({"source": SOURCE, "target": TARGET}, training=True)
        expected = LabelSmoothedCrossEntropy(0.1)(LABELS, logits)
    assert_equal(loss, expected)
    for actual, wanted in zip(gradients, tape.gradient(expected, variables), strict=True):
        assert_equal(tf.convert_to_tensor(actual), tf.convert_to_tensor(wanted))


def library_search(model, beam_size, max_length=7):
    step = ModelStep(model, tf.constant(SOURCE, tf.int32), beam_size, max_length)
    return beam_search(
        step,
        step.initial_state(),
        max_lengths=[max_length] * len(SOURCE),
        beam_size=beam_size,
        select=step.select,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_greedy_search_finds_the_ids_of_the_library(page, seed):
    model = random_model(seed)
    expected = library_search(model, beam_size=1).ids[:, 0]
    found = page.greedy_search(weights_of(model), ops.array(SOURCE), HEADS, max_length=7)
    np.testing.assert_array_equal(found, expected[:, : found.shape[1]])


@pytest.mark.parametrize("seed", SEEDS)
def test_beam_search_finds_the_ids_and_scores_of_the_library(page, seed):
    model = random_model(seed)
    expected = library_search(model, beam_size=4)
    for sentence, ids, length, score in zip(
        SOURCE, expected.ids, expected.lengths, expected.scores, strict=True
    ):
        found = page.beam_search(weights_of(model), ops.array([sentence]), HEADS, max_length=7)
        assert found[0] == ids[0, : length[0]].numpy().tolist()
        assert_equal(found[1], score[0])


def test_the_searched_models_tell_searches_apart():
    results = {n: [library_search(random_model(seed), n) for seed in SEEDS] for n in (1, 3, 4)}
    lengths = np.concatenate([result.lengths for result in results[4]])
    assert lengths.min() < 7 and lengths.max() == 7
    for smaller in (1, 3):
        pairs = zip(results[smaller], results[4], strict=True)
        assert any(np.any(one.scores < four.scores - 1e-3) for one, four in pairs)


@pytest.mark.parametrize("step", [1, 100, 4000, 50_000])
def test_the_learning_rate_is_the_library_s(page, step):
    expected = float(NoamSchedule(d_model=24, warmup_steps=4000)(step - 1))
    assert page.learning_rate(step, d_model=24) == pytest.approx(expected, rel=1e-5)


def test_an_average_is_the_mean_of_each_weight(page):
    checkpoints = [{"a": np.array([1.0, 2.0]), "b": 0.0}, {"a": np.array([3.0, 4.0]), "b": 1.0}]
    average = page.average(checkpoints)
    assert average["a"].tolist() == [2.0, 3.0] and average["b"] == 0.5


def test_dropout_changes_every_sum_of_the_page_once(page, model):
    seen = []

    def drop(x):
        seen.append(tuple(x.shape))
        return x

    page.transformer(weights_of(model), ops.array(SOURCE), ops.array(TARGET), HEADS, drop)
    layers = SIZES["num_layers"]
    assert seen == (1 + 2 * layers) * [(3, 5, 24)] + (1 + 3 * layers) * [(3, 4, 24)]
