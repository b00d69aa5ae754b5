"""The REST APIs of TensorFlow Serving and LibreTranslate, as an ASGI application."""

import re
import urllib.parse
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format as protobuf_json
from starlette.requests import Request
from starlette.responses import Response

from keras_transformer.serving import json_format
from keras_transformer.serving.application import PREDICT, STATUS, Application, json_response
from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.files import File
from keras_transformer.serving.libretranslate import PATHS, LibreTranslate
from keras_transformer.serving.metrics import Entry, Metrics
from keras_transformer.serving.model import DEFAULT
from keras_transformer.serving.page import Page
from keras_transformer.serving.predict import Predictor, check_rows
from keras_transformer.serving.queues import LARGE, off_loop
from keras_transformer.serving.versions import ModelVersions
from keras_transformer.utils.versions import HIGHEST


class RestApi(Application):
    """Answers the requests of one server."""

    paths = PATHS

    def __init__(self, predictor: Predictor, metrics: Metrics, page: Page | None = None):
        super().__init__(metrics, predictor.settings, page)
        self._predictor = predictor
        self._libretranslate = LibreTranslate(predictor)

    async def _answer_rest(
        self, request: Request, path: str, body: bytes, entry: Entry
    ) -> Response:
        method = request.method
        if method == "POST" and (match := PREDICT.fullmatch(path)):
            return await self._predict(match, body, entry)
        if method in ("GET", "HEAD") and (match := STATUS.fullmatch(path)):
            if match["metadata"]:
                return json_response(self._metadata(match))
            return self._status(match)
        if path in PATHS:
            answer = await self._libretranslate.answer(request, path, body, entry)
            if isinstance(answer, File):
                name = urllib.parse.quote(answer.name)
                headers = {"Content-Disposition": f"attachment; filename*=utf-8''{name}"}
                return Response(answer.content, 200, headers, "application/octet-stream")
            return await off_loop(json_response, answer, 200, None, large=len(body) > LARGE)
        raise invalid(f"Malformed request: {method} {path[:200]}")

    async def _predict(self, match: re.Match, body: bytes, entry: Entry) -> Response:
        if match["method"].lower() != "predict":
            raise ServingError(Code.UNIMPLEMENTED, f"This server has no {match['method']} API.")
        model, which = self._model(match)
        with model.use(which) as served:
            entry.version = served.number
            large = len(body) > LARGE
            request = await off_loop(json_format.parse, body, large=large)
            signature = json_format.signature_name(request) or DEFAULT
            if signature not in served.model:
                raise invalid(f'Serving signature name: "{signature}" not found in signature def')
            dtypes = served.model.dtypes(signature)
            if not dtypes:
                raise invalid(f"Failed to get input map for signature: {signature}")
            check_rows(json_format.count_rows(request, dtypes), self._limits.rows)
            in_rows, inputs = await off_loop(json_format.read_inputs, request, dtypes, large=large)
            entry.rows = max(len(array) if array.ndim else 1 for array in inputs.values())
            seconds = self._predictor.settings.timeout
            outputs = await self._predictor.run(
                served,
                signature,
                inputs,
                seconds,
                client=entry.client,
                most_values=self._limits.answer_values,
            )
        large = large or sum(array.nbytes for array in outputs.values()) > LARGE
        return await off_loop(_write, outputs, in_rows, large, large=large)

    def _model(self, match: re.Match) -> tuple[ModelVersions, int | str | None]:
        """Return the versions of a path's model, and which of them it asks for."""
        name, version = urllib.parse.unquote(match["name"]), match["version"]
        if version and (len(version) > 19 or int(version) > HIGHEST):
            raise invalid(f"Failed to convert version: {version[:30]} to numeric.")
        return self._predictor.versions.of(name), int(version) if version else match["label"]

    def ready(self) -> dict[str, bool]:
        """Return whether each model has a version that is served, by name."""
        return self._predictor.versions.ready()

    def _status(self, match: re.Match) -> Response:
        model, which = self._model(match)
        states = model.states(which)
        available = any(state.state == "AVAILABLE" for state in states.values())
        answer = {
            "model_version_status": [
                {
                    "version": str(version),
                    "state": state.state,
                    "status": {"error_code": state.code.name, "error_message": state.message},
                }
                for version, state in states.items()
            ]
        }
        # Unlike TensorFlow Serving, so that a probe of a model fails as long as it is not served.
        return json_response(answer, 200 if available or which is not None else 503)

    def _metadata(self, match: re.Match) -> dict[str, Any]:
        model, which = self._model(match)
        with model.use(which) as served:
            signatures = {
                name: protobuf_json.MessageToDict(
                    signature,
                    preserving_proto_field_name=True,
                    always_print_fields_with_no_presence=True,
                )
                for name, signature in served.model.signature_defs.items()
            }
        name, version = model.config.name, str(served.number)
        return {
            "model_spec": {"name": name, "signature_name": "", "version": version},
            "metadata": {"signature_def": {"signature_def": signatures}},
        }


def _write(outputs: Mapping[str, np.ndarray], in_rows: bool, large: bool) -> Response:
    # Indentation takes json's slow encoder, and the event loop waits for the interpreter's lock.
    return json_response(json_format.write_outputs(outputs, in_rows), indent=None if large else 4)
