"""Clients that are slow, large, broken or malicious; the others must not notice."""

import contextlib
import gzip
import os
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, types_pb2

from keras_transformer.serving.settings import Limits
from tests.helpers.model_server import ModelServer
from tests.serving.conftest import connect, grpc_error

BODY = b'{"inputs": ["a"]}'
HEAD = b"POST /v1/models/shout:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def strict(base):
    """A client of a server that is short of patience."""
    limits = Limits(
        request_bytes=100_000,
        answer_values=1000,
        body_seconds=0.5,
        idle_seconds=0.7,
        connections=40,
        stop_seconds=5,
    )
    with ModelServer(base, "shout", limits=limits) as server:
        yield connect(server)


@pytest.fixture(autouse=True)
def others_are_served(strict):
    yield
    assert strict.post({"inputs": ["a"]}) == (200, {"outputs": ["A"]})
    assert strict.predict({"text": ["a"]}) == {"translation": [b"A"]}


@contextlib.contextmanager
def connection(client):
    with socket.create_connection(("localhost", client.server.rest_port), timeout=10) as one:
        yield one


def read_all(one):
    """Return what arrives until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionError):
        while part := one.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


def test_a_body_that_stops_is_answered_408(strict):
    with connection(strict) as one:
        one.sendall(HEAD % len(BODY) + BODY[:5])
        answer = read_all(one)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not arrive within 0.5 seconds" in answer


def test_a_body_that_trickles_is_answered_408(strict):
    with connection(strict) as one, contextlib.suppress(ConnectionError):
        one.sendall(HEAD % 1000)
        one.settimeout(0.1)
        answer, started = b"", time.monotonic()
        while not answer and time.monotonic() < started + 5:
            one.sendall(b" ")
            with contextlib.suppress(TimeoutError):
                answer = one.recv(1 << 16)
    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("sent", [b"", b"POST /v1/mod", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
def test_a_head_that_does_not_end_closes_the_connection(sent, strict):
    with connection(strict) as one:
        one.sendall(sent)
        started = time.monotonic()
        read_all(one)
        assert 0.3 < time.monotonic() - started < 5


def test_an_idle_connection_is_closed_after_its_answer(strict):
    with connection(strict) as one:
        one.sendall(HEAD % len(BODY) + BODY)
        assert read_all(one).startswith(b"HTTP/1.1 200")


def test_a_gigabyte_is_refused_before_it_is_sent(strict):
    with connection(strict) as one:
        one.sendall(HEAD % 10**9)
        answer = read_all(one)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"larger than 100000 bytes" in answer


def test_chunks_without_end_are_refused(strict):
    with connection(strict) as one:
        one.sendall(b"POST /v1/models/shout:predict HTTP/1.1\r\nHost: localhost\r\n")
        one.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):  # 100,000 bytes, which may come.
            one.sendall(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        one.sendall(b"1\r\nx\r\n")
        assert read_all(one).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("requests", [1, 2])
def test_a_client_that_does_not_read_its_answer_is_cut_off(requests, base):
    body = b'{"inputs": ["' + b"a" * 15_000_000 + b'"]}'  # Larger than the sockets' buffers.
    with (
        ModelServer(base, "shout", limits=Limits(idle_seconds=1)) as server,
        connection(SimpleNamespace(server=server)) as one,
    ):
        one.sendall((HEAD % len(body) + body) + (requests - 1) * (HEAD % len(BODY) + BODY))
        connections = server.server._http.server_state.connections
        deadline = time.monotonic() + 20
        while connections:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_an_answer_of_too_many_values_is_refused(strict):
    assert strict.post({"inputs": 1000 * ["a"]})[0] == 200
    status, answer = strict.post({"inputs": 1001 * ["a"]})
    assert status == 400
    assert "at most 1000 values, and this one has 1001" in answer["error"]
    assert len(strict.predict({"text": 1001 * ["a"]})["translation"]) == 1001


def test_the_attention_of_every_head_has_fewer_rows(strict):
    strict.predict({"text": 128 * ["a"]}, "heads")
    message = "Task size 129 is larger than maximum input batch size 128"  # 1024 / (2 * 4)
    assert grpc_error(strict.predict, {"text": 129 * ["a"]}, "heads")[1] == message


def test_a_compressed_bomb_is_refused(strict):
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 20_000
    status, _ = strict.post(bomb, headers={"Content-Encoding": "gzip"})
    assert status == 413


def test_a_client_that_has_sent_its_request_may_close_its_side(strict):
    with connection(strict) as one:
        one.sendall(HEAD % len(BODY) + BODY)
        one.shutdown(socket.SHUT_WR)
        answer = read_all(one)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"A"' in answer


def test_clients_that_leave_in_the_middle_are_forgotten(strict):
    for sent in (b"", HEAD[:20], HEAD % 50, HEAD % len(BODY) + BODY):
        for _ in range(10):
            with connection(strict) as one:
                one.sendall(sent)
    # As many came as the limit of connections, some of which may not even be accepted yet.
    deadline = time.monotonic() + 20
    while (status := strict.post({"inputs": ["a"]})[0]) == 503:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert status == 200


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files on Linux")
def test_ten_thousand_connections_in_turn_leave_nothing_behind(strict):
    request = HEAD % len(BODY) + BODY
    connections = strict.server.server._http.server_state.connections
    before, served = len(os.listdir("/proc/self/fd")), 0
    for _ in range(2000):
        for sent in (b"", b"\0\xff\r\n\r\n", HEAD[:30], HEAD % 10**9, request):
            with connection(strict) as one:
                one.sendall(sent)
                if sent == request:
                    served += one.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert served == 2000
    deadline = time.monotonic() + 20
    while connections or len(os.listdir("/proc/self/fd")) > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)


ODD_PATHS = """
/v1/models/../../etc/passwd /v1/models/%2e%2e/versions/1 /v1/models/shout%2Fversions%2F3:predict
//v1/models/shout:predict /v1/models/shout:predict/ /v1/models/shout:predict%00
/v1/models/shout/versions/-1:predict /v1/models/shout/versions/\xd9\xa3:predict
/v1/models/%ff%fe:predict http://elsewhere/v1/models/shout:predict *
"""


@pytest.mark.parametrize("path", [*ODD_PATHS.split(), "/v1/models/" + "a" * 5000 + ":predict"])
def test_odd_paths_are_refused(path, strict):
    with connection(strict) as one:
        one.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\n" % path.encode("latin-1"))
        one.sendall(b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY))
        assert read_all(one)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 404")


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_any_body_gets_an_answer(strict, body):
    status, _ = strict.post(body)
    assert status in (200, 400)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_on_the_rest_port_are_survived(strict, sent):
    with connection(strict) as one:
        one.sendall(sent)
        one.shutdown(socket.SHUT_WR)
        answer = read_all(one)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def tensor(dtype=types_pb2.DT_STRING, shape=(1,), **fields):
    proto = tensor_pb2.TensorProto(dtype=dtype, **fields)
    for size in shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


@pytest.mark.parametrize(
    "proto",
    [
        tensor(shape=[10**12], string_val=[b"a"]),  # Would fill the memory.
        tensor(shape=[2**40, 2**40], string_val=[b"a"]),
        tensor(shape=[-1], string_val=[b"a"]),
        tensor(shape=[1], string_val=[b"a", b"b"]),
        tensor(shape=[1], tensor_content=b"abc"),
        tensor(types_pb2.DT_FLOAT, [3], tensor_content=b"abc"),
        tensor(types_pb2.DT_INVALID),
        tensor(types_pb2.DT_RESOURCE),
        tensor(types_pb2.DT_VARIANT, [0]),
        tensor_pb2.TensorProto(dtype=999, string_val=[b"a"]),
    ],
)
def test_malformed_tensors_are_refused(proto, strict):
    assert grpc_error(strict.predict, {"text": proto})[0] == "INVALID_ARGUMENT"


def call(client, content):
    method = client.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    return method(content, timeout=20)


@pytest.mark.parametrize("content", [b"\xff" * 20, b"\x0a\x05ab", b"", b"\x12\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_request_are_refused(content, strict):
    assert grpc_error(call, strict, content)[0] in ("INTERNAL", "INVALID_ARGUMENT", "NOT_FOUND")


def test_a_message_that_is_too_large_is_refused(strict):
    code, _ = grpc_error(strict.predict, {"text": ["a" * 200_000]})
    assert code == "RESOURCE_EXHAUSTED"


def test_http_on_the_grpc_port_is_survived(strict):
    with socket.create_connection(("localhost", strict.server.port), timeout=10) as one:
        one.sendall(HEAD % len(BODY) + BODY)
        assert b"HTTP/1.1 200" not in read_all(one)


def test_a_call_ends_at_its_deadline(strict):
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name, request.model_spec.signature_name = "shout", "slow"
    request.inputs["text"].CopyFrom(tensor(string_val=[b"100000"]))
    with pytest.raises(grpc.RpcError) as error:
        strict.stub.Predict(request, timeout=0.2)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
