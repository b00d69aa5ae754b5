"""What Keras users do with any model, done with ours."""

import inspect

import keras
import numpy as np
import pytest

from keras_transformer import Transformer, TransformerConfig
from keras_transformer.layers import SinusoidalPositionEncoding
from keras_transformer.losses import LabelSmoothedCrossEntropy
from tests.helpers.layer_checks import as_array, saved_and_loaded

IDS = {
    "source": np.array([[5, 6, 7, 3], [8, 3, 0, 0]], "int32"),
    "target": np.array([[2, 9, 10], [2, 11, 0]], "int32"),
}


def build(**options):
    sizes = {"vocab_size": 30, "num_layers": 2, "d_model": 12, "d_ff": 20, "num_heads": 3}
    return Transformer(TransformerConfig(**sizes | options))


@pytest.mark.slow
def test_keras_export_has_named_inputs_of_any_shape(tmp_path):
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("exports of another backend have other tools")
    model = build()
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    signature = loaded.signatures["serving_default"]
    assert set(signature.structured_input_signature[1]) == {"source", "target"}
    (logits,) = signature(**{name: tf.constant(ids) for name, ids in IDS.items()}).values()
    np.testing.assert_allclose(as_array(logits), as_array(model(IDS)), atol=1e-5)
    longer = {name: np.tile(ids, (2, 2)) for name, ids in IDS.items()}
    (logits,) = signature(**{name: tf.constant(ids) for name, ids in longer.items()}).values()
    assert logits.shape == (4, 6, 30)


def run_onnx(path, inputs):
    session = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    assert [node.name for node in session.get_inputs()] == ["source", "target"]
    return session.run(None, inputs)[0]


def run_litert(path, inputs):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(path))
    assert interpreter.get_signature_list()["serving_default"]["inputs"] == ["source", "target"]
    (logits,) = interpreter.get_signature_runner()(**inputs).values()
    return logits


@pytest.mark.slow
@pytest.mark.parity
@pytest.mark.parametrize(
    ("format", "needs", "run"),
    [("onnx", "tf2onnx", run_onnx), ("litert", "ai_edge_litert", run_litert)],
)
@pytest.mark.filterwarnings("ignore::FutureWarning:keras")  # Keras asks for numpy.object.
def test_keras_exports_to_other_formats(format, needs, run, tmp_path):
    pytest.importorskip(needs)
    if keras.backend.backend() != "tensorflow":
        pytest.skip("exports of another backend have other tools")
    model, path = build(), tmp_path / "model.tflite"
    model.export(path, format=format, verbose=False)
    longer = {name: np.tile(ids, (2, 2)) for name, ids in IDS.items()}
    for inputs in (IDS, longer):
        np.testing.assert_allclose(run(path, inputs), as_array(model(inputs)), atol=1e-5)


@keras.saving.register_keras_serializable(package="tests")
class WithLengths(Transformer):
    """A Transformer that also predicts the length of the translation."""

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.head = keras.layers.Dense(1)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, inputs, training=None):
        memory, mask = self.encode(inputs["source"], training=training)
        logits, _ = self.decode(inputs["target"], memory, mask, training=training)
        return {"logits": logits, "length": self.scale * self.head(memory[:, 0])}


def test_a_subclass_may_add_layers_and_weights():
    config = build().config
    model = WithLengths(config)
    outputs = model(IDS)
    assert len(model.weights) == len(build().weights) + 3
    loaded = saved_and_loaded(model)
    for name, expected in outputs.items():
        np.testing.assert_allclose(as_array(loaded(IDS)[name]), as_array(expected), atol=1e-6)
    model.head.trainable = model.scale.trainable = False
    loaded = saved_and_loaded(model)
    assert len(loaded.trainable_weights) == len(build().trainable_weights)
    model.trainable = False
    loaded = saved_and_loaded(model)
    assert not any(weight.trainable for weight in loaded.weights)


@keras.saving.register_keras_serializable(package="tests")
class WithBuild(Transformer):
    """A Transformer that adds its weights in `build`, as Keras's guide recommends."""

    def build(self, input_shape):
        super().build(input_shape)
        self.bias = self.add_weight(shape=(30,), initializer="ones", name="bias")

    def call(self, inputs, training=None):
        return super().call(inputs, training=training) + self.bias


def test_a_subclass_may_have_a_build_of_its_own():
    model = WithBuild(build().config)
    model(IDS)
    assert model.bias.shape == (30,)
    np.testing.assert_allclose(as_array(saved_and_loaded(model)(IDS)), as_array(model(IDS)))


def test_an_encoder_can_be_reused_saved_and_cloned():
    model = build()
    source = keras.Input((None,), dtype="int32", name="source")
    memory, _ = model.encode(source)
    classifier = keras.Model(source, keras.layers.Dense(2)(memory[:, 0]))
    expected = as_array(classifier(IDS["source"]))
    np.testing.assert_allclose(as_array(saved_and_loaded(classifier)(IDS["source"])), expected)
    clone = keras.models.clone_model(classifier)
    clone.set_weights(classifier.get_weights())
    np.testing.assert_allclose(as_array(clone(IDS["source"])), expected)


def test_layers_may_be_frozen():
    model = build()
    model.encoder.trainable = False
    model.compile("sgd", LabelSmoothedCrossEntropy(), jit_compile=False)
    before = [as_array(weight) for weight in model.encoder.weights]
    model.fit(IDS, IDS["target"], verbose=0)
    for weight, value in zip(model.encoder.weights, before, strict=True):
        np.testing.assert_array_equal(as_array(weight), value)


def test_a_summary_knows_every_shape(capsys):
    build().summary(expand_nested=True)
    printed = capsys.readouterr().out
    assert "?" not in printed
    assert "source_dropout" in printed and "encoder" in printed


@pytest.mark.parametrize(
    ("inputs", "received"),
    [
        ({"encoder_token_ids": IDS["source"]}, r"\['encoder_token_ids'\]"),
        ([IDS["source"], IDS["target"]], "list"),
    ],
)
def test_other_inputs_are_refused_by_what_is_expected(inputs, received):
    with pytest.raises(ValueError, match=f"must be a dict of 'source' and 'target'.*{received}"):
        build()(inputs)


def test_ragged_ids_are_refused_with_what_to_do():
    tf = pytest.importorskip("tensorflow")
    if keras.backend.backend() != "tensorflow":
        pytest.skip("ragged tensors are of TensorFlow")
    ragged, model = tf.ragged.constant([[5, 6, 3], [7, 3]]), build()
    for inputs in ({**IDS, "source": ragged}, {**IDS, "target": ragged}):
        with pytest.raises(
            ValueError, match=r"must be ids .* ragged tensor. Use `.to_tensor\(0\)`"
        ):
            model(inputs)
    with pytest.raises(ValueError, match=r"Labels must be ids .* Use `.to_tensor\(0\)`"):
        LabelSmoothedCrossEntropy()(ragged, model(IDS))


def test_a_dictionary_as_configuration_is_refused():
    with pytest.raises(ValueError, match="config must be a TransformerConfig, received dict"):
        Transformer({"vocab_size": 30})


def test_the_shape_of_the_logits_is_known_before_a_call():
    shapes = {"source": (None, 7), "target": (None, 5)}
    assert build().compute_output_shape(shapes) == (None, 5, 30)


def test_positions_can_be_serialized_in_any_dtype_policy():
    layer = SinusoidalPositionEncoding(dtype=keras.DTypePolicy("mixed_bfloat16"))
    copy = SinusoidalPositionEncoding.from_config(layer.get_config())
    assert copy.dtype_policy.name == "mixed_bfloat16"


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_gradients_of_means_over_different_numbers_of_tokens_are_not_accumulated(policy):
    keras.config.set_dtype_policy(policy)
    adam = keras.optimizers.Adam(gradient_accumulation_steps=4)
    model = build()
    inputs = {"source": np.ones((2, 7), "int32"), "target": np.ones((2, 5), "int32")}
    model.compile(adam, LabelSmoothedCrossEntropy())
    with pytest.raises(ValueError, match="gradient_accumulation_steps=4 would .*accumulation=4"):
        model.fit(inputs, inputs["target"], verbose=0)
    # Another loss may count otherwise.
    model.compile(adam, "sparse_categorical_crossentropy", jit_compile=False)
    model.fit(inputs, inputs["target"], verbose=0)


def test_weights_of_classes_are_refused_and_weights_of_tokens_are_not():
    model, labels = build(dropout=0.0), IDS["target"]
    model.compile("sgd", LabelSmoothedCrossEntropy(0.0), jit_compile=False)
    for train in (model.fit, model.train_on_batch):
        with pytest.raises(ValueError, match=r"class_weight must be None.*sample_weight \[B, T\]"):
            train(IDS, labels, class_weight={9: 2.0})
    assert list(inspect.signature(model.fit).parameters)[:3] == ["x", "y", "batch_size"]
    weights = np.ones(30)
    weights[10:] = 0
    logits = as_array(model(IDS))
    loss = model.train_on_batch(IDS, labels, sample_weight=weights[labels])
    # What is left of the labels [[2, 9, 10], [2, 11, 0]] are 2, 9 and 2.
    places = [(0, 0, 2), (0, 1, 9), (1, 0, 2)]
    expected = [np.log(np.exp(logits[b, t]).sum()) - logits[b, t, label] for b, t, label in places]
    assert float(np.ravel(loss)[0]) == pytest.approx(np.mean(expected), rel=1e-5)


class Counted(Transformer):
    """A Transformer that counts how often Python makes a step."""

    steps = 0

    def train_step(self, *args):
        self.steps += 1
        return super().train_step(*args)


def test_a_step_is_traced_once():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("other backends trace in other ways")
    model = Counted(build().config)
    model.compile(keras.optimizers.Adam(), LabelSmoothedCrossEntropy(), jit_compile=False)
    inputs = {"source": np.ones((4, 7), "int32"), "target": np.ones((4, 5), "int32")}
    model.fit(inputs, inputs["target"], batch_size=2, epochs=2, verbose=0)
    assert model.steps == 1


def test_a_loaded_model_is_compiled_as_it_was(tmp_path):
    model = build()
    model.compile(keras.optimizers.Adam(0.5), LabelSmoothedCrossEntropy())
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    assert float(copy.optimizer.learning_rate) == 0.5
    assert isinstance(copy.loss, LabelSmoothedCrossEntropy)
