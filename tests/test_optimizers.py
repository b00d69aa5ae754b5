import keras
import numpy as np
import pytest
from keras import ops
from layer_checks import as_array

from keras_transformer.optimizers import FusedAdam
from keras_transformer.schedules import NoamSchedule

V, D = 11, 5
OPTIONS = {"beta_1": 0.8, "beta_2": 0.98, "epsilon": 1e-4}


def fitted(optimizer, embed, **options):
    """Train a model for 6 steps on batches in which ids come more than once."""
    table = np.random.default_rng(1).normal(size=(V, D))
    initializer = keras.initializers.Constant(table)
    ids = keras.Input((4,), dtype="int32")
    if embed:
        hidden = keras.layers.Embedding(V, D, initializer, name="table")(ids)
    else:
        layer = keras.layers.Dense(D, use_bias=False, kernel_initializer=initializer, name="table")
        hidden = layer(ops.one_hot(ids, V))
    outputs = keras.layers.Dense(3, kernel_initializer="ones", name="outputs")(hidden)
    model = keras.Model(ids, outputs)
    model.compile(optimizer, "mse", **options)
    random = np.random.default_rng(2)
    inputs, labels = random.integers(0, 9, (12, 4)), random.normal(size=(12, 4, 3))
    model.fit(inputs, labels, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return model


@pytest.mark.parametrize("embed", [False, True])
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("rate", [0.1, NoamSchedule(8, warmup_steps=3)], ids=["rate", "schedule"])
def test_its_steps_are_those_of_keras_on_dense_gradients(rate, eager, embed):
    options = {"jit_compile": False, "run_eagerly": eager}
    model = fitted(FusedAdam(rate, **OPTIONS), embed, **options)
    plain = fitted(keras.optimizers.Adam(rate, **OPTIONS), embed=False, **options)
    assert int(model.optimizer.iterations) == 6
    received = [*model.weights, *model.optimizer.variables]
    expected = [*plain.weights, *plain.optimizer.variables]
    assert len(received) > 3 + 2 * 3  # Weights and moments.
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(as_array(one), as_array(other), atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.function")
@pytest.mark.parametrize("scaled", [False, True])
def test_steps_are_the_same_several_at_a_time_and_with_a_scaled_loss(scaled):
    optimizer = FusedAdam(0.1, **OPTIONS)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)
    model = fitted(optimizer, embed=True, steps_per_execution=2, jit_compile=False)
    plain = fitted(keras.optimizers.Adam(0.1, **OPTIONS), embed=False)
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_its_state_has_the_names_of_keras():
    names = [
        [variable.path for variable in fitted(optimizer, embed=True).optimizer.variables]
        for optimizer in (FusedAdam(0.1, name="adam"), keras.optimizers.Adam(0.1, name="adam"))
    ]
    assert names[0] == names[1]


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.function")
def test_in_a_graph_it_is_compiled_as_a_whole():
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        pytest.skip("for machines without a GPU")
    weights = [keras.Variable([[1.0, 2.0]]), keras.Variable([3.0])]
    optimizer = FusedAdam(0.1)
    optimizer.build(weights)

    @tf.function
    def step(*grads):
        optimizer.apply(list(grads), weights)

    graph = step.get_concrete_function(*(tf.ones(w.shape) for w in weights)).graph.as_graph_def()
    (function,) = graph.library.function
    assert function.attr["_XlaMustCompile"].b
    assert [node.op for node in function.node_def].count("Sqrt") >= len(weights)
    assert "Sqrt" not in {node.op for node in graph.node}


def test_serialisation_keeps_its_numbers():
    config = keras.saving.serialize_keras_object(FusedAdam(0.25, **OPTIONS))
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, FusedAdam)
    assert float(as_array(copy.learning_rate)) == 0.25
    assert {name: getattr(copy, name) for name in OPTIONS} == OPTIONS
