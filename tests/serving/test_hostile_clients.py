"""Clients that are slow, large, broken or malicious; the others must not notice."""

import asyncio
import contextlib
import gzip
import json
import os
import socket
import struct
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tensorflow.core.framework import tensor_pb2, types_pb2

from benchmarks import hostile_clients
from keras_transformer.serving import json_format
from keras_transformer.serving.grpc_api import Health
from keras_transformer.serving.model import Model
from keras_transformer.serving.parts import Pace
from keras_transformer.serving.queues import Room
from keras_transformer.serving.settings import Limits
from tests.serving.conftest import grpc_error, save, serving, wait

BODY = b'{"inputs": ["a"]}'
HEAD = b"POST /v1/models/shout:predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def strict(base):
    """A client of a server that is short of patience."""
    limits = Limits(
        request_bytes=100_000,
        answer_values=1024,
        body_seconds=0.5,
        idle_seconds=0.7,
        connections=40,
        stop_seconds=5,
    )
    with serving(base, limits=limits) as client:
        yield client


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


CHUNKED = HEAD.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
LARGE_CHUNKS = 10 * (b"2710\r\n" + b"x" * 10_000 + b"\r\n")  # 100,000 bytes, which may come.


@pytest.mark.parametrize(
    "sent, status, message",
    [
        (HEAD % len(BODY) + BODY, 200, '"A"'),  # Then the connection is idle.
        (HEAD % len(BODY) + BODY[:5], 408, "did not arrive within 0.5 seconds"),
        (HEAD % 10**9, 413, "larger than 100000 bytes"),
        (CHUNKED + LARGE_CHUNKS + b"1\r\nx\r\n", 413, "larger than 100000 bytes"),
    ],
    ids=["idle", "stops", "gigabyte", "chunks without end"],
)
def test_a_connection_is_answered_and_closed(sent, status, message, strict):
    with connection(strict) as one:
        one.sendall(sent)
        answer = read_all(one).decode()
    assert answer.startswith(f"HTTP/1.1 {status}") and message in answer


@pytest.mark.parametrize(
    "path, headers, status",
    [
        ("/v1/models/shout:predict", {}, 413),
        ("/v1/models/shout:predict", {"Host": "evil.example"}, 403),
        ("/nothing", {"Connection": "close"}, 404),
    ],
)
def test_a_client_that_sends_a_whole_body_first_reads_the_answer(path, headers, status, plain):
    assert plain.ask("POST", path, 17_000_000 * b"x", headers)[0] == status


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


def test_a_body_in_tiny_chunks_lets_others_pass(plain):
    done, answers = threading.Event(), 0

    def send():
        with connection(plain) as one:
            one.sendall(CHUNKED + 360_000 * b"1\r\n \r\n" + b"0\r\n\r\n")
            one.recv(1 << 16)
        done.set()

    threading.Thread(target=send).start()
    while not done.is_set():
        answers += plain.post({"inputs": ["a"]})[0] == 200
    assert answers >= 4


@pytest.mark.parametrize("requests", [1, 2])
def test_a_client_that_does_not_read_its_answer_is_cut_off(requests, base):
    body = b'{"inputs": ["' + b"a" * 15_000_000 + b'"]}'  # Larger than the sockets' buffers.
    with serving(base, limits=Limits(idle_seconds=1)) as client, connection(client) as one:
        one.sendall((HEAD % len(body) + body) + (requests - 1) * (HEAD % len(BODY) + BODY))
        connections = client.server.server._http.server_state.connections
        wait(lambda: not connections)


def test_an_answer_of_too_many_values_is_refused(strict, monkeypatch):
    body = {"inputs": 341 * ["a"], "signature_name": "score"}  # Three values a row.
    assert strict.post(body)[0] == 200
    status, answer = strict.post(body | {"inputs": 342 * ["a"]})
    message = "at most 1024 values, and this one has 1026"
    assert (status, message in answer["error"]) == (400, True)
    text = {"text": 342 * ["a"]}
    strict.predict(text, "score")  # The limit of gRPC is that of memory.
    monkeypatch.setattr(strict.server.server.predictor, "_memory", 64 * 1024)
    assert message in grpc_error(strict.predict, text, "score")[1]
    assert len(strict.predict(text, "score", output_filter=["length"])["length"]) == 342


def test_the_attention_of_every_head_has_fewer_rows(strict):
    strict.predict({"text": 128 * ["a"]}, "heads")
    message = "Task size 129 is larger than maximum input batch size 128"  # 1024 / (2 * 4)
    assert grpc_error(strict.predict, {"text": 129 * ["a"]}, "heads")[1] == message


LONG_BODIES = {  # What is repeated, how often, and what comes before and after.
    "lists": (b"[],", 5_000_000, b"[", b"[]]}"),
    "as many lists as there may be": (b"[],", 131_000, b"[", b"[]]}"),
    "long strings": (b'"' + 50 * b"a" + b'",', 260_000, b"[", b'""]}'),
    "objects": (b'{"b64": ""},', 65_000, b"[", b'""]}'),
    "nested": (b"[", 260_000, b"", b""),
    "digits": (b"1", 15_000_000, b"[", b"]}"),
    "a text": (b"a", 15_000_000, b'["', b'"]}'),
    "bytes that are no text": (b"\xff", 15_000_000, b'["', b'"]}'),
}


@pytest.mark.parametrize("name", LONG_BODIES)
def test_a_body_is_not_read_by_the_event_loop(name, plain, monkeypatch):
    part, count, before, after = LONG_BODIES[name]
    readers, decoded = set(), []

    def recorded(function):
        def read(*args, **options):
            readers.add(threading.get_ident())
            return function(*args, **options)

        return read

    class Decoder(json.JSONDecoder):
        def raw_decode(self, text):
            decoded.append(text)
            return super().raw_decode(text)

    for function in (json_format.parse, json_format.read_inputs):
        monkeypatch.setattr(json_format, function.__name__, recorded(function))
    monkeypatch.setattr(json_format.json, "JSONDecoder", Decoder)
    assert plain.post(b'{"inputs": ' + before + count * part + after)[0] in (200, 400)

    async def loop_thread():
        return threading.get_ident()

    loop = asyncio.run_coroutine_threadsafe(loop_thread(), plain.server.loop).result()
    assert readers and loop not in readers
    # More values than a request may have are refused before they are decoded.
    assert len(decoded) == (name != "lists")


def test_a_compressed_bomb_is_refused(strict):
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 20_000
    assert strict.post(bomb, headers={"Content-Encoding": "gzip"})[0] == 413
    members = 3 * gzip.compress(b" " * 40_000)  # Together, more than a request may have.
    assert strict.post(members, headers={"Content-Encoding": "gzip"})[0] == 413


@pytest.mark.parametrize("seconds", [0, 1.5])
def test_a_client_that_has_sent_its_request_may_close_its_side(seconds, strict):
    strict.server.on_predict = lambda: time.sleep(seconds)
    with connection(strict) as one:
        one.sendall(HEAD % len(BODY) + BODY)
        one.shutdown(socket.SHUT_WR)
        answer = read_all(one)
    strict.server.on_predict = lambda: None
    # "100 Continue" finds out whether the client has left.
    assert answer.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n").startswith(b"HTTP/1.1 200")
    assert answer.startswith(b"HTTP/1.1 200") == (seconds == 0)
    assert b'"A"' in answer


@pytest.mark.parametrize("addresses", [["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]])
def test_idle_connections_leave_room_for_other_addresses(addresses, strict):
    port = strict.server.rest_port
    with contextlib.ExitStack() as stack:
        for address in 30 * addresses:
            one = socket.create_connection(("127.0.0.1", port), 10, (address, 0))
            stack.enter_context(one)
        assert strict.get("/livez") == (200, b"ok")
        connections = list(strict.server.server._http.server_state.connections)
        counts = Counter(one.address for one in connections)
        assert len(connections) <= 40 and max(counts.values()) == 20


def test_a_body_takes_room_once_it_arrives(strict, monkeypatch):
    room = Room(150_000)
    monkeypatch.setattr(strict.server._rest, "_room", room)
    large = b'{"inputs": ["' + b"a" * 80_000 + b'"]}'
    small = {"headers": {"Content-Encoding": "gzip"}}
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            one = stack.enter_context(connection(strict))
            one.sendall(HEAD % len(large))
        assert strict.post(large)[0] == 200
        assert strict.post(gzip.compress(BODY), **small)[0] == 200
        one.sendall(large[:-1])
        wait(lambda: room._left < 150_000)
        assert strict.post(large)[0] == 503
        assert strict.post(BODY)[0] == 200
    wait(lambda: room._left == 150_000)


@pytest.mark.slow
def test_a_silent_connection_for_grpc_is_closed(strict):
    with socket.create_connection(("localhost", strict.server.port), timeout=20) as one:
        read_all(one)


def test_clients_that_leave_in_the_middle_are_forgotten(strict):
    for sent in (b"", HEAD[:20], HEAD % 50, HEAD % len(BODY) + BODY):
        for _ in range(10):
            with connection(strict) as one:
                one.sendall(sent)

    def is_served():  # As many came as may connect, and some may not even be accepted yet.
        with contextlib.suppress(ConnectionError):
            return strict.post({"inputs": ["a"]})[0] == 200

    wait(is_served)


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
    wait(lambda: not connections and len(os.listdir("/proc/self/fd")) <= before)


ODD_PATHS = """
/v1/models/../../etc/passwd /v1/models/%2e%2e/versions/1 /v1/models/shout%2Fversions%2F3:predict
//v1/models/shout:predict /v1/models/shout:predict/ /v1/models/shout:predict%00
/v1/models/shout/versions/-1:predict /v1/models/shout/versions/\xd9\xa3:predict
/v1/models/%ff%fe:predict *
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
        tensor(shape=9000 * [2**40], string_val=[b"a"]),  # Their product has 100,000 digits.
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
    for _ in range(3):
        code, _ = grpc_error(strict.predict, {"text": ["a" * 200_000]})
        if code != "UNAVAILABLE":  # The server has just closed the connection, which was idle.
            break
    assert code == "RESOURCE_EXHAUSTED"


def test_http_on_the_grpc_port_is_survived(strict):
    with socket.create_connection(("localhost", strict.server.port), timeout=10) as one:
        one.sendall(HEAD % len(BODY) + BODY)
        assert b"HTTP/1.1 200" not in read_all(one)


def frame(kind, flags, stream, body):
    """Return a frame of HTTP/2."""
    return struct.pack(">IBBI", len(body), kind, flags, stream)[1:] + body


def watch_without_reading(client):
    """Return a connection that watches the server's health and lets it send nothing."""
    window = struct.pack(">HI", 4, 0)
    path = b"/grpc.health.v1.Health/Watch"
    fields = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"localhost"}
    fields |= {b"content-type": b"application/grpc", b"te": b"trailers"}
    pairs = (bytes([0, len(x), *x, len(y), *y]) for x, y in fields.items())
    one = socket.create_connection(("localhost", client.server.port), timeout=20)
    one.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, window) + frame(4, 1, 0, b""))
    one.sendall(frame(1, 4, 1, b"".join(pairs)) + frame(0, 1, 1, bytes(5)))
    return one


def test_a_watcher_that_reads_nothing_does_not_hold_up_the_end(base):
    with serving(base, limits=Limits(stop_seconds=0.5)) as client:
        health = health_pb2_grpc.HealthStub(client.channel)
        watch = iter(health.Watch(health_pb2.HealthCheckRequest()))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        with watch_without_reading(client) as one:
            received = b""
            while b"application/grpc" not in received:  # The head of the answer.
                received += one.recv(1 << 16)
            client.server.stop()
    assert [each.status for each in watch] == [health_pb2.HealthCheckResponse.NOT_SERVING]


def test_a_watcher_that_reads_nothing_holds_up_no_change():
    async def watch_twice():
        health, never, read = Health(), asyncio.Event(), asyncio.Queue()
        request = health_pb2.HealthCheckRequest(service="a")
        contexts = [SimpleNamespace(write=write) for write in (lambda _: never.wait(), read.put)]
        tasks = [asyncio.create_task(health.Watch(request, context)) for context in contexts]
        found = [(await read.get()).status]
        for serves in (True, False, True):
            health.set({"a": serves})
            found.append((await read.get()).status)
        health.stop()
        await tasks[1]
        tasks[0].cancel()
        return [*found, read.get_nowait().status]

    names = [
        health_pb2.HealthCheckResponse.ServingStatus.Name(x) for x in asyncio.run(watch_twice())
    ]
    assert names == ["SERVICE_UNKNOWN", "SERVING", "NOT_SERVING", "SERVING", "NOT_SERVING"]


def test_a_call_ends_at_its_deadline(strict):
    code, _ = grpc_error(strict.predict, {"text": ["100000"]}, "slow", timeout=0.2)
    assert code == "DEADLINE_EXCEEDED"


@pytest.fixture
def counted(tmp_path_factory, monkeypatch):
    """A client of a server with one thread, whose model takes `seconds` for a row, 2 ms.

    Its `rows` are those of each run. Rows of `score` and `heads` may be run apart.
    """
    base = tmp_path_factory.mktemp("counted") / "model"
    save(base / "1", row_wise=("score", "heads", "serving_default"))
    run, rows = Model.run, []

    def count(self, signature, inputs):
        rows.append(len(inputs["text"]))
        time.sleep(client.seconds * len(inputs["text"]))
        return run(self, signature, inputs)

    monkeypatch.setattr(Model, "run", count)
    with serving(base, "model", workers=1) as client:
        client.rows, client.seconds = rows, 0.002
        yield client


def attention(ports):
    body = {"inputs": 100 * ["a" * 300], "signature_name": "heads"}
    return hostile_clients.post(ports, json.dumps(body).encode())


ANSWERS = {
    hostile_clients.large_rows_whose_clients_leave: b"",
    hostile_clients.large_rows_over_grpc_whose_clients_leave: b"",
    hostile_clients.large_rows: b"",
    hostile_clients.nested_lists: b"this one has 10000004. Send fewer",
    hostile_clients.many_strings_over_grpc: b"A request may have 65536 values and other fields",
    hostile_clients.packed_values_over_grpc: b"has 15000000 values, and shape [1].",
    attention: b"An answer must have at most 4194304 values",
}


def ports(client):
    return client.server.port, client.server.rest_port


@pytest.mark.parametrize("attack", ANSWERS)
def test_two_hostile_clients_leave_the_others_served(attack, counted):
    done, between = threading.Event(), []

    def attacks():
        while not done.is_set():
            assert ANSWERS[attack] in attack(ports(counted))

    with ThreadPoolExecutor(2) as threads:
        attacking = [threads.submit(attacks) for _ in range(2)]
        try:
            for _ in range(10):
                before = sum(counted.rows)
                assert counted.post({"inputs": ["a"]}) == (200, {"outputs": ["A"]})
                between.append(sum(counted.rows) - before)
        finally:
            done.set()
            if attack is hostile_clients.large_rows:
                counted.server.stop()
    for each in attacking:
        each.result()
    # The part that runs, one that waits longest, and one that begins before the answer is sent.
    assert max(counted.rows) <= 64
    assert max(between) <= 4 * 64


def test_the_rest_of_a_request_is_dropped_once_its_client_has_left(counted):
    counted.seconds = 0.01
    for attack in list(ANSWERS)[:2]:
        counted.rows.clear()
        attack(ports(counted))
        wait(lambda: counted.rows and not counted.server.server.predictor._workers.pending)
        assert sum(counted.rows) < 512  # Of 1024.


def test_a_long_request_is_answered_in_parts_as_if_it_were_whole(counted):
    texts = [f"{i} " * (1 + i % 7) for i in range(300)]
    found = counted.predict({"text": texts}, "score")
    assert found["translation"] == [text.upper().encode() for text in texts]
    assert found["length"] == [len(text) for text in texts]
    sizes, counted.rows[:] = list(counted.rows), []
    assert sum(sizes) == 300 and max(sizes) <= 64
    counted.predict({"text": ["a"] * 300}, "strict")  # Whose rows may depend on each other.
    assert counted.rows == [300]


def test_a_small_part_does_not_follow_a_large_one(counted, monkeypatch):
    """Ten rows of a letter take as long as a part may, and fifteen are the last part."""
    monkeypatch.setattr(Pace, "is_slow", lambda self, rows, longest: rows * longest > 10)
    for count, sizes in {10: [10], 15: [15], 16: [10, 6], 25: [10, 15], 26: [10, 10, 6]}.items():
        counted.rows.clear()
        counted.predict({"text": count * ["a"]}, "score")
        assert counted.rows == sizes


def test_a_row_that_needs_too_much_memory_is_refused(counted):
    counted.server.server.predictor._memory = 1 << 20
    counted.predict({"text": ["a" * 30]}, "heads")
    code, message = grpc_error(counted.predict, {"text": ["a", "a" * 300]}, "heads")
    assert code == "INVALID_ARGUMENT"
    assert "A text of 300 bytes may need 11 MiB for heads, and a request may take 1 MiB" in message
