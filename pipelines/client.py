"""Translate text with a model server: arguments, a file, or standard input, in order.

Usage:
    python -m pipelines.client --model en_de "A dog runs on the beach."
    python -m pipelines.client --model nllb --columns --input test.tsv

Invalid UTF-8 is sent as U+FFFD, so the server receives text that can be read in its logs, over REST
and gRPC alike.
"""

import argparse
import collections
import gzip
import importlib.util
import itertools
import json
import os
import ssl
import sys
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.errors import explain, plain_errors
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow
from pipelines.cli.text import add_columns_option, invite_input, one_line, split_columns

if TYPE_CHECKING:
    import grpc

Predict = Callable[[list[str]], list]
"""From texts, or lines for --columns, to a prediction for each: its one output, or a dictionary of
several outputs."""

ATTEMPTS = 5  # The most that gRPC allows.
PAUSE = 0.5
"""Seconds before the second retry over REST and the first over gRPC; it doubles each time."""
NO_GRPC = (
    "--grpc needs the package tensorflow-serving-api: pip install tensorflow-serving-api, or "
    "install this package with its [serving] extra."
)


class ServerError(Exception):
    """A model server did not do what it was asked; the message says why, and what to do."""


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.client") -> None:
    args = _parse(argv, prog)
    sys.stdout.reconfigure(encoding="utf-8")
    printed = 0
    try:
        predict = over_grpc(args) if args.grpc else over_rest(args)
        texts = read_texts(args.sentences, args.input)
        for predictions in in_order(predict, texts, args.batch_size, args.in_flight):
            for prediction in predictions:
                print(as_line(prediction))
            sys.stdout.flush()
            printed += len(predictions)
    except BrokenPipeError:
        raise
    except (EOFError, ImportError, OSError, ServerError, ValueError, zlib.error) as error:
        message = explain(error) or str(error)
        sys.exit(f"error: {message}" + (f" The first {printed} lines are done." if printed else ""))


def _parse(argv: Sequence[str] | None, prog: str) -> argparse.Namespace:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="model name on the server")
    parser.add_argument(
        "--version", type=int, metavar="N", help="version of the model (default: the highest)"
    )
    parser.add_argument(
        "--signature",
        help="signature to call (default serving_default); several outputs are printed as JSON",
    )
    for option, side in (("--from", "source"), ("--to", "target")):
        parser.add_argument(
            option,
            dest=f"{side}_language",
            metavar="CODE",
            help=f"{side} language for a model of many languages; needs the other, too",
        )
    add_columns_option(parser)
    address = parser.add_mutually_exclusive_group()
    address.add_argument(
        "--url", default="localhost:8501", help="the server's REST API (default localhost:8501)"
    )
    address.add_argument(
        "--grpc",
        metavar="HOST:PORT",
        help="the server's gRPC API, instead of REST; needs the [serving] extra",
    )
    parser.add_argument(
        "--tls-ca",
        metavar="FILE",
        help="certificates to trust, in PEM format, for an address that begins with https:// "
        "(default: the system's, or those of SSL_CERT_FILE)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=16,
        metavar="N",
        help="sentences per request (default 16); a server that pipelines.serve started takes up "
        "to 64",
    )
    parser.add_argument(
        "--in-flight", type=int, default=4, metavar="N", help="concurrent requests (default 4)"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60,
        metavar="SECONDS",
        help="timeout of a request (default 60)",
    )
    parser.add_argument("sentences", nargs="*", help="text to translate; otherwise --input")
    parser.add_argument(
        "--input", metavar="FILE", help="text or .gz file; standard input by default"
    )
    args = parser.parse_args(argv)
    parser.exclude(args, "sentences", "--input")
    if (args.source_language is None) != (args.target_language is None):
        parser.error("give both --from and --to, or neither")
    if args.columns and args.source_language:
        parser.error("give --columns or --from and --to, not both")
    if args.tls_ca and not (args.grpc or args.url).startswith("https://"):
        parser.error("--tls-ca needs --url or --grpc with an address that begins with https://")
    if (args.columns or args.source_language) and not args.signature:
        args.signature = "translate"
    if min(args.batch_size, args.in_flight, args.timeout) <= 0:
        parser.error("--batch-size, --in-flight and --timeout must be positive")
    return args


def read_texts(sentences: Sequence[str], path: str | None) -> Iterator[str]:
    """Yield the sentences, or else the lines of a file, or else those of standard input.

    Raises:
        ValueError: If a file is not UTF-8.
    """
    if sentences:
        for sentence in sentences:
            yield os.fsencode(sentence).decode("utf-8", "replace")
        return
    settings = {"encoding": "utf-8-sig", "newline": "\n"}
    if path is None:
        invite_input()
        sys.stdin.reconfigure(errors="replace", **settings)
        file = sys.stdin
    else:
        file = (gzip.open if path.endswith(".gz") else open)(path, "rt", **settings)
    try:
        with file:
            for line in file:
                yield line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"--input must be UTF-8 text, received {path}: {error}. Convert it, for example with "
            "iconv -f latin1 -t utf-8."
        ) from error


def in_order(
    predict: Predict, texts: Iterable[str], batch_size: int, in_flight: int
) -> Iterator[list]:
    """Yield the predictions of each batch, in the order of the texts.

    Args:
        predict: Sends a batch of texts to the server.
        texts: Any number of texts, read as requests are sent.
        batch_size: Texts per request.
        in_flight: Concurrent requests.

    Raises:
        ServerError: If the model does not return one prediction per text.
    """

    def ask(batch):
        predictions = predict(batch)
        if len(predictions) != len(batch):
            raise ServerError(
                f"A signature must return one prediction per sentence, received {len(predictions)} "
                f"for {len(batch)} sentences. Choose another --signature."
            )
        return predictions

    texts = iter(texts)
    threads = ThreadPoolExecutor(in_flight)
    waiting = collections.deque()
    try:
        while batch := list(itertools.islice(texts, batch_size)):
            waiting.append(threads.submit(ask, batch))
            # As many again are queued, so that no thread idles while the first answer is late.
            if len(waiting) == 2 * in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def as_line(prediction: object) -> str:
    """Return a prediction in one line: a translation as it is, anything else as JSON."""
    if isinstance(prediction, str):
        return one_line(prediction)
    return json.dumps(prediction, ensure_ascii=False, sort_keys=True)


def _inputs(args: argparse.Namespace, lines: list[str]) -> dict[str, list[str]]:
    """Return the inputs of a request by their names, with a value for each line."""
    if getattr(args, "columns", False):
        return split_columns(lines, are_numbered=False)
    codes = {side: getattr(args, side, None) for side in ("source_language", "target_language")}
    return {"text": lines, **{side: len(lines) * [code] for side, code in codes.items() if code}}


def over_rest(args: argparse.Namespace) -> Predict:
    """Return a function that sends texts to the REST API at --url."""
    import urllib3

    class Retry(urllib3.Retry):
        """Retries, but not after a timeout: the server may still be busy with the request."""

        def increment(self, method=None, url=None, response=None, error=None, **others):
            if isinstance(error, urllib3.exceptions.ReadTimeoutError):
                raise error
            return super().increment(method, url, response, error, **others)

    retries = Retry(
        total=ATTEMPTS - 1,
        connect=0,
        allowed_methods=None,  # Any: repeating a POST has no effect on the server.
        status_forcelist=(429, 503),
        raise_on_status=False,
        backoff_factor=PAUSE / 2,
        backoff_jitter=PAUSE / 2,
    )
    pool = urllib3.PoolManager(
        maxsize=args.in_flight,
        block=True,
        retries=retries,
        timeout=args.timeout,
        ca_certs=args.tls_ca and _checked_file(args.tls_ca),
    )
    address = args.url if "://" in args.url else f"http://{args.url}"
    model = urllib.parse.quote(args.model, safe="")
    version = "" if args.version is None else f"/versions/{args.version}"
    url = f"{address.rstrip('/')}/v1/models/{model}{version}:predict"
    signature = {"signature_name": args.signature} if args.signature else {}

    def predict(texts):
        if not texts:  # A server that batches leaves zero rows without an answer.
            return []
        try:
            instances: list = texts
            if len(inputs := _inputs(args, texts)) > 1:
                instances = [
                    dict(zip(inputs, row, strict=True))
                    for row in zip(*inputs.values(), strict=True)
                ]
            response = pool.request("POST", url, json={**signature, "instances": instances})
        except urllib3.exceptions.ReadTimeoutError as error:
            raise _server_error(args, address, 504, str(error)) from error
        except urllib3.exceptions.HTTPError as error:
            raise _server_error(args, address, 503, str(getattr(error, "reason", error))) from error
        try:
            answer = response.json()
        except ValueError:
            answer = None
        match answer:
            case {"predictions": list(predictions)}:
                return predictions
            case {"error": str(message)}:
                pass
            case _:  # The answer is not from a model server.
                message = response.data.decode("utf-8", "replace")[:500]
                if response.status == 404:  # No model server answers there, or not at that path.
                    raise ServerError(f"{address} answered 404: {message.strip()}")
        raise _server_error(args, address, response.status, message)

    return predict


def over_grpc(args: argparse.Namespace) -> Predict:
    """Return a function that sends texts to the gRPC API at --grpc.

    Raises:
        ImportError: If tensorflow-serving-api is not installed.
    """
    # Checked first, because importing TensorFlow takes seconds.
    if None in map(importlib.util.find_spec, ("grpc", "tensorflow_serving")):
        raise ImportError(NO_GRPC)
    import_tensorflow()
    import grpc
    import numpy as np
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    policy = {
        "maxAttempts": ATTEMPTS,
        "initialBackoff": f"{PAUSE}s",
        "maxBackoff": "60s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    options = {"grpc.service_config": json.dumps(config), "grpc.max_receive_message_length": -1}
    channel = _channel(args, list(options.items()))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    like_http = {
        "NOT_FOUND": 404,
        "RESOURCE_EXHAUSTED": 429,
        "UNAVAILABLE": 503,
        "DEADLINE_EXCEEDED": 504,
    }

    def values(tensor):
        array = tf.make_ndarray(tensor)
        if array.dtype == object:
            array = np.vectorize(bytes.decode, otypes=[object])(array)
        elif array.dtype == np.float32:  # 0.1 instead of 0.10000000149011612, as over REST.
            array = array.astype(str).astype(float)
        return array.tolist()

    def predict(texts):
        if not texts:
            return []
        request = predict_pb2.PredictRequest()
        request.model_spec.name = args.model
        if args.version is not None:
            request.model_spec.version.value = args.version
        request.model_spec.signature_name = args.signature or ""
        for name, column in _inputs(args, texts).items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(column))
        try:
            outputs = stub.Predict(request, timeout=args.timeout).outputs
        except grpc.RpcError as error:
            code = error.code().name
            status = like_http.get(code, code)
            raise _server_error(args, args.grpc, status, error.details()) from error
        columns = [values(outputs[name]) for name in outputs]
        if len(columns) == 1:
            return columns[0]
        return [dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True)]

    return predict


def _channel(args: argparse.Namespace, options: list[tuple]) -> "grpc.Channel":
    """Return a channel to --grpc, with TLS if that begins with https://."""
    import grpc

    if not args.grpc.startswith("https://"):
        return grpc.insecure_channel(args.grpc, options)
    trusted = args.tls_ca and _checked_file(args.tls_ca)
    # As REST does, instead of the certificates in gRPC's own package.
    trusted = trusted or ssl.get_default_verify_paths().cafile
    content = Path(trusted).read_bytes() if trusted else None
    address = args.grpc.removeprefix("https://").rstrip("/")
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(content), options)


def _checked_file(path: str) -> str:
    """Return the path of a file with certificates.

    Raises:
        ValueError: If it has none.
    """
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:  # That of a missing file does not name it.
        raise ValueError(
            f"--tls-ca must be a file with certificates in PEM format, received {path}: "
            f"{error.strerror or error}. Give the server's certificate, or that of who signed it."
        ) from error
    return path


def _server_error(
    args: argparse.Namespace, address: str, status: int | str, message: str
) -> ServerError:
    """Return the error to raise for an HTTP status, or one like it, and the server's message."""
    message = message.strip().removesuffix(".")
    match status:
        case 404:
            version = "" if args.version is None else f" in version {args.version}"
            return ServerError(
                f"{address} has no model {args.model!r}{version}: {message}. Give --model the name "
                "that pipelines.serve prints when it starts."
            )
        case 429 | 503:
            return ServerError(
                f"{address} is not available: {message}. Start a server with python -m "
                "pipelines.serve --model saved_models/NAME, or give its address with --url or "
                "--grpc, which begins with https:// for a server with TLS, and --tls-ca if its "
                "certificate is your own; if the server is busy, lower --in-flight."
            )
        case 504:
            return ServerError(
                f"{address} did not answer within {args.timeout:g} seconds: {message}. Send fewer "
                "sentences per request (--batch-size), or raise --timeout."
            )
    return ServerError(f"{address} answered {status}: {message}.")


if __name__ == "__main__":
    main()
