"""The checks that every layer must pass, in one call."""

import inspect
import json
import tempfile

import keras
import numpy as np


def run_layer_checks(
    layer_class, arguments, inputs, *, num_weights, num_parameters, output_dtype=None, **options
):
    """Check everything that users expect of any layer.

    That is: configuration, functional models, `.keras` files, compiled graphs of dynamic shape,
    dropout, and dtype policies.

    Args:
        layer_class: Class of the layer.
        arguments: Arguments of its constructor; dropout rates are above 0.
        inputs: Tensor arguments of `call` as NumPy arrays with unequal axes. The last axis of a
            float array has a known size, an axis of size 1 stays 1, others may be unknown.
        num_weights: Number of variables.
        num_parameters: Number of their elements.
        output_dtype: Dtype of the first output, if not the compute dtype of the layer's policy.
        **options: Other arguments of `call`.
    """
    layer = layer_class(**arguments)
    layer(**inputs, **options)
    assert len(layer.weights) == len({weight.path for weight in layer.weights}) == num_weights
    assert layer.count_params() == num_parameters
    randomize(layer)
    expected = arrays_of(layer(**inputs, **options))

    check_config_round_trip(layer, arguments)
    check_functional_model(layer, inputs, options, expected)
    check_compiled(layer, inputs, options, expected)
    check_dropout(layer, arguments, inputs, options, expected)
    policies = ["float16", "mixed_bfloat16", "mixed_float16", "bfloat16"]
    if keras.backend.backend() != "tensorflow":
        del policies[2:]  # JAX would compile each operation once more for each policy.
    for policy in policies:
        dtype = policy.removeprefix("mixed_")
        tolerance = {"float16": 0.01, "bfloat16": 0.08}[dtype]
        check_policy(layer, policy, tolerance, output_dtype or dtype, inputs, options, expected)


def randomize(layer, seed=1):
    """Move all weights away from their initial values: a bias of 0 or a scale of 1 hides bugs."""
    random = np.random.default_rng(seed)
    layer.set_weights([w + 0.2 * random.normal(size=w.shape) for w in layer.get_weights()])


def as_list(result):
    return list(result) if isinstance(result, list | tuple) else [result]


def arrays_of(result):
    """Return the outputs of a call as a list of NumPy arrays, floats as float32."""
    return [as_array(tensor) for tensor in as_list(result)]


def as_array(tensor):
    """Return a tensor as a NumPy array, floats as float32."""
    if "float" in keras.backend.standardize_dtype(tensor.dtype):
        tensor = keras.ops.cast(tensor, "float32")
    return keras.ops.convert_to_numpy(tensor)


def value_and_gradient(function, x, dtype="float32"):
    """Return function(x) and its gradient with respect to x, on any backend."""
    x = keras.ops.cast(keras.ops.convert_to_tensor(x), dtype)
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                tape.watch(x)
                value = function(x)
            return float(value), as_array(tape.gradient(value, x))
        case "jax":
            import jax

            value, gradient = jax.jit(jax.value_and_grad(function))(x)
            return float(value), as_array(gradient)
        case "torch":
            x = x.detach().requires_grad_()
            value = function(x)
            value.backward()
            return float(value), as_array(x.grad)


def assert_close(received, expected, tolerance=1e-5):
    assert [array.shape for array in received] == [array.shape for array in expected]
    for one, other in zip(received, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


def saved_and_loaded(model):
    """Return the model after saving it to a `.keras` file and loading it."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        return keras.models.load_model(f"{folder}/model.keras")


def check_config_round_trip(layer, arguments):
    copy = keras.saving.deserialize_keras_object(
        json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
    )
    assert type(copy) is type(layer)
    assert copy.get_config() == layer.get_config()
    assert arguments.items() <= copy.get_config().items()


def symbols_for(inputs, shape_of):
    return {
        name: keras.Input(batch_shape=shape_of(array), dtype=array.dtype.name, name=name)
        for name, array in inputs.items()
    }


def with_unknown_lengths(array):
    width = array.ndim - 1 if array.dtype.kind == "f" else None
    return tuple(
        n if axis and (axis == width or n == 1) else None for axis, n in enumerate(array.shape)
    )


def check_functional_model(layer, inputs, options, expected):
    """Check symbolic shapes, known and unknown, and the outputs before and after saving."""
    symbolic = as_list(layer(**symbols_for(inputs, np.shape), **options))
    assert [tensor.shape for tensor in symbolic] == [array.shape for array in expected]

    symbols = symbols_for(inputs, with_unknown_lengths)
    symbolic = layer(**symbols, **options)
    for tensor, array in zip(as_list(symbolic), expected, strict=True):
        assert tensor.shape[0] is None
        assert all(n in (None, size) for n, size in zip(tensor.shape, array.shape, strict=True))

    model = keras.Model(symbols, symbolic)
    assert_close(arrays_of(model(inputs)), expected)
    assert_close(arrays_of(saved_and_loaded(model)(inputs)), expected)


def check_compiled(layer, inputs, options, expected):
    """Check one graph for all batch sizes and lengths, or a function compiled by JAX."""

    def call(arrays):
        return layer(**arrays, **options)

    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        specs = {n: tf.TensorSpec(with_unknown_lengths(a), a.dtype) for n, a in inputs.items()}
        call = tf.function(call, input_signature=[specs], autograph=False)
    elif keras.backend.backend() == "jax":
        import jax

        call = jax.jit(call)
    assert_close(arrays_of(call(inputs)), expected)


def check_dropout(layer, arguments, inputs, options, expected):
    assert_close(arrays_of(layer(**inputs, **options)), expected, tolerance=0)
    if "training" in inspect.signature(layer.call).parameters:
        one, other = (as_list(layer(**inputs, **options, training=True))[0] for _ in range(2))
        drops = any(
            ("dropout" in name or name == "rate") and rate > 0 for name, rate in arguments.items()
        )
        assert np.array_equal(as_array(one), as_array(other)) is not drops


def check_policy(layer, policy, tolerance, dtype, inputs, options, expected):
    copy = type(layer).from_config({**layer.get_config(), "dtype": policy})
    assert as_list(copy(**symbols_for(inputs, np.shape), **options))[0].dtype == dtype
    variable_dtype = keras.dtype_policies.get(policy).variable_dtype
    assert {weight.dtype for weight in copy.trainable_weights} <= {variable_dtype}
    copy.set_weights(layer.get_weights())
    result = copy(**inputs, **options)
    assert keras.backend.standardize_dtype(as_list(result)[0].dtype) == dtype
    assert_close(arrays_of(result), expected, tolerance)
