"""The server: both protocols, in one event loop."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from keras_transformer.serving.errors import ServingError
from keras_transformer.serving.grpc_api import (
    Health,
    ModelService,
    PredictionService,
    RefuseMalformed,
)
from keras_transformer.serving.hosting import (
    HttpServer,
    bind,
    first_to_end,
    run_until_signal,
)
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.page import Page
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.rest import RestApi
from keras_transformer.serving.settings import Batching, Settings
from keras_transformer.utils.versions import find_served_version


class Server:
    """A model server.

    Attributes:
        rest: The ASGI application of the REST API.
        prediction: The gRPC service with Predict.
        port: The port for gRPC, once the server has started.
        rest_port: The port for REST, likewise.

    Args:
        settings: What is served, and where.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If a file of the model holds a wrong setting.
    """

    def __init__(self, settings: Settings):
        self._settings = settings
        batching = Batching.read(find_served_version(settings.base)) if settings.batching else None
        metrics = Metrics(settings.name)
        self.predictor = Predictor(settings, metrics, batching)
        page = Page(settings.name, self._served_version, settings.limits) if settings.page else None
        self.rest: Any = RestApi(self.predictor, metrics, page)
        self.prediction = PredictionService(self.predictor, metrics)
        self._model_service = ModelService(self.predictor, metrics)
        self._health = Health()
        self.port = self.rest_port = 0

    def _served_version(self) -> Path | None:
        """Return the directory of the version that answers requests."""
        try:
            with self.predictor.versions.use(self._settings.name) as served:
                return served.path
        except ServingError:
            return None

    async def start(self) -> None:
        """Load the model, then open the ports.

        Raises:
            OSError: If a port is taken.
            ValueError: If the model does not load.
        """
        host, limits = self._settings.host, self._settings.limits
        # A port that is taken is an error before the model is loaded, which may take minutes.
        bind(host, self._settings.port, "--port").close()
        listener = bind(host, self._settings.rest_port)  # Refuses connections until it listens.
        self.rest_port = listener.getsockname()[1]
        try:
            await self.predictor.versions.load_first()
            await self._start_grpc(f"[{host}]" if ":" in host else host)
            listener.listen(2048)
        except BaseException:
            listener.close()
            raise
        self._http = HttpServer(self.rest, limits)
        self._serving = asyncio.create_task(self._http.serve([listener]))
        self._watching = asyncio.create_task(self.predictor.versions.watch())

    async def _start_grpc(self, host: str) -> None:
        limits = self._settings.limits
        options = {
            "grpc.so_reuseport": 0,  # A second server on a port is an error.
            "grpc.max_receive_message_length": limits.request_bytes,
            "grpc.max_send_message_length": -1,
            "grpc.max_connection_idle_ms": round(1000 * limits.idle_seconds),
        }
        self._grpc = grpc.aio.server(
            interceptors=[RefuseMalformed()], options=list(options.items())
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
            self.prediction, self._grpc
        )
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(self._model_service, self._grpc)
        await self._health.start(self._grpc)
        address = f"{host}:{self._settings.port}"
        try:
            self.port = self._grpc.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error
        await self._grpc.start()

    async def run_until(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set.

        Raises:
            Exception: If a task of the server ends before; the error is the task's own.
        """
        await first_to_end(stop, {self._serving, self._watching})

    async def stop(self) -> None:
        """Refuse new requests, finish those that run, and close the ports."""
        await self._health.stop()
        self._watching.cancel()
        self._http.should_exit = True
        await asyncio.gather(self._grpc.stop(self._settings.limits.stop_seconds), self._serving)
        self.predictor.stop()

    def __str__(self) -> str:
        host = self._settings.host
        return f"REST at {host}:{self.rest_port}, gRPC at {host}:{self.port}"


def serve(settings: Settings, started: Callable[[], None] = lambda: None) -> None:
    """Serve a model until SIGTERM or SIGINT.

    After the first one, both have their handlers from before the call. By default, a second one
    then ends the process at once.

    Args:
        settings: What is served, and where.
        started: Called once the ports are open.

    Raises:
        OSError: If a port is taken.
        ValueError: If the model does not load.
    """
    run_until_signal(lambda: Server(settings), settings.limits.stop_seconds, started)
