import functools
from collections import Counter

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.optimizers import FusedAdam
from keras_transformer.schedules import NoamSchedule
from tests.helpers.layer_checks import as_array

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


RATES = {"rate": 0.1, "schedule": NoamSchedule(8, warmup_steps=3)}


@functools.cache
def fitted_by_keras(rate="rate", mode="graph"):
    optimizer = keras.optimizers.Adam(RATES[rate], **OPTIONS)
    return fitted(optimizer, embed=False, jit_compile=mode == "jit", run_eagerly=mode == "eager")


@pytest.mark.parametrize("embed", [False, True])
@pytest.mark.parametrize(
    ("rate", "mode"),
    [("rate", "graph"), ("schedule", "graph"), ("schedule", "eager"), ("schedule", "jit")],
)
def test_its_steps_are_those_of_keras_on_dense_gradients(rate, mode, embed):
    if mode == "jit" and keras.backend.backend() != "tensorflow":
        pytest.skip("Keras's own steps")
    options = {"jit_compile": mode == "jit", "run_eagerly": mode == "eager"}
    model = fitted(FusedAdam(RATES[rate], **OPTIONS), embed, **options)
    plain = fitted_by_keras(rate, mode)
    assert int(model.optimizer.iterations) == 6
    received = [*model.weights, *model.optimizer.variables]
    expected = [*plain.weights, *plain.optimizer.variables]
    assert len(received) > 3 + 2 * 3  # Weights and moments.
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(as_array(one), as_array(other), atol=1e-5)


@pytest.mark.parametrize(
    "option",
    [{"clipnorm": 0.1}, {"global_clipnorm": 0.1}, {"clipvalue": 0.01}, {"loss_scale_factor": 8.0}],
    ids=lambda option: "".join(option),
)
def test_gradients_of_an_embedding_are_added_up_before_they_are_changed(option):
    model = fitted(FusedAdam(0.1, **OPTIONS, **option), embed=True, jit_compile=False)
    plain = fitted(keras.optimizers.Adam(0.1, **OPTIONS, **option), False, jit_compile=False)
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.function")
@pytest.mark.parametrize("scaled", [False, True])
def test_steps_are_the_same_several_at_a_time_and_with_a_scaled_loss(scaled):
    optimizer = FusedAdam(0.1, **OPTIONS)
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)
    model = fitted(optimizer, embed=True, steps_per_execution=2, jit_compile=False)
    plain = fitted_by_keras()
    for one, other in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_its_state_has_the_names_of_keras():
    names = []
    for optimizer in (FusedAdam(0.1, name="adam"), keras.optimizers.Adam(0.1, name="adam")):
        variables = fitted(optimizer, embed=True, jit_compile=False).optimizer.variables
        names.append([variable.path for variable in variables])
    assert names[0] == names[1]


def updates_in_a_graph(optimizer, dtype="float32"):
    """Return how often each operation comes in a step on two weights."""
    import tensorflow as tf

    weights = [keras.Variable(values, dtype=dtype) for values in ([[1.0, 2.0]], [3.0])]
    optimizer.build(weights)

    @tf.function
    def step(*gradients):
        optimizer.apply(list(gradients), weights)

    gradients = [tf.ones(weight.shape, dtype) for weight in weights]
    graph = step.get_concrete_function(*gradients).graph
    return Counter(operation.type for operation in graph.get_operations())


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.function")
def test_a_weight_is_updated_by_one_operation():
    operations = updates_in_a_graph(FusedAdam(0.1))
    assert operations["ResourceApplyAdam"] == 2
    assert not {"Sqrt", "AssignSubVariableOp"} & operations.keys()


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.function")
@pytest.mark.parametrize("amsgrad, dtype", [(True, "float32"), (False, "bfloat16")])
def test_what_the_operation_does_not_do_keras_does(amsgrad, dtype):
    operations = updates_in_a_graph(FusedAdam(0.1, amsgrad=amsgrad), dtype)
    assert operations["ResourceApplyAdam"] == 0
    assert operations["Sqrt"] >= 2


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.Variable")
def test_it_takes_variables_of_tensorflow_and_may_be_built_twice():
    import tensorflow as tf

    ours, theirs = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
    for variable, kind in ((ours, FusedAdam), (theirs, keras.optimizers.Adam)):
        optimizer = kind(0.5, **OPTIONS)
        for gradient in ([3.0, -4.0], [1.0, 0.0]):
            optimizer.build([variable])
            optimizer.apply([tf.constant(gradient)], [variable])
    assert abs(ours.numpy() - [1, 2]).min() > 0.4
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="for tf.train.Checkpoint")
def test_a_checkpoint_of_tensorflow_has_its_state(tmp_path):
    import tensorflow as tf

    model = fitted(FusedAdam(0.1, **OPTIONS), embed=True, jit_compile=False)
    path = tf.train.Checkpoint(optimizer=model.optimizer).save(str(tmp_path / "checkpoint"))
    copy = FusedAdam(0.1, **OPTIONS)
    copy.build(model.trainable_variables)
    tf.train.Checkpoint(optimizer=copy).restore(path).assert_existing_objects_matched()
    assert int(copy.iterations) == 6
    for one, other in zip(copy.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(as_array(one), as_array(other))


def test_serialization_keeps_its_numbers():
    config = keras.saving.serialize_keras_object(FusedAdam(0.25, **OPTIONS))
    copy = keras.saving.deserialize_keras_object(config)
    assert isinstance(copy, FusedAdam)
    assert float(as_array(copy.learning_rate)) == 0.25
    assert {name: getattr(copy, name) for name in OPTIONS} == OPTIONS
