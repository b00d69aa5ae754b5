"""The gRPC API of TensorFlow Serving: Predict, metadata and status."""

import asyncio
import functools
import inspect
import logging
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.protobuf import message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.metrics import Entry, Metrics
from keras_transformer.serving.model import DEFAULT
from keras_transformer.serving.parts import Arrays
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.queues import LARGE, Room, off_loop
from keras_transformer.serving.tensors import (
    check_fields,
    check_names,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    read_tensor,
    write_tensor,
)
from keras_transformer.serving.versions import ModelVersions

log = logging.getLogger(__name__)

_MESSAGE = 1024  # Characters of an error, as in TensorFlow Serving.
_SIGNATURES = "signature_def"
_PREDICT = predict_pb2.PredictRequest.DESCRIPTOR


def _address(peer: str) -> str:
    """Return a client's address as REST has it.

    >>> _address("ipv4:10.0.0.1:123"), _address("ipv6:%5B::1%5D:123")
    ('10.0.0.1', '::1')
    """
    _, _, address = urllib.parse.unquote(peer).partition(":")
    return address.rpartition(":")[0].strip("[]")


def _call(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap a method as a gRPC call: log it, count it, and turn its errors into statuses."""

    @functools.wraps(function)
    async def call(self: "GrpcApi", request: Any, context: Any) -> Any:
        entry = Entry("GRPC", function.__name__, "", _address(context.peer()))
        entry.bytes = request.ByteSize()
        spec = getattr(request, "model_spec", None)  # Not all requests name a model.
        entry.model = (spec.name[:200] or None) if spec else None
        with self._metrics.request(entry):
            try:
                return await function(self, request, context, entry)
            except ServingError as error:
                entry.status = error.code.name
                await context.abort(error.code, error.message[:_MESSAGE])
            except Exception:
                log.exception("an error of the server")
                entry.status = Code.INTERNAL.name
                await context.abort(Code.INTERNAL, "Internal error; see the server's log")

    return call


def _refuse(method: str) -> Callable[..., Awaitable[None]]:
    """Return a method of TensorFlow Serving that this server does not implement."""

    async def call(self: "GrpcApi", request: Any, context: Any, entry: Entry) -> None:
        raise ServingError(Code.UNIMPLEMENTED, f"This server has no {method} API.")

    call.__name__ = method
    return _call(call)


class GrpcApi(
    prediction_service_pb2_grpc.PredictionServiceServicer,
    model_service_pb2_grpc.ModelServiceServicer,
):
    """Predict, GetModelMetadata and GetModelStatus."""

    def __init__(self, predictor: Predictor, metrics: Metrics):
        self._predictor, self._metrics = predictor, metrics

    @_call
    async def Predict(self, request: Any, context: Any, entry: Entry) -> Any:
        model, which = self._model(request)
        with model.use(which) as served:
            entry.version = served.number
            signature = request.model_spec.signature_name or DEFAULT
            if signature in served.model:
                check_names(request.inputs, served.model.dtypes(signature))
            inputs = {name: read_tensor(name, proto) for name, proto in request.inputs.items()}
            entry.rows = max((len(x) if x.ndim else 1 for x in inputs.values()), default=0)
            names = request.output_filter
            outputs = await self._predictor.run(
                served, signature, inputs, context.time_remaining(), names, entry.client
            )
            response = predict_pb2.PredictResponse()
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = served.number
            response.model_spec.signature_name = signature
        large = sum(array.nbytes for array in outputs.values()) > LARGE
        return await off_loop(_write, response, outputs, large=large)

    @_call
    async def GetModelMetadata(self, request: Any, context: Any, entry: Entry) -> Any:
        _check_spec(request)
        if not request.metadata_field:
            raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != _SIGNATURES:
                raise invalid(f"Metadata field {field} is not supported")
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        signatures = get_model_metadata_pb2.SignatureDefMap()
        model, which = self._model(request)
        with model.use(which) as served:
            response.model_spec.name = request.model_spec.name
            response.model_spec.version.value = served.number
            for name, signature in served.model.signature_defs.items():
                signatures.signature_def[name].CopyFrom(signature)
        response.metadata[_SIGNATURES].Pack(signatures)
        return response

    @_call
    async def GetModelStatus(self, request: Any, context: Any, entry: Entry) -> Any:
        _check_spec(request)
        response = get_model_status_pb2.GetModelStatusResponse()
        model, which = self._model(request)
        for number, state in model.states(which).items():
            one = response.model_version_status.add(version=number, state=state.state)
            one.status.error_code = state.code.value[0]
            one.status.error_message = state.message
        return response

    def _model(self, request: Any) -> tuple[ModelVersions, int | str | None]:
        """Return the versions of a request's model, and which of them it asks for."""
        spec = request.model_spec
        number = spec.version.value if spec.HasField("version") else None
        return self._predictor.versions.of(spec.name), spec.version_label or number

    Classify = _refuse("Classify")
    Regress = _refuse("Regress")
    MultiInference = _refuse("MultiInference")
    HandleReloadConfigRequest = _refuse("HandleReloadConfigRequest")


class Health(health_pb2_grpc.HealthServicer):
    """The health of the server, by the name "", and that of each model, by its name.

    Unlike the one of grpcio-health-checking, it has no lock that clients hold while they are told:
    one that reads nothing would hold up later changes, and with them new versions.
    """

    def __init__(self) -> None:
        self._serves: dict[str, bool] = {}
        self._changed = asyncio.Event()
        self._is_stopped = False

    def set(self, serves: Mapping[str, bool]) -> None:
        """Take what serves now; names that are missing serve no longer."""
        if not self._is_stopped:
            self._serves = {**dict.fromkeys(self._serves, False), **serves}
            self._changed.set()
            self._changed = asyncio.Event()

    def stop(self) -> None:
        """Report that nothing serves any longer."""
        self.set({})
        self._is_stopped = True

    async def Check(self, request: Any, context: Any) -> Any:
        if request.service not in self._serves:
            await context.abort(grpc.StatusCode.NOT_FOUND, "")
        return self._status(request)

    async def Watch(self, request: Any, context: Any) -> None:
        sent = None
        while True:
            status, changed = self._status(request), self._changed
            if status != sent:
                await context.write(status)
                sent = status
            elif self._is_stopped:  # The server would wait for it.
                return
            else:
                await changed.wait()

    def _status(self, request: Any) -> Any:
        serves = self._serves.get(request.service)
        status = health_pb2.HealthCheckResponse
        known = status.SERVING if serves else status.NOT_SERVING
        return status(status=status.SERVICE_UNKNOWN if serves is None else known)


class ReadRequests(grpc.aio.ServerInterceptor):
    """Reads the messages of requests, and refuses those that would take long to read.

    Bytes that are no message are answered INTERNAL, as TensorFlow Serving does. gRPC itself would
    write a traceback to the log for each.
    """

    def __init__(self, metrics: Metrics):
        self._metrics, self._room = metrics, Room()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:
            return None
        if handler.unary_unary is None:  # The health service: a name is all that it reads.

            def read(content: bytes) -> Any:
                return handler.request_deserializer(content if len(content) < LARGE else b"")

            return grpc.unary_stream_rpc_method_handler(
                handler.unary_stream, read, handler.response_serializer
            )

        answer = functools.partial(self._answer, handler, details.method.rpartition("/")[2])
        return grpc.unary_unary_rpc_method_handler(answer, None, handler.response_serializer)

    async def _answer(self, handler: Any, method: str, content: bytes, context: Any) -> Any:
        try:
            with self._room.hold(len(content)):
                if len(content) > LARGE:
                    if method != "Predict":
                        raise invalid(f"Only Predict takes more than {LARGE} bytes.")
                    await asyncio.to_thread(check_fields, content, _PREDICT)
                request = handler.request_deserializer(content)
                answer = handler.unary_unary(request, context)
                return await answer if inspect.isawaitable(answer) else answer
        except ServingError as caught:
            error = caught
        except message.DecodeError:
            error = ServingError(Code.INTERNAL, "The request is malformed.")
        entry = Entry("GRPC", method, "", _address(context.peer()))
        entry.status, entry.bytes = error.code.name, len(content)
        with self._metrics.request(entry):
            await context.abort(error.code, error.message)


def _write(response: Any, outputs: Arrays) -> Any:
    for name, array in outputs.items():
        response.outputs[name].CopyFrom(write_tensor(array))
    return response


def _check_spec(request: Any) -> None:
    if not request.HasField("model_spec"):
        raise invalid("Missing ModelSpec")
