import keras
import numpy as np
import pytest

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.training.model import steps_in_halves

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="other backends have steps of their own"
)

B, S, T, V = 5, 6, 7, 13


def batch():
    """Sentences of 7, 1, 0, 2 and 3 tokens, and a weight for each."""
    random = np.random.default_rng(1)
    source, labels = (random.integers(4, V, size=(B, length)) for length in (S, T))
    for row, length in enumerate([7, 1, 0, 2, 3]):
        source[row, length:] = labels[row, length:] = 0
    target = np.concatenate([np.full((B, 1), 2), labels[:, :-1]], axis=1)
    return {"source": source, "target": target}, labels, np.array([0.5, 2, 1, 3, 1], "float32")


def compiled(loss=None, dtype=None, kind=Transformer, **options):
    sizes = {"num_layers": 1, "d_model": 8, "d_ff": 11, "num_heads": 2, "dropout": 0.0}
    model = kind(TransformerConfig(V, **sizes), dtype=dtype)
    model.compile(
        keras.optimizers.SGD(1.0),
        loss or LabelSmoothedCrossEntropy(0.1),
        metrics=[NegativeLogLikelihood(), TokenAccuracy()],
        **{"jit_compile": False, **options},
    )
    return model


def fitted(monkeypatch, in_halves, rows=B, weighted=False, dtype=None, loss=None):
    """Return the weights after a step, and what `fit` reports."""
    monkeypatch.setattr("keras_transformer.model.steps_in_halves", lambda model: in_halves)
    keras.utils.set_random_seed(1)
    model = compiled(loss, dtype=dtype)
    if loss and loss.distillation:
        model.learn_from([compiled()])
    inputs, labels, weights = keras.tree.map_structure(lambda values: values[:rows], batch())
    history = model.fit(
        inputs, labels, sample_weight=weights if weighted else None, batch_size=B, verbose=0
    )
    return model.get_weights(), {name: values[0] for name, values in history.history.items()}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_step_in_halves_is_the_step(monkeypatch, rows, weighted):
    """Of one row the first half is empty."""
    weights, report = fitted(monkeypatch, True, rows, weighted)
    expected_weights, expected_report = fitted(monkeypatch, False, rows, weighted)
    for ours, whole in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(ours, whole, atol=2e-6)
    assert report == pytest.approx(expected_report, abs=1e-6)
    assert report.keys() == {"loss", "nll", "accuracy"}


def test_halves_have_two_passes_each_with_r_drop(monkeypatch):
    """Without dropout the passes agree, and the step is that on one pass."""
    loss = LabelSmoothedCrossEntropy(0.1, r_drop=5.0)
    weights, report = fitted(monkeypatch, True, weighted=True, loss=loss)
    expected_weights, expected_report = fitted(monkeypatch, False, weighted=True)
    for ours, whole in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(ours, whole, atol=2e-6)
    assert report == pytest.approx(expected_report, abs=1e-6)


def test_halves_learn_of_teachers_each(monkeypatch):
    loss = LabelSmoothedCrossEntropy(0.1, distillation=0.7)
    weights, report = fitted(monkeypatch, True, weighted=True, loss=loss)
    expected_weights, expected_report = fitted(monkeypatch, False, weighted=True, loss=loss)
    for ours, whole in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(ours, whole, atol=2e-6)
    assert report == pytest.approx(expected_report, abs=1e-6)
    untaught = fitted(monkeypatch, True, weighted=True)[0]
    assert (
        max(np.abs(one - other).max() for one, other in zip(weights, untaught, strict=True)) > 1e-3
    )


def test_a_scaled_loss_is_scaled_in_halves_too(monkeypatch):
    """In float16 the gradients are of the loss times 32,768."""
    keras.utils.set_random_seed(1)
    before = compiled(dtype="mixed_float16").get_weights()
    weights, report = fitted(monkeypatch, True, dtype="mixed_float16")
    assert max(abs(new - old).max() for new, old in zip(weights, before, strict=True)) > 0.1
    expected_weights, expected_report = fitted(monkeypatch, False, dtype="mixed_float16")
    for ours, whole in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(ours, whole, atol=2e-3)
    assert report == pytest.approx(expected_report, abs=2e-3)


def test_padding_alone_makes_no_step(monkeypatch):
    monkeypatch.setattr("keras_transformer.model.steps_in_halves", lambda model: True)
    model = compiled()
    before = model.get_weights()
    inputs, labels, _ = batch()
    assert model.train_on_batch(inputs, 0 * labels)[0] == 0
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_a_data_set_may_end_in_each_epoch(monkeypatch):
    """A model of this size is where a temporary variable would be made of the sum of the losses."""
    import tensorflow as tf

    monkeypatch.setattr("keras_transformer.model.steps_in_halves", lambda model: True)
    model = Transformer.from_preset("base", vocab_size=7500)
    model.compile("sgd", LabelSmoothedCrossEntropy(0.1), jit_compile=False)
    inputs, labels, _ = batch()
    ids = tf.TensorSpec([None, None], tf.int32)
    signature = ({"source": ids, "target": ids}, ids)
    data = tf.data.Dataset.from_generator(lambda: [(inputs, labels)], output_signature=signature)
    losses = model.fit(data, epochs=3, shuffle=False, verbose=0).history["loss"]
    assert losses[0] > losses[1] > losses[2]


@pytest.fixture
def two_cores(monkeypatch):
    """TensorFlow as `prepare_cpu` makes it with two cores."""
    import tensorflow as tf

    threading = tf.config.threading
    monkeypatch.setattr(threading, "get_intra_op_parallelism_threads", lambda: 1)
    monkeypatch.setattr(threading, "get_inter_op_parallelism_threads", lambda: 2)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: [])


def in_a_graph(model):
    import tensorflow as tf

    found = []
    tf.function(lambda: found.append(steps_in_halves(model))).get_concrete_function()
    return found[0]


def test_a_step_is_in_halves_where_two_operations_run_with_one_thread_each(two_cores):
    assert in_a_graph(compiled())


def test_a_step_is_whole_where_operations_are_divided():
    assert not in_a_graph(compiled())


@pytest.mark.parametrize(
    "model",
    [
        lambda: compiled(keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
        lambda: compiled(jit_compile=True),
    ],
    ids=["another loss", "XLA"],
)
def test_a_step_is_whole_with(two_cores, model):
    assert not in_a_graph(model())


def test_an_eager_step_is_whole(two_cores):
    assert not steps_in_halves(compiled())


def test_a_step_is_whole_on_a_gpu(two_cores, monkeypatch):
    model = compiled()
    monkeypatch.setattr("tensorflow.config.list_physical_devices", lambda kind: ["GPU:0"])
    assert not in_a_graph(model)


def test_a_subclass_keeps_a_whole_step(two_cores, monkeypatch):
    """Its own loss and metrics may not be means over tokens."""

    class Other(Transformer):
        pass

    monkeypatch.setattr(
        "keras_transformer.model.train_step_in_halves", lambda *args: pytest.fail("in halves")
    )
    inputs, labels, _ = batch()
    assert compiled(kind=Other).train_on_batch(inputs, labels)[0] > 0


def test_each_replica_makes_a_whole_step(two_cores):
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        assert not in_a_graph(compiled())
