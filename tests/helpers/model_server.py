"""A stand-in for `tensorflow_model_server`, to test code that starts one or sends it requests.

It loads a model as the server does, in a session, runs its warm-up requests, switches to a higher
version when there is one, and answers Predict requests over REST and gRPC, and requests for the
model's status and metadata, with the server's formats, messages and statuses. It accepts the flags
of the server, and inputs of strings only. It does not batch, but refuses requests of too many rows,
including warm-up requests. It follows tensorflow/serving: util/json_tensor.cc,
model_servers/http_rest_api_util.cc and servables/tensorflow/predict_util.cc.

    python tests/helpers/model_server.py --port=8500 --rest_api_port=8501 --model_name=en_de \
        --model_base_path=/saved_models/en_de
"""

import argparse
import base64
import json
import re
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the tokenizer's ops, which the server links
from google.protobuf import json_format
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2, prediction_service_pb2_grpc

PREDICT = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?:predict")
STATUS = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata)?")
HTTP = {3: 400, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400, 12: 501, 14: 503, 16: 401}
GRPC = {code.value[0]: code for code in grpc.StatusCode}


def invalid(message):
    return tf.errors.InvalidArgumentError(None, None, message)


class Model:
    """A version of a model, warmed up; it accepts up to `most_rows` rows, by default any number."""

    def __init__(self, directory, most_rows=None):
        self.most_rows = most_rows
        self.session = tf.compat.v1.Session(graph=tf.Graph())
        with self.session.graph.as_default():
            loaded = tf.compat.v1.saved_model.load(self.session, ["serve"], str(directory))
        self.signatures = loaded.signature_def
        warmup = directory / "assets.extra" / "tf_serving_warmup_requests"
        for record in tf.data.TFRecordDataset(str(warmup)) if warmup.exists() else ():
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            self.run_request(log.predict_log.request)

    def run_request(self, request):
        name = request.model_spec.signature_name or "serving_default"
        if name not in self.signatures:
            message = f'Serving signature key "{name}" not found.'
            raise tf.errors.FailedPreconditionError(None, None, message)
        inputs = {name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()}
        return self.run(self.signatures[name], inputs)

    def run(self, signature, inputs):
        if inputs.keys() != signature.inputs.keys():
            sent, wanted = ",".join(sorted(inputs)), ",".join(sorted(signature.inputs))
            raise invalid(f"input size does not match signature: {{{sent}}} != {{{wanted}}}")
        rows = max(map(len, inputs.values()))
        if self.most_rows is not None and rows > self.most_rows:
            limit = f"maximum input batch size {self.most_rows}"
            raise invalid(f"Task size {rows} is larger than {limit}")
        feeds = {signature.inputs[name].name: value for name, value in inputs.items()}
        fetches = {name: tensor.name for name, tensor in signature.outputs.items()}
        return self.session.run(fetches, feeds)


class ModelServer:
    """Serves the highest version below a directory, until the `with` block ends.

    Attributes:
        port: The port for gRPC; a free one if it is not given.
        rest_port: The port for REST, likewise.
        batching: Whether batching_params.pbtxt of a version sets the maximum batch size.
        on_predict: Called for each request. An error of `tf.errors` that it raises becomes the
            answer; a ConnectionResetError breaks the connection.
    """

    def __init__(self, base, name, port=0, rest_port=0, batching=False):
        self.base, self.name, self.batching = Path(base), name, batching
        self.on_predict = lambda: None
        self.version = None
        self.load_highest()
        self.grpc = grpc.server(ThreadPoolExecutor(64))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(_Grpc(self), self.grpc)
        self.port = self.grpc.add_insecure_port(f"127.0.0.1:{port}")
        self.http = _Http(("127.0.0.1", rest_port), _Rest)
        self.http.model_server = self
        self.rest_port = self.http.server_port

    def __enter__(self):
        self.grpc.start()
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
        self.grpc.stop(None)

    def load_highest(self):
        highest = max(int(path.name) for path in self.base.iterdir() if path.name.isdecimal())
        if highest != self.version:
            directory = self.base / str(highest)
            # The previous version serves meanwhile.
            self.model = Model(directory, most_rows(directory) if self.batching else None)
            self.version = highest

    def find(self, name, version=None):
        if name != self.name or version not in (None, self.version):
            which = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            message = f"Servable not found for request: {which}"
            raise tf.errors.NotFoundError(None, None, message)
        return self.model

    def rest(self, method, path, body):
        """Return the answer to an HTTP request, before it is encoded as JSON."""
        match = (PREDICT if method == "POST" else STATUS).fullmatch(path)
        if not match:
            raise invalid(f"Malformed request: {method} {path}")
        name, version = urllib.parse.unquote(match[1]), match[2] and int(match[2])
        model = self.find(name, version)
        if method == "POST":
            self.on_predict()
            return rest_predict(model, body)
        if not match[3]:
            status = {"error_code": "OK", "error_message": ""}
            state = {"version": str(self.version), "state": "AVAILABLE", "status": status}
            return {"model_version_status": [state]}
        signatures = {
            name: json_format.MessageToDict(signature, preserving_proto_field_name=True)
            for name, signature in model.signatures.items()
        }
        return {
            "model_spec": {"name": name, "signature_name": "", "version": str(self.version)},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }


def most_rows(version):
    text = (version / "batching_params.pbtxt").read_text(encoding="utf-8")
    return int(re.search(r"^max_batch_size { value: (\d+) }", text, re.MULTILINE)[1])


def rest_predict(model, body):
    """Return the answer to a JSON body, in rows for `instances` and in columns for `inputs`."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise invalid(f"JSON Parse error: {error}") from error
    if not isinstance(request, dict):
        raise invalid(f"JSON Value: {body.decode()} Is not object")
    name = request.get("signature_name", "serving_default")
    if name not in model.signatures:
        raise invalid(f'Serving signature name: "{name}" not found in signature def')
    signature = model.signatures[name]
    names = signature.inputs.keys()
    match request:
        case {"instances": _, "inputs": _}:
            raise invalid("expecting only one of 'inputs' or 'instances' keys to exist")
        case {"instances": [first, *_] as rows} if _is_object(first):
            for i, row in enumerate(rows):
                if not _is_object(row) or row.keys() != names:
                    raise invalid(f"Failed to process element: {i} of 'instances' list")
            columns = {name: [row[name] for row in rows] for name in names}
        case {"instances": [_, *_] as values}:
            columns = dict.fromkeys(names, values)
        case {"instances": _}:
            raise invalid("JSON Value: No values in 'instances' array")
        case {"inputs": values}:
            columns = values if _is_object(values) else dict.fromkeys(names, values)
        case _:
            raise invalid("Missing 'inputs' or 'instances' key")
    try:
        inputs = {name: np.array(_to_bytes(columns[name]), object) for name in names}
    except KeyError as error:
        message = f"Missing named input: {error.args[0]} in 'inputs' object."
        raise invalid(message) from error
    outputs = model.run(signature, inputs)
    columns = {name: _from_array(name, array) for name, array in outputs.items()}
    alone = len(columns) == 1
    if "inputs" in request:
        return {"outputs": columns.popitem()[1] if alone else columns}
    if len({array.shape[:1] for array in outputs.values()}) != 1:
        raise invalid("Tensor has inconsistent batch size")
    rows = zip(*columns.values(), strict=True)
    if alone:
        return {"predictions": [row[0] for row in rows]}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}


def _is_object(value):
    return isinstance(value, dict) and value.keys() != {"b64"}


def _to_bytes(value):
    match value:
        case list():
            return [_to_bytes(item) for item in value]
        case {"b64": str(text)} if len(value) == 1:
            return base64.b64decode(text)
        case str():
            try:
                return value.encode()
            except UnicodeEncodeError as error:
                raise invalid(
                    "JSON Parse error: The surrogate pair in string is invalid."
                ) from error
    raise invalid(f"JSON Value: {json.dumps(value)} is not of expected type: string")


def _from_array(name, array):
    if array.dtype == object:
        if name.endswith("_bytes"):
            return [{"b64": base64.b64encode(value).decode()} for value in array]
        return np.vectorize(bytes.decode, otypes=[object])(array).tolist()
    if array.dtype == np.float32:
        return array.astype(str).astype(float).tolist()  # The fewest digits that identify it.
    if array.dtype.itemsize == 2:
        raise invalid(f"Failed to write JSON value for tensor type: {array.dtype}")
    return array.tolist()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *request):
        if not isinstance(sys.exception(), ConnectionError):  # A client may disconnect.
            super().handle_error(*request)


class _Rest(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            answer = self.server.model_server.rest(self.command, self.path, body)
            status = 200
        except tf.errors.OpError as error:
            answer, status = {"error": error.message}, HTTP.get(error.error_code, 500)
        content = json.dumps(answer, ensure_ascii=False, indent=4).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class _Grpc(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, server):
        self.server = server

    def Predict(self, request, context):
        spec = request.model_spec
        try:
            model = self.server.find(spec.name, spec.version.value or None)
            self.server.on_predict()
            outputs = model.run_request(request)
        except tf.errors.OpError as error:
            context.abort(GRPC[error.error_code], error.message[:1024])
        except ConnectionResetError:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer")
        tensors = {name: tf.make_tensor_proto(array) for name, array in outputs.items()}
        return predict_pb2.PredictResponse(outputs=tensors)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, default=8500)
    parser.add_argument("--rest_api_port", type=int, required=True)
    parser.add_argument("--rest_api_timeout_in_ms", type=int)
    parser.add_argument("--model_name", default="default")
    parser.add_argument("--model_base_path", required=True)
    parser.add_argument("--tensorflow_intra_op_parallelism", type=int)
    for name in ("batching", "per_model_batching_parameters", "profiler"):
        parser.add_argument(f"--enable_{name}", choices=["true", "false"])
    parser.add_argument("--xla_cpu_compilation_enabled", choices=["true", "false"])
    parser.add_argument("--batching_parameters_file", type=argparse.FileType())
    parser.add_argument("--monitoring_config_file", type=argparse.FileType())
    args = parser.parse_args()
    if args.batching_parameters_file and args.enable_batching != "true":
        parser.error("batching_parameters_file is set without setting enable_batching to true")
    ports = args.port, args.rest_api_port
    batching = args.enable_batching == args.enable_per_model_batching_parameters == "true"
    with ModelServer(args.model_base_path, args.model_name, *ports, batching) as server:
        while True:
            time.sleep(1)
            server.load_highest()


if __name__ == "__main__":
    main()
