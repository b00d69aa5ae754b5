import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_transformer import TransformerConfig, layers, losses
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.training.model import TrainingTransformer
from keras_transformer.utils import compiled_steps
from tests.helpers.arrays import assert_same_weights, padded_batch

B, S, T, V = 5, 6, 7, 13


def batch():
    """Sentences of 7, 1, 0, 2 and 3 tokens, and a weight for each."""
    weights = np.array([0.5, 2, 1, 3, 1], "float32")
    return *padded_batch([7, 1, 0, 2, 3], (S, T), V), weights


def compiled(
    parts=1,
    dtype=None,
    teachers=(),
    loss=None,
    kind="parts",
    clip_norm=None,
    run_eagerly=False,
    jit_compile=False,
    model_class=TrainingTransformer,
):
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 11, "num_heads": 2, "dropout": 0.0}
    model = model_class(
        TransformerConfig(V, **sizes),
        **{kind: parts},
        teachers=teachers,
        dtype=dtype,
        clip_norm=clip_norm,
    )
    model.compile(
        keras.optimizers.SGD(1.0),
        loss or LabelSmoothedCrossEntropy(0.1),
        metrics=[NegativeLogLikelihood(), TokenAccuracy()],
        jit_compile=jit_compile,
        run_eagerly=run_eagerly,
    )
    return model


@functools.cache
def fitted(
    parts, rows=B, weighted=False, dtype=None, with_teacher=False, kind="parts", jit_compile=False
):
    """Return the weights after a step, and what `fit` reports.

    Steps on a whole batch, which others are compared with, run without a graph.
    """
    keras.utils.set_random_seed(1)
    teachers = [compiled()] if with_teacher else []
    run_eagerly = parts == 1 and not jit_compile
    options = {"run_eagerly": run_eagerly, "jit_compile": jit_compile}
    model = compiled(parts, dtype, teachers, kind=kind, **options)
    inputs, labels, weights = keras.tree.map_structure(lambda values: values[:rows], batch())
    history = model.fit(
        inputs, labels, sample_weight=weights if weighted else None, batch_size=B, verbose=0
    )
    return model.get_weights(), {name: values[0] for name, values in history.history.items()}


def assert_same_step(one, other, atol=2e-6):
    assert_same_weights(one[0], other[0], atol)
    assert one[1] == pytest.approx(other[1], abs=atol)


KINDS = pytest.mark.parametrize("kind", ["parts", "accumulation"])


@KINDS
@pytest.mark.parametrize(
    "parts, rows, weighted",
    [
        pytest.param(2, 5, False, marks=pytest.mark.slow),
        (2, 5, True),
        pytest.param(3, 5, True, marks=pytest.mark.slow),
        (4, 2, False),
    ],
)
def test_a_step_in_parts_is_the_step_on_the_whole_batch(parts, rows, weighted, kind):
    """With fewer rows than parts, some parts are empty."""
    in_parts = fitted(parts, rows, weighted, kind=kind)
    assert_same_step(in_parts, fitted(1, rows, weighted))
    assert in_parts[1].keys() == {"loss", "nll", "accuracy", "gradient_norm"}


@pytest.mark.parametrize(
    "parts, with_teacher",
    [(1, False), *(pytest.param(2, taught, marks=pytest.mark.slow) for taught in (False, True))],
)
def test_a_step_that_xla_compiles_is_the_plain_step(monkeypatch, parts, with_teacher):
    """On a GPU, formulas take the place of what is fast on a CPU."""
    expected = fitted(1, weighted=True, with_teacher=with_teacher)
    for module in (losses, layers.embedding, layers.residual):
        monkeypatch.setattr(module, "fuses_formulas", lambda: True)
    options = {"kind": "accumulation", "with_teacher": with_teacher, "jit_compile": True}
    assert_same_step(fitted(parts, weighted=True, **options), expected)


def test_a_compiled_step_has_nothing_that_a_gpu_does_one_by_one(monkeypatch):
    """A scatter adds the rows of a frequent token in turn, and a condition waits for the host."""
    for module in (losses, layers.embedding, layers.residual):
        monkeypatch.setattr(module, "fuses_formulas", lambda: True)
    model, (inputs, labels, _) = compiled(jit_compile=True), batch()
    model.optimizer.build(model.trainable_variables)
    step = tf.function(model.train_step, jit_compile=True, autograph=False)
    given = tf.nest.map_structure(lambda ids: tf.constant(ids, tf.int32), (inputs, labels))
    program = step.experimental_get_compiler_ir(given)(stage="optimized_hlo")
    assert " dot(" in program
    for operation in ("scatter", "conditional", "sort", "while"):
        assert f" {operation}(" not in program


class Strings(TrainingTransformer):
    """Add 0 to the logits by way of strings, which XLA refuses."""

    def call(self, inputs, training=None):
        numbers = tf.strings.to_number(tf.strings.as_string(inputs["source"]))
        return super().call(inputs, training=training) + 0 * tf.reduce_sum(numbers)


def batches(*lengths):
    """Return a data set of batches whose sources have these lengths."""
    inputs, labels, _ = batch()
    ids = tf.TensorSpec([None, None], tf.int32)
    return tf.data.Dataset.from_generator(
        lambda: (({**inputs, "source": inputs["source"][:, :n]}, labels) for n in lengths),
        output_signature=({"source": ids, "target": ids}, ids),
    ).apply(tf.data.experimental.assert_cardinality(len(lengths)))


@pytest.mark.parametrize(
    "model_class, most, message",
    [
        pytest.param(Strings, 9, "XLA refuses a step", id="refused"),
        pytest.param(
            *(TrainingTransformer, 1, "for up to 1 shapes"),
            marks=pytest.mark.slow,
            id="many shapes",
        ),
    ],
)
def test_steps_that_xla_does_not_compile_are_plain(caplog, monkeypatch, model_class, most, message):
    """No batch is lost, and a line says so once. XLA compiles no validation and no prediction."""
    monkeypatch.setattr(compiled_steps, "MAX_SHAPES", most)
    found = []
    for jit_compile in (True, False):
        keras.utils.set_random_seed(1)
        model = compiled(jit_compile=jit_compile, model_class=model_class)
        options = {"validation_data": batches(4), "shuffle": False, "verbose": 0}
        history = model.fit(batches(6, 4, 6, 5), **options).history
        found.append((model.get_weights(), {n: history[n][0] for n in ("loss", "val_loss")}))
        assert model.predict(batch()[0], verbose=0).shape == (B, T, V)
    assert_same_step(*found)
    assert int(model.optimizer.iterations) == 4
    (line,) = [record.message for record in caplog.records if "XLA" in record.message]
    assert message in line and (most == 1 or "AsString" in line)


def test_xla_refuses_no_batch_in_memory():
    """Keras gives `train_on_batch` None for weights."""
    inputs, labels, _ = batch()
    models = []
    for jit_compile in (True, False):
        keras.utils.set_random_seed(1)
        models.append(compiled(jit_compile=jit_compile))
        models[-1].train_on_batch(inputs, labels)
    assert_same_weights(models[0], models[1].get_weights(), atol=2e-6)


@pytest.mark.slow
@KINDS
def test_every_part_is_distilled(kind):
    in_parts = fitted(2, weighted=True, with_teacher=True, kind=kind)
    assert_same_step(in_parts, fitted(1, weighted=True, with_teacher=True))
    untaught = fitted(2, weighted=True)[0]
    distances = (np.abs(a - b).max() for a, b in zip(in_parts[0], untaught, strict=True))
    assert max(distances) > 1e-3


@KINDS
def test_the_loss_scale_of_float16_applies_to_every_part(kind):
    """In float16 the gradients are those of the loss times 32,768."""
    keras.utils.set_random_seed(1)
    before = compiled(dtype="mixed_float16").get_weights()
    in_parts = fitted(2, dtype="mixed_float16", kind=kind)
    assert max(abs(new - old).max() for new, old in zip(in_parts[0], before, strict=True)) > 0.1
    assert_same_step(in_parts, fitted(1, dtype="mixed_float16"), atol=2e-3)


@KINDS
def test_padding_alone_makes_no_step(kind):
    model = compiled(2, kind=kind)
    before = model.get_weights()
    inputs, labels, _ = batch()
    assert model.train_on_batch(inputs, 0 * labels)[0] == 0
    assert_same_weights(model, before)


@pytest.mark.parametrize("clip_norm", [None, 0.3])
@pytest.mark.parametrize("parts, kind", [(1, "parts"), (2, "parts"), (2, "accumulation")])
def test_gradient_descent_moves_by_the_norm_of_the_gradient_or_the_largest(parts, kind, clip_norm):
    model = compiled(parts, kind=kind, clip_norm=clip_norm)
    before = model.get_weights()
    norm = model.train_on_batch(*batch()[:2], return_dict=True)["gradient_norm"]
    assert norm > 1
    squares = [np.sum((w - old) ** 2) for w, old in zip(model.get_weights(), before, strict=True)]
    assert sum(squares) ** 0.5 == pytest.approx(clip_norm or norm, rel=1e-4)


def test_no_part_waits_for_another():
    """What checks the ids and labels of a part must not order the products of the parts."""

    def count_first_products(parts):
        """Return how many matrix products of a step depend on no other."""
        model = compiled(parts)
        model.optimizer.build(model.trainable_variables)
        ids = tf.TensorSpec([None, None], tf.int32)
        data = {"source": ids, "target": ids}, ids
        graph = tf.function(model.train_step).get_concrete_function(data).graph
        follows_product, count = set(), 0
        for operation in graph.get_operations():  # In an order in which they could run.
            before = [*(x.op for x in operation.inputs), *operation.control_inputs]
            is_product, is_later = "MatMul" in operation.type, follows_product & {*before}
            count += is_product and not is_later
            if is_product or is_later:
                follows_product.add(operation)
        return count

    # Queries, keys and values of the encoder and of the decoder.
    assert [count_first_products(parts) for parts in (1, 2)] == [6, 12]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_data_set_may_end_in_each_epoch():
    """With so many weights, TensorFlow may turn a sum of losses into a temporary variable."""
    import tensorflow as tf

    model = TrainingTransformer(TransformerConfig(60_000, num_layers=1), parts=2)
    model.compile("sgd", LabelSmoothedCrossEntropy(0.1), jit_compile=False)
    inputs, labels, _ = batch()
    ids = tf.TensorSpec([None, None], tf.int32)
    signature = ({"source": ids, "target": ids}, ids)
    data = tf.data.Dataset.from_generator(lambda: [(inputs, labels)], output_signature=signature)
    losses = model.fit(data, epochs=3, shuffle=False, verbose=0).history["loss"]
    assert losses[0] > losses[1] > losses[2]


@pytest.mark.parametrize("parts", [1, 2])
def test_the_optimizer_does_not_accumulate_too(parts):
    model = compiled(parts, kind="accumulation")
    model.compile(keras.optimizers.SGD(gradient_accumulation_steps=3), LabelSmoothedCrossEntropy())
    inputs, labels, _ = batch()
    with pytest.raises(ValueError, match="gradient_accumulation_steps=3 would"):
        model.fit(inputs, labels, verbose=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parts": 2, "accumulation": 3}, "received parts=2 and accumulation=3. Leave one"),
        ({"parts": 0}, "parts must be 1, or more .*received parts=0"),
        ({"accumulation": -1}, "accumulation must be 1, or more .*received accumulation=-1"),
        ({"clip_norm": 0.0}, "clip_norm must be positive .* received 0.0"),
        ({"distillation": -0.1}, "distillation must be from 0 to 1, received -0.1"),
        ({"distillation": 1.1}, "distillation must be from 0 to 1, received 1.1"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TrainingTransformer(TransformerConfig(V, num_layers=1), **arguments)


@pytest.mark.parametrize(
    ("parts", "with_teacher", "loss", "received"),
    [
        (2, False, keras.losses.SparseCategoricalCrossentropy(from_logits=True), "<.*sparse.*>"),
        (1, True, "mse", "'mse'"),
    ],
)
def test_another_loss_is_refused(parts, with_teacher, loss, received):
    teachers = [compiled()] if with_teacher else []
    message = f"need a loss whose mean .*; received {received}. Use that loss, or parts=1"
    with pytest.raises(ValueError, match=message):
        compiled(parts, teachers=teachers, loss=loss)


def test_replicas_are_refused():
    import tensorflow as tf

    inputs, labels, _ = batch()
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = compiled(parts=2)
    with pytest.raises(ValueError, match="needs a single replica, received parts=2"):
        model.train_on_batch(inputs, labels)
