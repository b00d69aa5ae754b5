"""The product's model server in a thread of the test, with hooks for what clients may meet."""

import asyncio
import subprocess
import threading
from pathlib import Path

import grpc
import tensorflow as tf

from keras_transformer.serving.errors import ServingError, of_number
from keras_transformer.serving.server import Server
from keras_transformer.serving.settings import ModelConfig, Settings


class InThread:
    """Runs the server that `make` returns in a thread, until the `with` block ends.

    Attributes:
        server: The product's server.
        rest_port: Its port for REST.
    """

    def __init__(self, make):
        self._make = make

    def __enter__(self):
        self._ready, self._error = threading.Event(), None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error:
            raise self._error
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Stop as on SIGTERM, and wait until the server has ended."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _run(self):
        self.loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            self.server = self._make()
            await self.server.start()
            self.rest_port = self.server.rest_port
        except BaseException as error:
            self._error = error
            return
        finally:
            self._ready.set()
        await self._stop.wait()
        await self.server.stop()


class ModelServer(InThread):
    """Serves the highest version below a directory, until the `with` block ends.

    Attributes:
        port: Its port for gRPC.
        on_predict: Called in a thread for each Predict request, before it is read. An error of
            `tf.errors` that it raises becomes the answer; a ConnectionResetError breaks the
            connection.
        paths: The path of each REST request.
    """

    def __init__(self, base, name, **settings):
        models = settings.pop("models", [ModelConfig(name=name, base=Path(base))])
        self.settings = Settings(models=models, port=0, rest_port=0, **settings)
        self.on_predict = lambda: None
        self.paths = []
        super().__init__(self._hooked_server)

    @property
    def port(self):
        return self.server.port

    def _hooked_server(self):
        server = Server(self.settings)
        self._rest, server.rest = server.rest, self._hooked_rest
        self._predict, server.grpc.Predict = server.grpc.Predict, self._hooked_predict
        return server

    async def _hooked_rest(self, scope, receive, send):
        self.paths.append(scope["raw_path"].decode())
        if scope["method"] == "POST":
            try:
                await asyncio.to_thread(self.on_predict)
            except ConnectionResetError:
                # `send` is that of an exchange, beneath which is the protocol's own.
                send.__self__._send.__self__.transport.abort()
                return
            except tf.errors.OpError as error:
                failure = of_number(error.error_code, error.message)

                async def fail(*_):
                    raise failure

                return await self._with_predict(fail, scope, receive, send)
        await self._rest(scope, receive, send)

    async def _with_predict(self, predict, *request):
        """Answer a REST request with another `_predict`."""
        api = type(self._rest)(self.server.predictor, self._rest._metrics)
        api._predict = predict
        await api(*request)

    async def _hooked_predict(self, request, context):
        try:
            await asyncio.to_thread(self.on_predict)
        except ConnectionResetError:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer")
        except tf.errors.OpError as error:
            failure: ServingError = of_number(error.error_code, error.message)
            await context.abort(grpc.StatusCode[failure.code.name], failure.message)
        return await self._predict(request, context)


def write_certificate(folder):
    """Write a certificate for localhost and its key, and return the paths of both."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    kind = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", *kind, *name, "-days", "1", "-out", cert, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return cert, key
