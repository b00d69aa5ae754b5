"""The REST API of TensorFlow Serving, as an ASGI application."""

import asyncio
import json
import logging
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format as protobuf_json
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from keras_transformer.serving import json_format
from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.http import BodyError, read_body
from keras_transformer.serving.metrics import CONTENT_TYPE, Entry, Metrics
from keras_transformer.serving.model import DEFAULT
from keras_transformer.serving.predict import Predictor, check_rows

log = logging.getLogger(__name__)

METRICS = "/monitoring/prometheus/metrics"
_MODEL = r"/v1/models/(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_PREDICT = re.compile(rf"(?i:{_MODEL}):(?P<method>classify|regress|predict)", re.IGNORECASE)
_STATUS = re.compile(rf"(?i:{_MODEL})(?P<metadata>/metadata)?", re.IGNORECASE)
_MOST_VERSION = (1 << 63) - 1
_NOT_FOUND = "<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>"
_LARGE = 1 << 16  # More bytes are read or written in a thread.


class RestApi:
    """Answers the requests of one server.

    Args:
        predictor: Runs Predict requests.
        metrics: The server's metrics.
    """

    def __init__(self, predictor: Predictor, metrics: Metrics):
        self._predictor, self._metrics = predictor, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI request."""
        request = Request(scope, receive)
        path = scope["raw_path"].decode("ascii", "replace")
        client = request.client.host if request.client else ""
        is_predict = request.method == "POST" and _PREDICT.fullmatch(path)
        entry = Entry("REST", "Predict" if is_predict else request.method, path[:200], client)
        with self._metrics.request(entry):
            try:
                response = await self._answer(request, path, entry)
            except ClientDisconnect:
                entry.status = Code.CANCELLED.name
                return
            except ServingError as error:
                entry.status = error.code.name
                response = _json({"error": error.message}, error.http_status)
                if isinstance(error, BodyError):
                    response.headers["connection"] = "close"
            except Exception:
                log.exception("an error of the server")
                entry.status = Code.INTERNAL.name
                response = _json({"error": "Internal error; see the server's log"}, 500)
            entry.http = response.status_code
            await response(scope, receive, send)

    async def _answer(self, request: Request, path: str, entry: Entry) -> Response:
        if path == METRICS and request.method == "GET":
            return Response(self._metrics.text(), media_type=CONTENT_TYPE)
        if not path.lower().startswith("/v1/"):
            return HTMLResponse(_NOT_FOUND, 404)
        body = await read_body(request, self._predictor.settings.limits)
        entry.bytes = len(body)
        if request.method == "POST" and (match := _PREDICT.fullmatch(path)):
            return await self._predict(match, body, entry)
        if request.method == "GET" and (match := _STATUS.fullmatch(path)):
            if match["metadata"]:
                return _json(self._metadata(match))
            return _json(self._status(match))
        raise invalid(f"Malformed request: {request.method} {path[:200]}")

    async def _predict(self, match: re.Match, body: bytes, entry: Entry) -> Response:
        if match["method"].lower() != "predict":
            raise ServingError(Code.UNIMPLEMENTED, f"This server has no {match['method']} API.")
        with self._predictor.versions.use(*_model(match)) as served:
            large = len(body) > _LARGE
            request = await _off_loop(json_format.parse, body, large=large)
            signature = json_format.signature_name(request) or DEFAULT
            if signature not in served.model:
                raise invalid(f'Serving signature name: "{signature}" not found in signature def')
            dtypes = served.model.dtypes(signature)
            if not dtypes:
                raise invalid(f"Failed to get input map for signature: {signature}")
            check_rows(json_format.count_rows(request, dtypes), self._predictor.settings.limits)
            in_rows, inputs = await _off_loop(json_format.read_inputs, request, dtypes, large=large)
            entry.rows = max(len(array) if array.ndim else 1 for array in inputs.values())
            seconds = self._predictor.settings.timeout
            outputs = await self._predictor.run(served, signature, inputs, seconds)
        large = large or sum(array.nbytes for array in outputs.values()) > _LARGE
        return await _off_loop(_write, outputs, in_rows, large, large=large)

    def _status(self, match: re.Match) -> dict[str, Any]:
        states = self._predictor.versions.states(*_model(match))
        return {
            "model_version_status": [
                {
                    "version": str(number),
                    "state": state.state,
                    "status": {"error_code": state.code.name, "error_message": state.message},
                }
                for number, state in states.items()
            ]
        }

    def _metadata(self, match: re.Match) -> dict[str, Any]:
        with self._predictor.versions.use(*_model(match)) as served:
            signatures = {
                name: protobuf_json.MessageToDict(
                    signature,
                    preserving_proto_field_name=True,
                    always_print_fields_with_no_presence=True,
                )
                for name, signature in served.model.signature_defs.items()
            }
            name, version = self._predictor.settings.name, str(served.number)
        return {
            "model_spec": {"name": name, "signature_name": "", "version": version},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }


def _model(match: re.Match) -> tuple[str, int | None]:
    """Return the name and the version of a model in a path."""
    if match["label"] is not None:
        raise invalid(f"Unrecognized servable version label: {match['label']}")
    name, version = urllib.parse.unquote(match["name"]), match["version"]
    if version is None:
        return name, None
    if len(version) > 19 or int(version) > _MOST_VERSION:
        raise invalid(f"Failed to convert version: {version[:30]} to numeric.")
    return name, int(version)


def _write(outputs: Mapping[str, np.ndarray], in_rows: bool, large: bool) -> Response:
    # Indentation takes json's slow encoder, and the event loop waits for the interpreter's lock.
    return _json(json_format.write_outputs(outputs, in_rows), indent=None if large else 4)


def _json(answer: dict[str, Any], status: int = 200, indent: int | None = 4) -> Response:
    content = json.dumps(answer, ensure_ascii=False, indent=indent)
    return Response(content.encode("utf-8", "replace"), status, media_type="application/json")


async def _off_loop(function: Any, *args: Any, large: bool) -> Any:
    """Call a function, in a thread if it takes long."""
    return await asyncio.to_thread(function, *args) if large else function(*args)
