"""A model that a person can check, and servers for it."""

import asyncio
import contextlib
import functools
import json
import time
from types import SimpleNamespace

import grpc
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client.parser import text_string_to_metric_families
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_transformer.config.record import ExportRecord
from tests.helpers import page
from tests.helpers.model_server import ModelServer

STRINGS, SOURCE, TARGET = (
    tf.TensorSpec([None], tf.string, name=name)
    for name in ("text", "source_language", "target_language")
)


class Shout(tf.Module):
    """It writes in capitals, after a prefix."""

    def __init__(self, prefix=""):
        super().__init__()
        self.prefix = tf.Variable(prefix, trainable=False)

    @tf.function(input_signature=[STRINGS])
    def shout(self, text):
        return {"translation": self.prefix + tf.strings.upper(text, encoding="utf-8")}

    @tf.function(input_signature=[STRINGS])
    def score(self, text):
        length = tf.strings.length(text, unit="UTF8_CHAR")
        return {**self.shout(text), "score": tf.cast(length, tf.float32) / 10, "length": length}

    @tf.function(input_signature=[STRINGS])
    def strict(self, text):
        """Fails for a request with "bad" in it, and counts the rows of the batch."""
        with tf.control_dependencies(
            [tf.debugging.assert_none_equal(text, "bad", message="bad text")]
        ):
            return {"rows": tf.fill(tf.shape(text), tf.shape(text)[0])}

    @tf.function(input_signature=[STRINGS])
    def first(self, text):
        return {"translation": text[:1]}

    @tf.function(input_signature=[STRINGS, SOURCE, TARGET])
    def between(self, text, source_language, target_language):
        return {"translation": tf.strings.join([source_language, target_language, text], " ")}

    @tf.function(input_signature=[STRINGS])
    def slow(self, text):
        """Takes about a second per hundred thousand rounds that the text says."""
        rounds = tf.strings.to_number(text[0], tf.int32)
        total = tf.while_loop(lambda i: i < rounds, lambda i: [i + 1], [0])[0]
        return {"rounds": tf.fill(tf.shape(text), total)}

    @tf.function(input_signature=[STRINGS])
    def wait(self, text):
        """Takes until the file that the text names exists."""
        is_absent = lambda i: tf.equal(tf.size(tf.io.matching_files(text)), 0)  # noqa: E731
        total = tf.while_loop(is_absent, lambda i: [i + 1], [0])[0]
        return {"waited": tf.fill(tf.shape(text), total >= 0)}

    @tf.function(input_signature=[STRINGS])
    def heads(self, text):
        rows, length = tf.size(text), tf.reduce_max(tf.strings.length(text))
        weights = tf.ones([rows, 2, 4, length, length])
        return {"weights": tf.ensure_shape(weights, [None, 2, 4, None, None])}

    @tf.function(input_signature=[])
    def nothing(self):
        return {"one": tf.ones([1])}

    @tf.function(input_signature=[STRINGS, tf.TensorSpec([None], tf.string, name="translation")])
    def pair(self, text, translation):
        return {"joined_bytes": tf.strings.join([text, translation], "|")}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def double(self, x):
        return {"y": 2 * x}


RECORD = {
    "model": {"num_layers": 2, "d_model": 8, "target_vocab_size": None, "vocab_size": 100},
    "decoding": {"beam_size": 1, "max_source_length": 512, "extra_length": 9, "max_length": None},
}


def save(path, prefix="", row_wise=()):
    """Save the model; if it has row-wise signatures, with the record of an export that says so."""
    model = Shout(prefix)
    names = ("score", "strict", "first", "slow", "wait", "pair", "double", "heads", "nothing")
    signatures = {name: getattr(model, name) for name in names}
    signatures |= {"serving_default": model.shout, "translate": model.between}
    tf.saved_model.save(model, str(path), signatures)
    if row_wise:
        ExportRecord(signatures=dict.fromkeys(row_wise, {}), **RECORD).write(path)
    return path


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """The directory of a model with one version, 3. Tests must not change it."""
    base = tmp_path_factory.mktemp("models") / "shout"
    save(base / "3")
    return base


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """Two versions, whose answers begin with their numbers."""
    directory = tmp_path_factory.mktemp("exports")
    return {number: save(directory / str(number), f"{number}:") for number in (1, 2)}


def connect(server, name="shout"):
    """Return ways to talk to a server: `post`, `get`, `predict`, `channel`."""
    channel = grpc.insecure_channel(f"localhost:{server.port}")
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)

    def ask(*request, **options):
        response = page.ask(server.rest_port, *request, **options)
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(response.body) if is_json else response.body

    def post(body, model=name, headers=None):
        body = body if isinstance(body, str | bytes) else json.dumps(body)
        return ask("POST", f"/v1/models/{model}:predict", body, headers)

    def predict(inputs, signature="", output_filter=(), timeout=60, version=None, **spec):
        version = version and {"value": version}
        spec = {"name": name, "signature_name": signature, "version": version, **spec}
        request = predict_pb2.PredictRequest(model_spec=spec, output_filter=output_filter)
        for key, value in inputs.items():
            is_proto = isinstance(value, TensorProto)
            request.inputs[key].CopyFrom(value if is_proto else tf.make_tensor_proto(value))
        outputs = stub.Predict(request, timeout=timeout).outputs
        return {name: tf.make_ndarray(outputs[name]).tolist() for name in outputs}

    health = health_pb2_grpc.HealthStub(channel)
    return SimpleNamespace(
        ask=ask,
        post=post,
        get=lambda path: ask("GET", path),
        predict=predict,
        channel=channel,
        stub=stub,
        models=model_service_pb2_grpc.ModelServiceStub(channel),
        health=lambda name: health.Check(health_pb2.HealthCheckRequest(service=name)).status,
        server=server,
    )


@contextlib.contextmanager
def serving(base="", name="shout", **settings):
    """Serve a model in the block, for a client that `connect` returns."""
    with ModelServer(base, name, **settings) as server:
        yield connect(server, name)


@pytest.fixture(scope="module")
def plain(base):
    """A client of a server that does not batch."""
    with serving(base) as client:
        yield client


@pytest.fixture(scope="module")
def port(plain):
    return plain.server.rest_port


@pytest.fixture(scope="module")
def passing(port):
    """The page in front of that server."""
    with page.Passing(f"http://localhost:{port}") as front:
        yield front


def grpc_error(function, *arguments, **options):
    """Return the code and the message of a gRPC error."""
    with pytest.raises(grpc.RpcError) as error:
        function(*arguments, **options)
    return error.value.code().name, error.value.details()


def wait_for_users(client, count):
    """Wait until as many requests are at work in a server."""
    served = client.server.server.predictor.versions.of("shout").served
    wait(lambda: sum(version.users for version in served.values()) >= count)


def wait(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def in_event_loop(test):
    """Decorate a test that is a coroutine."""

    @functools.wraps(test)
    def run(*arguments, **fixtures):
        return asyncio.run(test(*arguments, **fixtures))

    return run


def samples(client, name):
    """Return the values of a metric by the values of its labels, in the order of their names."""
    text = client.get("/monitoring/prometheus/metrics")[1].decode()
    families = text_string_to_metric_families(text.replace(":tensorflow:", "tensorflow:"))
    found = (sample for family in families for sample in family.samples if sample.name == name)
    return {tuple(v for _, v in sorted(one.labels.items())): one.value for one in found}
