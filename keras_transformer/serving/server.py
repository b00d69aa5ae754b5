"""The server: both protocols, in one event loop."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import uvicorn
from tensorflow_serving.apis import model_service_pb2_grpc, prediction_service_pb2_grpc

from keras_transformer.serving.grpc_api import (
    Health,
    ModelService,
    PredictionService,
    RefuseMalformed,
)
from keras_transformer.serving.http import limited_protocol
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.predict import Predictor
from keras_transformer.serving.rest import RestApi
from keras_transformer.serving.settings import Batching, Settings
from keras_transformer.utils.versions import find_served_version

log = logging.getLogger(__name__)


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
        self.rest: Any = RestApi(self.predictor, metrics)
        self.prediction = PredictionService(self.predictor, metrics)
        self._model_service = ModelService(self.predictor, metrics)
        self._health = Health()
        self.port = self.rest_port = 0

    async def start(self) -> None:
        """Load the model, then open the ports.

        Raises:
            OSError: If a port is taken.
            ValueError: If the model does not load.
        """
        host, limits = self._settings.host, self._settings.limits
        # A port that is taken is an error before the model is loaded, which may take minutes.
        _bind(host, self._settings.port).close()
        listener = _bind(host, self._settings.rest_port)  # Refuses connections until it listens.
        self.rest_port = listener.getsockname()[1]
        try:
            await self.predictor.versions.load_first()
            await self._start_grpc(f"[{host}]" if ":" in host else host)
            listener.listen(2048)
        except BaseException:
            listener.close()
            raise
        config = uvicorn.Config(
            self.rest,
            interface="asgi3",
            proxy_headers=False,  # The access log has the address of the connection.
            http=limited_protocol(limits.idle_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # Malformed requests are client errors and are not logged.
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=max(1, round(limits.idle_seconds)),
            timeout_graceful_shutdown=max(1, round(limits.stop_seconds)),
        )
        self._http = _Http(config)
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
        waiting = asyncio.create_task(stop.wait())
        tasks = {waiting, self._serving, self._watching}
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if waiting in done:
            return
        for task in done:
            task.result()
        raise RuntimeError("the REST server has ended without an error")

    async def stop(self) -> None:
        """Refuse new requests, finish those that run, and close the ports."""
        await self._health.stop()
        self._watching.cancel()
        self._http.should_exit = True
        await asyncio.gather(self._grpc.stop(self._settings.limits.stop_seconds), self._serving)
        self.predictor.stop()


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that does not listen yet."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}. Give another "
            "--port, --rest-port or --host."
        ) from error
    return listener


class _Http(uvicorn.Server):
    """uvicorn's server, which leaves signals to `serve`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: Settings) -> None:
    """Serve a model until SIGTERM or SIGINT.

    After the first one, both have their handlers from before the call. By default, a second one
    then ends the process at once.

    Args:
        settings: What is served, and where.

    Raises:
        OSError: If a port is taken.
        ValueError: If the model does not load.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    if before[signal.SIGINT] is signal.default_int_handler:
        before[signal.SIGINT] = signal.SIG_DFL  # KeyboardInterrupt would wait for what runs.
    asyncio.run(_serve(settings, before))


async def _serve(settings: Settings, before: Mapping[signal.Signals, Any]) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def ask_to_stop() -> None:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
        stop.set()

    server = Server(settings)
    await server.start()
    for number in before:
        loop.add_signal_handler(number, ask_to_stop)
    log.info(
        "ready: REST at %s:%d, gRPC at %s:%d",
        *(settings.host, server.rest_port, settings.host, server.port),
    )
    try:
        await server.run_until(stop)
        log.info("stopping: running requests have %g seconds", settings.limits.stop_seconds)
    finally:
        await server.stop()
