"""An exported model in a model server that pipelines.serve starts.

Each test runs with the server of this package and, if it is installed, with
tensorflow_model_server.
"""

import base64
import contextlib
import json
import re
import shlex
import shutil
import time
from types import SimpleNamespace

import grpc
import pytest
import tensorflow as tf
import urllib3
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

from benchmarks.machine import free_ports
from keras_transformer.export import export_saved_model
from pipelines import client
from tests.helpers.programs import start_serve
from tests.helpers.tiny import (
    NO_UTF8,
    ODD,
    ROOT,
    export_quickly,
    tiny_translator,
    toy_sentences,
)

pytestmark = pytest.mark.slow  # A server starts for each kind of model.

REAL = "tensorflow_model_server"
needs_real = pytest.mark.skipif(
    shutil.which(REAL) is None,
    reason=f"{REAL} is not on PATH: install it as python -m pipelines.serve says",
)
SENTENCES = [*toy_sentences(9), "", "😀", "red"]


@pytest.fixture(scope="module", params=["python", pytest.param("tensorflow", marks=needs_real)])
def engine(request):
    """The server that pipelines.serve starts."""
    return request.param


@contextlib.contextmanager
def serving(model, engine, log, *options):
    """Serve a directory, or a file in it; yield the server's addresses once it answers."""
    port, rest_port = free_ports(2)
    served = ["--model-config-file" if model.is_file() else "--model", model]
    model = model.parents[1] if model.is_file() else model
    served += ["--engine", engine, "--port", port, "--rest-port", rest_port, "--threads", "1"]
    with log.open("w") as file:
        process = start_serve(*served, *options, stdout=file, stderr=file)
    server = SimpleNamespace(rest=f"localhost:{rest_port}", grpc=f"localhost:{port}")
    server.url = f"http://{server.rest}/v1/models/{model.name}"
    try:
        wait(lambda: process.poll() is not None or versions(server), log)
        assert process.poll() is None, log.read_text()
        yield server
    finally:
        process.terminate()
        process.wait()


def wait(until, log):
    deadline = time.monotonic() + 180
    while not until():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def versions(server):
    """Return the versions that are ready; none while the server does not answer."""
    try:
        states = urllib3.request("GET", server.url, retries=False).json()["model_version_status"]
    except urllib3.exceptions.HTTPError:
        return set()
    return {state["version"] for state in states if state["state"] == "AVAILABLE"}


@pytest.fixture(scope="module")
def translator():
    return tiny_translator(beam_size=2, extra_length=6, max_source_length=24)


@pytest.fixture(scope="module")
def server(engine, translator, tmp_path_factory):
    """A server with the exported translator, which tests do not change."""
    directory = tmp_path_factory.mktemp("served")
    export_quickly(translator, directory / "toy")
    with serving(directory / "toy", engine, directory / "log", "--batching") as server:
        yield server


def post(url, body):
    """Return the status and the answer to a Predict request in JSON."""
    body = body if isinstance(body, str) else json.dumps(body)
    response = urllib3.request("POST", f"{url}:predict", body=body, timeout=60)
    return response.status, response.json()


@pytest.mark.parametrize(
    "request_key, texts, answer_key",
    [
        ("instances", SENTENCES, "predictions"),
        ("instances", [{"text": text} for text in SENTENCES], "predictions"),
        ("inputs", SENTENCES, "outputs"),
        ("inputs", {"text": SENTENCES}, "outputs"),
    ],
    ids=["rows", "rows with names", "columns", "columns with names"],
)
def test_rest_returns_the_translators_strings(request_key, texts, answer_key, server, translator):
    expected = translator(SENTENCES)
    assert len(set(expected)) > 9
    assert post(server.url, {request_key: texts}) == (200, {answer_key: expected})
    named = {request_key: texts, "signature_name": "serving_default"}
    assert post(f"{server.url}/versions/1", named) == (200, {answer_key: expected})


def translate_bytes(translator, texts):
    return translator.translate(tf.constant(texts, tf.string)).numpy().tolist()


def test_rest_accepts_any_bytes(server, translator):
    texts = [text.encode() for text in ODD] + NO_UTF8
    expected = [text.decode() for text in translate_bytes(translator, texts)]
    encoded = [{"b64": base64.b64encode(text).decode()} for text in texts]
    assert post(server.url, {"instances": encoded}) == (200, {"predictions": expected})


@pytest.mark.parametrize("texts", [[text.encode() for text in ODD] + NO_UTF8, []])
def test_grpc_accepts_any_bytes_and_an_empty_batch(texts, engine, server, translator):
    if engine == "tensorflow" and not texts:
        pytest.skip("TensorFlow's server leaves zero rows without an answer when it batches.")
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "toy"
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts, tf.string, [len(texts)]))
    with grpc.insecure_channel(server.grpc) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        outputs = stub.Predict(request, timeout=60).outputs
    assert list(outputs) == ["translation"]
    expected = translate_bytes(translator, texts)
    assert tf.make_ndarray(outputs["translation"]).tolist() == expected


def test_a_request_may_be_as_large_as_a_batch(server, translator):
    texts = [SENTENCES[i % len(SENTENCES)] for i in range(64)]
    assert post(server.url, {"instances": texts}) == (200, {"predictions": translator(texts)})
    status, answer = post(server.url, {"instances": [*texts, "red"]})
    assert status == 400 and "larger than maximum input batch size 64" in answer["error"]


def test_the_file_of_models_of_an_export_is_served(engine, translator, tmp_path):
    export_quickly(translator, tmp_path / "toy")
    file = tmp_path / "toy" / "serving" / "models.config"
    label = 'version_labels { key: "stable" value: 1 }'
    file.write_text(file.read_text().replace("base_path:", f"{label}\n    base_path:"))
    with serving(file, engine, tmp_path / "log") as server:
        expected = (200, {"predictions": translator(SENTENCES)})
        assert post(server.url, {"instances": SENTENCES}) == expected
        assert post(f"{server.url}/labels/stable", {"instances": SENTENCES}) == expected


@pytest.mark.parametrize("api", ["rest", "grpc"])
def test_the_client_prints_the_translations_of_the_translator(api, server, translator, capsys):
    address = {"rest": ["--url", server.rest], "grpc": ["--grpc", server.grpc]}[api]
    options = ["--model", "toy", *address, "--batch-size", "2", "--in-flight", "3"]
    client.main([*options, *SENTENCES])
    assert capsys.readouterr().out.split("\n")[:-1] == translator(SENTENCES)


def test_the_readmes_request_is_answered(server, translator):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^curl .*:predict$", readme, re.MULTILINE)
    _, option, body, url = shlex.split(line)
    assert option == "-d"
    assert url.endswith("localhost:8501/v1/models/en_de:predict")
    expected = translator(json.loads(body)["instances"])
    assert post(server.url, body) == (200, {"predictions": expected})


def test_status_and_metadata_are_answered(server):
    assert versions(server) == {"1"}
    metadata = urllib3.request("GET", f"{server.url}/metadata").json()["metadata"]
    signature = metadata["signature_def"]["signature_def"]["serving_default"]
    for side, name in ("inputs", "text"), ("outputs", "translation"):
        assert list(signature[side]) == [name]
        assert signature[side][name]["dtype"] == "DT_STRING"
        (dimension,) = signature[side][name]["tensor_shape"]["dim"]
        assert dimension["size"] == "-1"


@pytest.mark.parametrize(
    "model, body, status, message",
    [
        ("toy", '{"instances": []}', 400, "No values in 'instances' array"),
        ("toy", '{"instances": [1]}', 400, "is not of expected type: string"),
        ("toy", '{"instances": [{"text": "a", "to": "b"}]}', 400, "Failed to process element: 0 "),
        ("toy", '{"inputs": {"source": ["a"]}}', 400, "Missing named input: text"),
        ("toy", '{"inputs": ["a"], "instances": ["a"]}', 400, "keys to exist"),
        ("toy", '{"text": "a"}', 400, "Missing 'inputs' or 'instances' key"),
        ("toy", '{"instances": ["\\ud800"]}', 400, "JSON Parse error"),
        ("toy", '{"instances": ["a"', 400, "JSON Parse error"),
        ("toy", '{"signature_name": "b", "inputs": ["a"]}', 400, 'name: "b" not found'),
        ("toy/versions/2", '{"inputs": ["a"]}', 404, "Servable not found for request: Specific"),
        ("other", '{"inputs": ["a"]}', 404, "Servable not found for request: Latest(other)"),
    ],
)
def test_bad_requests_are_refused(model, body, status, message, server):
    received, answer = post(f"http://{server.rest}/v1/models/{model}", body)
    assert received == status
    assert list(answer) == ["error"]
    assert message in answer["error"]


def test_a_server_warms_up_and_batches_requests(engine, translator, tmp_path, capsys):
    model, log = tmp_path / "toy", tmp_path / "log"
    export_saved_model(translator, model)
    sentences = toy_sentences(64)
    with serving(model, engine, log, "--batching") as server:
        options = ["--model", "toy", "--url", server.rest, "--batch-size", "1"]
        client.main([*options, "--in-flight", "16", *sentences])
        metrics = urllib3.request("GET", f"http://{server.rest}/monitoring/prometheus/metrics")
    assert capsys.readouterr().out.split("\n")[:-1] == translator(sentences)
    names = ":tensorflow:serving:model_warmup_latency", ":tensorflow:serving:batching_session"
    for name in names:
        assert name in metrics.data.decode(), log.read_text()
