"""Clients that try to stop a server, and how long its other clients wait meanwhile.

`benchmarks.server_load --hostile` runs them.
"""

import contextlib
import functools
import json
import socket
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

Ports = tuple[int, int]
"""For gRPC and REST."""

_HEAD = """\
POST /v1/models/model:predict HTTP/1.1\r
Host: localhost\r
Connection: close\r
Content-Length: {}\r
\r
"""
_FORM_HEAD = _HEAD.replace("/v1/models/model:predict", "/translate_file").replace(
    "\r\n\r\n", "\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n"
)
_CLIENTS = 2


def _connect(ports: Ports) -> socket.socket:
    """Connect to the REST port, from another address than those of the other clients."""
    return socket.create_connection(("127.0.0.1", ports[1]), 5, source_address=("127.0.0.2", 0))


def post(ports: Ports, body: bytes, wait: float = 60, head: str = _HEAD) -> bytes:
    """Return the answer to a request, or leave after some seconds."""
    with _connect(ports) as one:
        one.settimeout(wait)
        one.sendall(head.format(len(body)).encode() + body)
        with contextlib.suppress(TimeoutError):
            return b"".join(iter(functools.partial(one.recv, 1 << 16), b""))
    return b""


# Made once, because the other clients are threads of the same process.
_LARGE = json.dumps({"inputs": 1024 * [450 * "word "]}).encode()
_NESTED = b'{"inputs": [' + 5_000_000 * b"[]," + b"[]]}"
_LINKS = (
    "\r\n".join(
        f"--x\r\nContent-Disposition: form-data; name={name}\r\n\r\n{value}"
        for name, value in {
            "source": "en",
            "target": "de",
            '"file"; filename="a.md"': 4200 * "[a](b)",
        }.items()
    ).encode()
    + b"\r\n--x--\r\n"
)
_INVALID = b'{"inputs": ["' + 15_000_000 * b"\xff" + b'"]}'


def large_rows_whose_clients_leave(ports: Ports) -> bytes:
    return post(ports, _LARGE, 0.5)


def large_rows_over_grpc_whose_clients_leave(ports: Ports) -> bytes:
    return _predict(ports, _request("", 1024, 450 * b"word "), 0.5)


def large_rows(ports: Ports) -> bytes:
    return post(ports, _LARGE, 10)


def nested_lists(ports: Ports) -> bytes:
    return post(ports, _NESTED)


def invalid_text(ports: Ports) -> bytes:
    return post(ports, _INVALID)


def attention_over_grpc(ports: Ports) -> bytes:
    return _predict(ports, _request("inspect", 60, 450 * b"word "))


def attention_over_rest(ports: Ports) -> bytes:
    body = {"signature_name": "inspect", "inputs": [30 * "word two. "]}
    return post(ports, json.dumps(body).encode())


def many_strings_over_grpc(ports: Ports) -> bytes:
    return _predict(ports, _request("", 1_000_000, b""))


def packed_values_over_grpc(ports: Ports) -> bytes:
    return _predict(ports, _request("", 1, b"", 15_000_000))


def documents_of_links(ports: Ports) -> bytes:
    return post(ports, _LINKS, head=_FORM_HEAD)


def slow_bodies(ports: Ports) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            one = stack.enter_context(_connect(ports))
            one.sendall(_HEAD.format(15_000_000).encode() + 100_000 * b" ")
        time.sleep(1)


def many_connections(ports: Ports) -> None:
    body = json.dumps({"inputs": ["A dog runs on the beach."]}).encode()
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            one = stack.enter_context(_connect(ports))
            one.sendall(_HEAD.format(len(body)).encode() + body)
            last = one
        last.recv(1)


ATTACKS: tuple[Callable[[Ports], object], ...] = (
    large_rows_whose_clients_leave,
    large_rows_over_grpc_whose_clients_leave,
    large_rows,
    nested_lists,
    invalid_text,
    attention_over_grpc,
    attention_over_rest,
    many_strings_over_grpc,
    packed_values_over_grpc,
    documents_of_links,
    slow_bodies,
    many_connections,
)


@functools.cache
def _request(signature: str, rows: int, text: bytes, values: int = 0) -> bytes:
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "model", signature
    request.inputs["text"].CopyFrom(tf.make_tensor_proto(rows * [text]))
    if values:  # Of another type, which take a byte each.
        request.inputs["text"].dtype = tf.bool.as_datatype_enum
        request.inputs["text"].bool_val.extend(values * [True])
    return request.SerializeToString()


def _predict(ports: Ports, content: bytes, wait: float = 60) -> bytes:
    """Return the error of a request, if there is one."""
    import grpc

    options = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{ports[0]}", options) as channel:
        predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        try:
            return predict(content, timeout=wait) and b""
        except grpc.RpcError as error:
            return error.details().encode()


def measure(
    ports: Ports,
    sends: Sequence[Callable[[list[str]], list[str]]],
    sentences: Sequence[str],
    seconds: float,
) -> str:
    """Return a table of how long single sentences take, beside hostile clients of each kind.

    Args:
        ports: The server's ports.
        sends: The other clients, one a thread.
        sentences: What these send, one at a time.
        seconds: How long each kind is at work.
    """
    sends[0]([450 * "word "])  # Shapes that TensorFlow has not seen take seconds.
    rows = [f"{'beside two of':32} answers  errors  p50, ms  p99, ms"]
    for attack in (None, *ATTACKS):
        end = time.monotonic() + seconds
        threads = [
            threading.Thread(target=_repeat, args=(attack, ports, end))
            for _ in range(_CLIENTS if attack else 0)
        ]
        times: list[float] = []
        errors: list[Exception] = []
        threads += [
            threading.Thread(target=_ask, args=(send, sentences, end, times, errors))
            for send in sends
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        middle, high = np.percentile(1000 * np.array(times), [50, 99])
        name = attack.__name__.replace("_", " ") if attack else "nobody"
        rows.append(f"{name:32} {len(times):7,} {len(errors):7,} {middle:8,.0f} {high:8,.0f}")
    return "\n".join(rows)


def _repeat(attack: Callable[[Ports], object], ports: Ports, end: float) -> None:
    while time.monotonic() < end:
        with contextlib.suppress(Exception):  # A refusal is what the server should answer.
            attack(ports)


def _ask(send, sentences, end, times, errors):
    turn = 0
    while time.monotonic() < end:
        started = time.monotonic()
        try:
            send([sentences[turn % len(sentences)]])
        except Exception as error:
            errors.append(error)
        else:
            times.append(time.monotonic() - started)
        turn += 1
        time.sleep(0.05)
