"""What TensorFlow Serving answers, this server answers too."""

import base64
import gzip
import json
import math
import zlib

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_management_pb2,
)

from keras_transformer.serving.session import Session
from keras_transformer.serving.tensors import read_tensor, write_tensor
from tests.helpers.page import ask
from tests.serving.conftest import grpc_error, samples, wait


@pytest.mark.parametrize(
    "body, answer",
    [
        ({"instances": ["a", "zwölf"]}, {"predictions": ["A", "ZWÖLF"]}),
        ({"instances": [{"text": "a"}]}, {"predictions": ["A"]}),
        ({"inputs": ["a"]}, {"outputs": ["A"]}),
        ({"inputs": {"text": ["a"]}}, {"outputs": ["A"]}),
        ({"inputs": {"text": ["a"], "extra": 1}}, {"outputs": ["A"]}),
        ({"inputs": []}, {"outputs": []}),
        ({"inputs": "a"}, {"outputs": ["A"]}),  # Flattened.
        ({"inputs": [["a", "b"]]}, {"outputs": ["A", "B"]}),
        ({"inputs": {"b64": base64.b64encode(b"hi").decode()}}, {"outputs": ["HI"]}),
        ({"instances": ["a"], "signature_name": ""}, {"predictions": ["A"]}),
        (
            {"instances": ["abc"], "signature_name": "score"},
            {"predictions": [{"length": 3, "score": 0.3, "translation": "ABC"}]},
        ),
        (
            {"inputs": ["abc"], "signature_name": "score"},
            {"outputs": {"length": [3], "score": [0.3], "translation": ["ABC"]}},
        ),
        (  # A name that ends in _bytes is for bytes.
            {"instances": [{"text": "a", "translation": "b"}], "signature_name": "pair"},
            {"predictions": [{"b64": base64.b64encode(b"a|b").decode()}]},
        ),
        (
            {"instances": [[1, 2.5], [0, -1]], "signature_name": "double"},
            {"predictions": [[2.0, 5.0], [0.0, -2.0]]},
        ),
    ],
)
def test_rest_answers_in_the_form_of_the_request(body, answer, plain):
    assert plain.post(body) == (200, answer)
    assert plain.post(body, "shout/versions/3") == (200, answer)


@pytest.mark.parametrize(
    "body, text",
    [
        (b'"a \xff b"]}', "a \ufffd b"),
        (b'"more"]} and more', "more"),
        (rb'"x\udc00y"]}', "x\ufffd\ufffd\ufffdy"),  # Three bytes that are no UTF-8.
        (rb'"\ud83d\ude00"]}', "😀"),
        (rb'"a\u0000b"]}', "a\0b"),
    ],
)
def test_rest_reads_json_as_generously(body, text, plain):
    body = b'{"signature_name": "first", "instances": [' + body
    assert plain.post(body) == (200, {"predictions": [text]})
    assert plain.post(b"\xef\xbb\xbf" + body) == (200, {"predictions": [text]})  # A BOM.


@pytest.mark.parametrize(
    "body, message",
    [
        ("", "JSON Parse error: The document is empty"),
        ('{"instances": ["a"', "JSON Parse error: .* at offset: "),
        ('{"instances": ["\\ud800"]}', "JSON Parse error: The surrogate pair in string is invalid"),
        ("[" * 100_000, "JSON Parse error: "),
        ('{"inputs": ' + "[" * 400 + "]" * 400 + "}", "nested more than 32 deep"),
        ('{"instances": [' + '{"a": ' * 400 + "1" + "}" * 400 + "]}", "keys must be equal to"),
        ({"inputs": [], "signature_name": "nothing"}, "Failed to get input map for signature"),
        ("[1]", r"JSON Value: \[1\] Is not object"),
        ({"text": "a"}, "Missing 'inputs' or 'instances' key"),
        ({"inputs": ["a"], "instances": ["a"]}, "only one of 'inputs' or 'instances' keys"),
        ({"instances": []}, "No values in 'instances' array"),
        ({"instances": "a"}, "Excepting 'instances' to be an list/array"),
        ({"instances": [1]}, "JSON Value: 1 Type: Number is not of expected type: string"),
        ({"instances": [None]}, "Type: Null is not of expected type: string"),
        ({"instances": [{"b64": "%"}]}, "Unable to base64 decode"),
        ({"instances": ["a", ["b"]]}, "Encountered list at unexpected level: 1 expected < 1"),
        ({"inputs": [["a"], ["b", "c"]]}, "unexpected size: 2 at level: 1 expected size: 1"),
        ({"inputs": [["a"], "b"]}, "found at incorrect level: 2 in the JSON DOM"),
        ({"instances": ["a", {"text": "b"}]}, "Expecting value/list but got object at item 1"),
        ({"instances": [{"text": "a"}, "b"]}, "Expecting object but got list at item 1"),
        ({"instances": [{"text": "a", "x": ""}]}, "Failed to process element: 0 .*equal to: text"),
        ({"inputs": {"source": ["a"]}}, "Missing named input: text in 'inputs' object."),
        ({"inputs": ["a"], "signature_name": 1}, "'signature_name' key must be a string value"),
        ({"inputs": ["a"], "signature_name": "b"}, 'Serving signature name: "b" not found in sig'),
        ({"inputs": ["a"], "signature_name": "pair"}, "inputs is a plain value/list"),
        ({"instances": ["a"], "signature_name": "pair"}, "instances is a plain list"),
        ({"instances": [[1]], "signature_name": "double"}, "Input x must have shape"),
        ({"instances": [["1", 2]], "signature_name": "double"}, "Type: String is not of expected"),
        ({"inputs": ["bad"], "signature_name": "strict"}, "^assertion failed: .bad text"),
    ],
)
def test_rest_refuses_what_is_malformed(body, message, plain):
    status, answer = plain.post(body)
    assert status == 400
    assert list(answer) == ["error"]
    with pytest.raises(ValueError, match=message):
        raise ValueError(answer["error"])


@pytest.mark.parametrize(
    "method, path, status, message",
    [
        ("GET", "/v1/models/other", 404, "Could not find any versions of model other"),
        ("GET", "/v1/models/shout/versions/7", 404, "Could not find version 7 of model shout"),
        ("GET", "/v1/models/shout:predict", 400, "Malformed request: GET /v1/models/shout:predict"),
        ("POST", "/v1/models/other:predict", 404, "Servable not found for request: Latest(other)"),
        (
            "POST",
            "/v1/models/shout/versions/7:predict",
            404,
            "Servable not found for request: Specific(shout, 7)",
        ),
        (
            "POST",
            f"/v1/models/shout/versions/{'9' * 30}:predict",
            400,
            f"Failed to convert version: {'9' * 30} to numeric.",
        ),
        ("POST", "/v1/models/shout:classify", 501, "This server has no classify API."),
        ("GET", "/v1/models/shout/labels/x", 400, "Unrecognized servable version label: x"),
        ("DELETE", "/v1/models/shout", 400, "Malformed request: DELETE /v1/models/shout"),
    ],
)
def test_rest_names_what_it_does_not_have(method, path, status, message, plain):
    assert plain.ask(method, path, "{}") == (status, {"error": message})


@pytest.mark.parametrize("key", ["inputs", "instances"])
def test_rows_are_counted_before_they_are_read(key, plain):
    status, answer = plain.post({key: 1025 * [1]})  # Not strings, either.
    message = "Task size 1025 is larger than maximum input batch size 1024"
    assert (status, answer["error"]) == (400, message)


PREDICT = "/v1/models/shout:predict"


def test_only_small_answers_are_indented(port):
    for size, indented in ((1000, True), (100_000, False)):
        body = {"inputs": ["a" * size, "b"]}
        content = ask(port, "POST", PREDICT, json.dumps(body)).body
        assert json.loads(content) == {"outputs": ["A" * size, "B"]}
        assert (b"\n    " in content) == indented


@pytest.mark.parametrize("address", ["", "http://localhost:8501", "HTTPS://LOCALHOST"])
def test_a_path_may_come_with_an_address(address, plain):
    status, content = plain.get(f"{address}/nothing")  # Outside /v1/, the answer is HTML.
    assert (status, content[:6]) == (404, b"<html>")
    path = "/v1/models/shout/metadata?a=http://b"
    assert plain.get(address + path) == plain.get(path)
    assert plain.get(address + path)[0] == 200
    assert plain.get("http://elsewhere" + path)[0] == 403


def test_a_body_may_be_compressed(plain):
    body = gzip.compress(json.dumps({"inputs": ["a" * 10_000]}).encode())
    headers = {"Content-Encoding": "gzip"}
    assert plain.post(body, headers=headers) == (200, {"outputs": ["A" * 10_000]})
    for wrong in (body[:-10], body + b"more", body + body[:20], 101 * gzip.compress(b"")):
        status, answer = plain.post(wrong, headers=headers)
        assert (status, answer["error"][:20]) == (400, "Failed to decompress")
    members = gzip.compress(b'{"inputs": ') + gzip.compress(b'["a"]') + gzip.compress(b"}")
    for name in ("gzip", "GZIP", "x-gzip"):
        for content in (members, members + bytes(512)):
            answer = plain.post(content, headers={"Content-Encoding": name})
            assert answer == (200, {"outputs": ["A"]})


def test_other_encodings_of_a_body_are_named(plain, port):
    body = b'{"inputs": ["a"]}'
    assert plain.post(body, headers={"Content-Encoding": "identity"})[0] == 200
    for name, sent in (("deflate", zlib.compress(body)), ("br", body), ("gzip, gzip", body)):
        response = ask(port, "POST", PREDICT, sent, {"Content-Encoding": name})
        message = f"The Content-Encoding of a request must be gzip or none, received {name}"
        assert (response.status, json.loads(response.body)) == (415, {"error": message})
        assert response.headers["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "path", ["/", "/v1/models/shout", "/v1/models/shout/metadata", "/languages"]
)
def test_head_is_get_without_a_body(path, port):
    get, head = (ask(port, method, path) for method in ("GET", "HEAD"))
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(get.body)) != "0"


def test_status_and_metadata_are_the_same_over_both_apis(plain):
    state = {"version": "3", "state": "AVAILABLE"}
    state["status"] = {"error_code": "OK", "error_message": ""}
    assert plain.get("/v1/models/shout") == (200, {"model_version_status": [state]})
    request = get_model_status_pb2.GetModelStatusRequest(model_spec={"name": "shout"})
    (received,) = plain.models.GetModelStatus(request).model_version_status
    assert (received.version, received.State.Name(received.state)) == (3, "AVAILABLE")

    status, answer = plain.get("/v1/models/shout/metadata")
    assert status == 200
    assert answer["model_spec"] == {"name": "shout", "signature_name": "", "version": "3"}
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec={"name": "shout"}, metadata_field=["signature_def"]
    )
    received = plain.stub.GetModelMetadata(request)
    assert received.model_spec.version.value == 3
    signatures = get_model_metadata_pb2.SignatureDefMap()
    assert received.metadata["signature_def"].Unpack(signatures)
    assert {"serving_default", "score", "pair"} < signatures.signature_def.keys()
    for name, signature in answer["metadata"]["signature_def"]["signature_def"].items():
        parsed = json_format.ParseDict(signature, type(signatures.signature_def[name])())
        assert parsed == signatures.signature_def[name]


def test_grpc_answers_strings_numbers_and_zero_rows(plain):
    assert plain.predict({"text": [b"a", b"\xc3\xb6"]}) == {"translation": [b"A", "Ö".encode()]}
    assert plain.predict({"x": [[0.5, 1.0]]}, "double") == {"y": [[1.0, 2.0]]}
    nothing = tf.make_tensor_proto([], tf.string, [0])
    assert plain.predict({"text": nothing}) == {"translation": []}
    short = tf.make_tensor_proto(["a", "b"])
    short.tensor_shape.dim[0].size = 3  # TensorFlow repeats the last value.
    assert plain.predict({"text": short}) == {"translation": [b"A", b"B", b"B"]}
    assert plain.predict({"text": ["abc"]}, "score", output_filter=["length"]) == {"length": [3]}


NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64"


@pytest.mark.parametrize("dtype", NUMBERS.split())
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_tensors_of_each_type_are_read_as_they_were_written(dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(tf.as_dtype(dtype).as_numpy_dtype)
    proto = write_tensor(array)
    assert proto.tensor_content == b""  # As TensorFlow Serving does, in the field of its type.
    for read in (tf.make_ndarray(proto), read_tensor("x", proto)):
        assert (read.dtype, read.shape) == (array.dtype, shape)
        assert (read == array).all()


@pytest.mark.parametrize("dtype", [*NUMBERS.split(), "complex64", "string"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 2)])
def test_a_session_keeps_what_it_is_given(dtype, shape):
    with tf.Graph().as_default() as graph:
        value = tf.compat.v1.placeholder(dtype, shape, name="value")
        tf.identity(value, name="copy")
        variable = tf.raw_ops.VarHandleOp(dtype=dtype, shape=shape, shared_name="variable")
        tf.raw_ops.AssignVariableOp(resource=variable, value=value, name="assign")
        tf.raw_ops.ReadVariableOp(resource=variable, dtype=dtype, name="read")
    session = Session(graph.as_graph_def().SerializeToString())
    array = np.arange(math.prod(shape)).reshape(shape).astype(tf.as_dtype(dtype).as_numpy_dtype)
    if dtype == "string":
        array = np.frompyfunc(lambda i: b"\0%d" % i * 40, 1, 1)(array)
        array = np.array(array, object).reshape(shape)
    # Its rows need not be contiguous.
    session.run([], {"value:0": array.copy(order="F")}, ["assign"])
    others = np.full_like(array, b"" if dtype == "string" else 1)
    for _ in range(10):  # Its memory would be used again.
        session.run(["copy:0"], {"value:0": others})
    (read,) = session.run(["read:0"], {})
    assert (read.dtype, read.shape, read.tolist()) == (array.dtype, shape, array.tolist())


@pytest.mark.parametrize(
    "inputs, options, code, message",
    [
        ({}, {}, "INVALID_ARGUMENT", "input size does not match signature: 0!=1 len({}) != len({"),
        ({"x": ["a"]}, {}, "INVALID_ARGUMENT", "Signature input alias: text not found in request"),
        ({"text": [1]}, {}, "INVALID_ARGUMENT", "Input text must be string, received int32"),
        ({"text": ["a"]}, {"signature": "b"}, "FAILED_PRECONDITION", 'signature key "b" not found'),
        ({"text": ["a"]}, {"name": "b"}, "NOT_FOUND", "for request: Latest(b)"),
        ({"text": ["a"]}, {"version": 7}, "NOT_FOUND", "for request: Specific(shout, 7)"),
        (
            {"text": ["a"]},
            {"output_filter": ["b"]},
            "INVALID_ARGUMENT",
            "output tensor alias not found in signature: b Outputs expected to be in the set {tran",
        ),
        (
            {"text": ["a"]},
            {"output_filter": ["translation"] * 2},
            "INVALID_ARGUMENT",
            "duplicate output tensor alias: translation",
        ),
    ],
)
def test_grpc_refuses_what_does_not_fit(inputs, options, code, message, plain):
    received, details = grpc_error(plain.predict, inputs, **options)
    assert (received, message in details) == (code, True), details


def test_other_calls_of_grpc_are_unimplemented(plain):
    calls = {
        plain.stub.Classify: classification_pb2.ClassificationRequest(),
        plain.models.HandleReloadConfigRequest: model_management_pb2.ReloadConfigRequest(),
    }
    for call, request in calls.items():
        assert grpc_error(call, request)[0] == "UNIMPLEMENTED"


def test_requests_are_counted_and_logged_without_their_text(plain, caplog):
    name, keys = "tensorflow:serving:request_count", ("path", "status")
    method = "/tensorflow.serving.PredictionService/Predict"

    def entries():
        logged = (json.loads(record.message) for record in caplog.records)
        return [entry for entry in logged if "metrics" not in entry["path"]]

    calls = (
        lambda: plain.post({"inputs": ["secret", "b"]}),
        lambda: plain.predict({"text": ["secret"]}),
        lambda: plain.post({"inputs": [1]}),
        lambda: plain.post({"inputs": ["a"]}, "other"),
        lambda: grpc_error(plain.predict, {"text": ["a"]}, version=7),
        lambda: plain.get("/nothing"),
        lambda: grpc_error(plain.stub.Classify, classification_pb2.ClassificationRequest()),
        lambda: grpc_error(plain.channel.unary_unary(method), b"x"),
    )
    with caplog.at_level("INFO", "keras_transformer.serving.access"):
        plain.get("/first")  # Entries of the test before may come after its answers.
        grpc_error(plain.predict, {"text": ["a"]}, version=7)
        wait(lambda: {"/first", "NOT_FOUND"} <= {e[key] for e in entries() for key in keys})
        caplog.clear()
        before = samples(plain, name)
        for number, call in enumerate(calls, start=1):
            call()
            wait(lambda number=number: len(entries()) == number)
        after = samples(plain, name)
    changes = {key: after[key] - before.get(key, 0) for key in after}
    assert {key: change for key, change in changes.items() if change} == {
        ("REST", "shout", "OK", "3"): 1,
        ("GRPC", "shout", "OK", "3"): 1,
        ("REST", "shout", "INVALID_ARGUMENT", "3"): 1,
        ("REST", "", "NOT_FOUND", ""): 1,
        ("GRPC", "shout", "NOT_FOUND", ""): 1,
        ("GRPC", "", "INTERNAL", ""): 1,
    }
    assert [(e["api"], e["status"], e.get("http"), e.get("rows")) for e in entries()] == [
        ("REST", "OK", 200, 2),
        ("GRPC", "OK", None, 1),
        ("REST", "INVALID_ARGUMENT", 400, None),
        ("REST", "NOT_FOUND", 404, None),
        ("GRPC", "NOT_FOUND", None, None),
        ("REST", "HTTP 404", 404, None),
        ("GRPC", "UNIMPLEMENTED", None, None),
        ("GRPC", "INTERNAL", None, None),
    ]
    assert "secret" not in caplog.text


def test_the_metrics_have_the_memory_of_the_process(plain):
    assert samples(plain, "process_resident_memory_bytes")[()] > 1e8
