"""The server of a model: both protocols, in one event loop."""

import asyncio
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2_grpc

from keras_transformer.serving.grpc_api import GrpcApi, Health, ReadRequests
from keras_transformer.serving.http import STOP_MARGIN, WebServer, bind
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.page import Page
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.queues import Batching
from keras_transformer.serving.rest import RestApi
from keras_transformer.serving.session import configure, device_name, usual_runs
from keras_transformer.serving.settings import Settings
from keras_transformer.serving.tensors import model_service_pb2_grpc, prediction_service_pb2_grpc
from keras_transformer.utils.versions import numbered_versions


class Server(WebServer):
    """A model server.

    Attributes:
        grpc: The gRPC services.
        port: The port for gRPC, once the server has started.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If a file of the model holds a wrong setting.
    """

    def __init__(self, settings: Settings):
        self._settings = settings
        configure(settings.threads, settings.gpu_memory_fraction)
        metrics = Metrics()
        self.predictor = Predictor(settings, metrics, _threads(settings))
        metrics.models = self.predictor.versions
        page = Page(self._served_versions, settings.limits) if settings.page else None
        super().__init__(RestApi(self.predictor, metrics, page), settings)
        self.grpc = GrpcApi(self.predictor, metrics)
        self._reader = ReadRequests(metrics)
        self._health = Health()
        self.port = 0

    def _served_versions(self) -> dict[str, Path | None]:
        """Return the directory of the version of each model that the page uses."""
        versions = self.predictor.versions
        served = {name: versions.of(name).served for name in versions.ready()}
        return {name: each[max(each)].path if each else None for name, each in served.items()}

    async def start(self) -> None:
        """Load the model, then open the ports.

        Raises:
            OSError: If a port is taken.
            ValueError: If the model does not load.
        """
        # A port that is taken is an error before the model is loaded, which may take minutes.
        bind(self._settings.host, self._settings.port, "--port").close()
        await super().start()
        self._watching = asyncio.create_task(self.predictor.versions.watch(self._report_health))

    async def prepare(self) -> None:
        """Load the model, and open the port for gRPC."""
        await self.predictor.versions.load_first()
        options = {
            "grpc.so_reuseport": 0,  # A second server on a port is an error.
            "grpc.max_receive_message_length": self.limits.request_bytes,
            "grpc.max_send_message_length": -1,
            "grpc.max_connection_idle_ms": round(1000 * self.limits.idle_seconds),
            "grpc.server_handshake_timeout_ms": 5000,
        }
        self._grpc_server = server = grpc.aio.server(
            interceptors=[self._reader], options=list(options.items())
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self.grpc, server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(self.grpc, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        self._report_health()
        host = self._settings.host
        address = f"[{host}]" if ":" in host else host
        address = f"{address}:{self._settings.port}"
        try:
            self.port = self._add_port(server, address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: {error}") from error
        await server.start()

    def _add_port(self, server: grpc.aio.Server, address: str) -> int:
        cert, key = self._settings.tls_cert, self._settings.tls_key
        if not cert or not key:
            return server.add_insecure_port(address)
        pair = key.read_bytes(), cert.read_bytes()
        return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))

    def _report_health(self) -> None:
        ready = self.predictor.versions.ready()
        self._health.set({"": all(ready.values()), **ready})

    async def run_until(self, stop: asyncio.Event, *tasks: asyncio.Task) -> None:
        """Wait until `stop` is set, or a task of the server ends."""
        await super().run_until(stop, self._watching, *tasks)

    async def stop(self) -> None:
        """Refuse new requests, finish those that run, and close the ports."""
        self._health.stop()
        self._watching.cancel()
        grace = self.limits.stop_seconds + STOP_MARGIN
        await asyncio.gather(self._grpc_server.stop(grace), super().stop())
        self.drop()

    def drop(self) -> None:
        """Answer requests that still run when the time to stop is over."""
        self.predictor.stop()

    def __str__(self) -> str:
        host = self._settings.host
        at = f"REST at {host}:{self.rest_port}, gRPC at {host}:{self.port}"
        return f"{at}, serving on {device_name()}"


def _threads(settings: Settings) -> int:
    """Return the number of runs of models at a time."""
    usual = settings.workers or usual_runs()
    if not settings.batching:
        return usual
    chosen = (config.choose(numbered_versions(config.base)) for config in settings.models)
    paths = (path for versions in chosen for path in versions.values())
    return max((Batching.read(path).num_batch_threads for path in paths), default=usual)
