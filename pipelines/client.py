"""Translate text by a model server: arguments, a file, or standard input, line by line in order.

Usage:
    python -m pipelines.client --model en_de "A dog runs on the beach."

What is no UTF-8 is sent as U+FFFD, so that what the server gets is text that can be read in its
logs, over REST and gRPC alike.
"""

import argparse
import collections
import gzip
import itertools
import json
import os
import sys
import urllib.parse
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import urllib3

import pipelines

Predict = Callable[[list[str]], list]
"""From texts to what a signature gives for each: its one output, or a dictionary of several."""

ATTEMPTS = 5  # gRPC makes no more.
PAUSE = 0.5
"""Seconds before the second retry over REST, the first over gRPC; then twice as long each time."""


class ServerError(Exception):
    """A model server did not do what it was asked; the message says why, and what to do."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="the name that the server gives the model")
    parser.add_argument("--version", type=int, help="of the model; the server's highest by default")
    parser.add_argument(
        "--signature", help="several outputs of one are printed as JSON (default serving_default)"
    )
    address = parser.add_mutually_exclusive_group()
    address.add_argument(
        "--url", default="localhost:8501", help="the server's REST API (default localhost:8501)"
    )
    address.add_argument("--grpc", metavar="HOST:PORT", help="the server's gRPC API, in its place")
    parser.add_argument(
        "--batch-size",
        type=int,
        default=16,
        help="sentences a request (16); as pipelines.serve starts it, a server takes up to 64",
    )
    parser.add_argument("--in-flight", type=int, default=4, help="requests at a time (4)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a request (60)")
    parser.add_argument("sentences", nargs="*", help="what to translate; else --input is read")
    parser.add_argument("--input", help="text or .gz file; standard input by default")
    args = parser.parse_args(argv)
    if args.sentences and args.input:
        parser.error("give sentences or --input, not both")
    if min(args.batch_size, args.in_flight, args.timeout) <= 0:
        parser.error("--batch-size, --in-flight and --timeout must be positive")

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
    except (EOFError, ImportError, OSError, ServerError, ValueError, zlib.error) as error:
        sys.exit(f"error: {error}" + (f" The first {printed} lines are done." if printed else ""))


def read_texts(sentences: Sequence[str], path: str | None) -> Iterator[str]:
    """Yield what to translate: the sentences, else the lines of a file, else of standard input."""
    if sentences:
        for sentence in sentences:
            yield os.fsencode(sentence).decode("utf-8", "replace")
        return
    settings = {"encoding": "utf-8-sig", "errors": "replace", "newline": "\n"}
    if path is None:
        sys.stdin.reconfigure(**settings)
        file = sys.stdin
    else:
        file = (gzip.open if path.endswith(".gz") else open)(path, "rt", **settings)
    with file:
        for line in file:
            yield line.rstrip("\r\n")


def in_order(
    predict: Predict, texts: Iterable[str], batch_size: int, in_flight: int
) -> Iterator[list]:
    """Yield the predictions of each batch in the order of the texts, with several requests at work.

    The texts are read as the requests go, so that there may be any number of them.
    """

    def ask(batch):
        predictions = predict(batch)
        if len(predictions) != len(batch):
            raise ServerError(
                f"The model gave {len(predictions)} predictions for {len(batch)} sentences. Its "
                "outputs must have one for each: choose another --signature."
            )
        return predictions

    texts = iter(texts)
    threads = ThreadPoolExecutor(in_flight)
    waiting = collections.deque()
    try:
        while batch := list(itertools.islice(texts, batch_size)):
            waiting.append(threads.submit(ask, batch))
            # As many again wait for a thread, so that none idles while the first answer is late.
            if len(waiting) == 2 * in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def as_line(prediction: object) -> str:
    """Return a prediction on one line: a translation as it is, anything else as JSON."""
    if isinstance(prediction, str):
        return prediction.replace("\n", " ").replace("\r", " ")
    return json.dumps(prediction, ensure_ascii=False, sort_keys=True)


class _Retry(urllib3.Retry):
    """Tries again, but not after a timeout, when the server is still at the first request."""

    def increment(self, method=None, url=None, response=None, error=None, **others):
        if isinstance(error, urllib3.exceptions.ReadTimeoutError):
            raise error
        return super().increment(method, url, response, error, **others)


def over_rest(args: argparse.Namespace) -> Predict:
    """Return a function that sends texts to the REST API at --url."""
    retries = _Retry(
        total=ATTEMPTS - 1,
        connect=0,
        allowed_methods=None,  # All of them: a POST that is repeated changes nothing here.
        status_forcelist=(429, 503),
        raise_on_status=False,
        backoff_factor=PAUSE / 2,
        backoff_jitter=PAUSE / 2,
    )
    pool = urllib3.PoolManager(
        maxsize=args.in_flight, block=True, retries=retries, timeout=args.timeout
    )
    address = args.url if "://" in args.url else f"http://{args.url}"
    model = urllib.parse.quote(args.model, safe="")
    version = "" if args.version is None else f"/versions/{args.version}"
    url = f"{address.rstrip('/')}/v1/models/{model}{version}:predict"
    signature = {"signature_name": args.signature} if args.signature else {}

    def predict(texts):
        try:
            response = pool.request("POST", url, json={**signature, "instances": texts})
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
            case _:  # Not from a model server.
                message = response.data.decode("utf-8", "replace")[:500]
        raise _server_error(args, address, response.status, message)

    return predict


def over_grpc(args: argparse.Namespace) -> Predict:
    """Return a function that sends texts to the gRPC API at --grpc.

    Raises:
        ImportError: tensorflow-serving-api is not installed.
    """
    pipelines.import_tensorflow_quietly()  # The messages below are TensorFlow's.
    import grpc
    import numpy as np
    import tensorflow as tf

    try:
        from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
    except ImportError as error:
        raise ImportError(
            "--grpc needs an optional package: pip install tensorflow-serving-api"
        ) from error

    policy = {
        "maxAttempts": ATTEMPTS,
        "initialBackoff": f"{PAUSE}s",
        "maxBackoff": "60s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["RESOURCE_EXHAUSTED", "UNAVAILABLE"],
    }
    config = {"methodConfig": [{"name": [{}], "retryPolicy": policy}]}
    options = {"grpc.service_config": json.dumps(config), "grpc.max_receive_message_length": -1}
    channel = grpc.insecure_channel(args.grpc, list(options.items()))
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
        elif array.dtype == np.float32:  # 0.1 and not 0.10000000149011612, as over REST.
            array = array.astype(str).astype(float)
        return array.tolist()

    def predict(texts):
        request = predict_pb2.PredictRequest()
        request.model_spec.name = args.model
        if args.version is not None:
            request.model_spec.version.value = args.version
        request.model_spec.signature_name = args.signature or ""
        request.inputs["text"].CopyFrom(tf.make_tensor_proto(texts))
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


def _server_error(
    args: argparse.Namespace, address: str, status: int | str, message: str
) -> ServerError:
    """Return the error to raise for a status, of HTTP or like it, and the server's message."""
    message = message.strip().removesuffix(".")
    match status:
        case 404:
            version = "" if args.version is None else f" in version {args.version}"
            return ServerError(
                f"{address} has no model {args.model!r}{version}: {message}. Give as --model the "
                "name that it is served by, which pipelines.serve says when it starts."
            )
        case 429 | 503:
            return ServerError(
                f"{address} is not available: {message}. Start a server with python -m "
                "pipelines.serve --model saved_models/NAME, or give its address, --url or --grpc; "
                "if it is there and busy, lower --in-flight."
            )
        case 504:
            return ServerError(
                f"{address} did not answer within {args.timeout:g} seconds: {message}. Send fewer "
                "sentences a request, --batch-size, or raise --timeout."
            )
    return ServerError(f"{address} answered {status}: {message}.")


if __name__ == "__main__":
    main()
