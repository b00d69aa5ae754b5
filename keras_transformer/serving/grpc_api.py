"""The gRPC API of TensorFlow Serving: Predict, metadata, status and health."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf import any_pb2, message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from keras_transformer.serving.errors import Code, ServingError, invalid
from keras_transformer.serving.metrics import Entry, Metrics
from keras_transformer.serving.model import DEFAULT
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.tensors import check_names, read_tensor, write_tensor

log = logging.getLogger(__name__)

_STATUS = {code.value[0]: code for code in grpc.StatusCode}
_MESSAGE = 1024  # Characters of an error, as in TensorFlow Serving.
_SIGNATURES = "signature_def"


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predict and GetModelMetadata.

    Args:
        predictor: Runs Predict requests.
        metrics: The server's metrics.
    """

    def __init__(self, predictor: Predictor, metrics: Metrics):
        self._predictor, self._metrics = predictor, metrics

    async def Predict(self, request: Any, context: Any) -> Any:
        async def answer(entry: Entry) -> Any:
            with self._predictor.versions.use(*_model(request)) as served:
                signature = request.model_spec.signature_name or DEFAULT
                if signature in served.model:
                    check_names(request.inputs, served.model.dtypes(signature))
                inputs = {name: read_tensor(name, proto) for name, proto in request.inputs.items()}
                entry.rows = max((len(x) if x.ndim else 1 for x in inputs.values()), default=0)
                outputs = await self._predictor.run(
                    served, signature, inputs, context.time_remaining(), request.output_filter
                )
                response = predict_pb2.PredictResponse()
                response.model_spec.name = request.model_spec.name
                response.model_spec.version.value = served.number
                response.model_spec.signature_name = signature
            for name, array in outputs.items():
                response.outputs[name].CopyFrom(write_tensor(array))
            return response

        return await _answer(self._metrics, "Predict", request, context, answer)

    async def GetModelMetadata(self, request: Any, context: Any) -> Any:
        async def answer(entry: Entry) -> Any:
            if not request.HasField("model_spec"):
                raise invalid("Missing ModelSpec")
            if not request.metadata_field:
                raise invalid("GetModelMetadataRequest must specify at least one metadata_field")
            for field in request.metadata_field:
                if field != _SIGNATURES:
                    raise invalid(f"Metadata field {field} is not supported")
            response = get_model_metadata_pb2.GetModelMetadataResponse()
            signatures = get_model_metadata_pb2.SignatureDefMap()
            with self._predictor.versions.use(*_model(request)) as served:
                response.model_spec.name = request.model_spec.name
                response.model_spec.version.value = served.number
                for name, signature in served.model.signature_defs.items():
                    signatures.signature_def[name].CopyFrom(signature)
            packed = any_pb2.Any()
            packed.Pack(signatures)
            response.metadata[_SIGNATURES].CopyFrom(packed)
            return response

        return await _answer(self._metrics, "GetModelMetadata", request, context, answer)

    async def Classify(self, request: Any, context: Any) -> None:
        await _not_here(context, "Classify")

    async def Regress(self, request: Any, context: Any) -> None:
        await _not_here(context, "Regress")

    async def MultiInference(self, request: Any, context: Any) -> None:
        await _not_here(context, "MultiInference")


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """GetModelStatus.

    Args:
        predictor: Knows the versions.
        metrics: The server's metrics.
    """

    def __init__(self, predictor: Predictor, metrics: Metrics):
        self._predictor, self._metrics = predictor, metrics

    async def GetModelStatus(self, request: Any, context: Any) -> Any:
        async def answer(entry: Entry) -> Any:
            if not request.HasField("model_spec"):
                raise invalid("Missing ModelSpec")
            response = get_model_status_pb2.GetModelStatusResponse()
            for number, state in self._predictor.versions.states(*_model(request)).items():
                one = response.model_version_status.add(version=number, state=state.state)
                one.status.error_code = int(state.code)
                one.status.error_message = state.message
            return response

        return await _answer(self._metrics, "GetModelStatus", request, context, answer)

    async def HandleReloadConfigRequest(self, request: Any, context: Any) -> None:
        await _not_here(context, "HandleReloadConfigRequest")


class RefuseMalformed(grpc.aio.ServerInterceptor):
    """Answers INTERNAL to bytes that are no message, as TensorFlow Serving does.

    gRPC itself would write a traceback to the log for each.
    """

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or handler.unary_unary is None:
            return handler

        def read(content: bytes) -> Any:
            try:
                return handler.request_deserializer(content)
            except message.DecodeError:
                return None

        async def answer(request: Any, context: Any) -> Any:
            if request is None:
                await context.abort(grpc.StatusCode.INTERNAL, "The request is malformed.")
            answer = handler.unary_unary(request, context)
            return await answer if inspect.isawaitable(answer) else answer

        return grpc.unary_unary_rpc_method_handler(answer, read, handler.response_serializer)


class Health:
    """The health service of gRPC, for the whole server."""

    def __init__(self) -> None:
        self.servicer = health.aio.HealthServicer()

    async def start(self, server: grpc.aio.Server) -> None:
        """Add the service to a server, and report that it serves."""
        health_pb2_grpc.add_HealthServicer_to_server(self.servicer, server)
        await self.servicer.set("", health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Report that the server stops."""
        await self.servicer.enter_graceful_shutdown()


async def _answer(
    metrics: Metrics,
    method: str,
    request: Any,
    context: Any,
    answer: Callable[[Entry], Awaitable[Any]],
) -> Any:
    """Return what `answer` returns; abort the call with its error."""
    entry = Entry("GRPC", method, "", context.peer(), bytes=request.ByteSize())
    with metrics.request(entry):
        try:
            return await answer(entry)
        except ServingError as error:
            entry.status = error.code.name
            await context.abort(_STATUS[error.code], error.message[:_MESSAGE])
        except Exception:
            log.exception("an error of the server")
            entry.status = Code.INTERNAL.name
            await context.abort(grpc.StatusCode.INTERNAL, "Internal error; see the server's log")


def _model(request: Any) -> tuple[str, int | None]:
    """Return the name and the version of the model that a request asks for."""
    spec = request.model_spec
    if spec.version_label:
        raise invalid(f"Unrecognized servable version label: {spec.version_label}")
    return spec.name, spec.version.value if spec.HasField("version") else None


async def _not_here(context: Any, method: str) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"This server has no {method} API.")
