"""The process: signals, ports that are taken, and the end."""

import contextlib
import resource
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3
from grpc_health.v1 import health_pb2, health_pb2_grpc

from benchmarks.machine import free_ports
from keras_transformer.serving.http import STOP_MARGIN, serve
from keras_transformer.serving.server import Server
from keras_transformer.serving.settings import Limits, ModelConfig, Settings
from tests.helpers.model_server import ModelServer
from tests.helpers.programs import start_serve
from tests.serving.conftest import grpc_error, serving, wait, wait_for_users

SLOW = {"inputs": ["400000"], "signature_name": "slow"}


@pytest.mark.slow
def test_running_requests_finish_and_new_ones_are_refused(base):
    limits = Limits(stop_seconds=20)
    with serving(base, limits=limits) as client, ThreadPoolExecutor(3) as threads:
        health = health_pb2_grpc.HealthStub(client.channel)
        watch = iter(health.Watch(health_pb2.HealthCheckRequest()))
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        rest = threads.submit(client.post, SLOW)
        grpc = threads.submit(client.predict, {"text": ["400000"]}, "slow")
        wait_for_users(client, 2)
        threads.submit(client.server.stop)
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watch = None
        with pytest.raises(ConnectionError):  # New connections, once the port is closed.
            for _ in range(100):
                client.get("/v1/models/shout")
                time.sleep(0.05)
    assert rest.result() == (200, {"outputs": [400000]})
    assert grpc.result() == {"rounds": [400000]}


def test_by_default_a_server_stops_well_before_kubernetes_kills_it():
    assert Limits().stop_seconds + STOP_MARGIN < 30 / 2


def test_requests_that_do_not_end_in_time_are_answered_503(base, tmp_path):
    go_on = tmp_path / "exists"
    limits = Limits(stop_seconds=0.5)
    with serving(base, workers=1, limits=limits) as client, ThreadPoolExecutor(2) as threads:
        body = {"inputs": [str(go_on)], "signature_name": "wait"}
        rest = threads.submit(client.post, body)  # One runs, and one waits.
        grpc = threads.submit(grpc_error, client.predict, {"text": [str(go_on)]}, "wait")
        wait_for_users(client, 2)
        client.server.stop()
        answers = rest.result(), grpc.result()
        go_on.touch()
    message = "The server is stopping."
    assert answers == ((503, {"error": message}), ("UNAVAILABLE", message))


@contextlib.contextmanager
def command(base, *options):
    """Start the command; yield its process and the URL of its model."""
    port, rest_port = free_ports(2)
    served = ["--engine", "python", "--model", base, "--port", port, "--rest-port", rest_port]
    process = start_serve(*served, *options)
    try:
        yield process, f"http://localhost:{rest_port}/v1/models/shout"
    finally:
        process.kill()
        process.stderr.close()


def read_until(process, start):
    """Return the lines of the log up to one that begins with `start`."""
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith(start):
            return lines
    raise AssertionError(lines)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_ends_with_status_0_after_a_signal(number, base):
    with command(base) as (process, url):
        lines = read_until(process, "ready: ")
        assert len(set(resource.prlimit(process.pid, resource.RLIMIT_NOFILE))) == 1
        answers = []

        def ask():
            response = urllib3.request("POST", f"{url}:predict", json=SLOW, timeout=60)
            answers.append((response.status, response.json(), time.monotonic()))

        asking = threading.Thread(target=ask)
        asking.start()
        time.sleep(0.7)
        signalled = time.monotonic()
        process.send_signal(number)
        asking.join()
        rest = process.stderr.read()
        assert process.wait() == 0
    ((status, answer, answered),) = answers
    assert (status, answer) == (200, {"outputs": [400000]})
    assert answered > signalled
    at = url.removeprefix("http://localhost").partition("/")[0]
    assert lines[0].startswith(f"Serving {base} as shout, version 3: REST at 127.0.0.1{at}, gRPC")
    assert '"status": "OK"' in rest
    assert "Traceback" not in rest


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("start", ["Serving ", "loading "])
def test_a_signal_ends_the_command_while_it_loads(start, number, base):
    with command(base) as (process, _):
        read_until(process, start)
        process.send_signal(number)
        assert process.wait(timeout=5) == 128 + number


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_command_at_once(number, base):
    with command(base) as (process, url):
        read_until(process, "ready: ")
        body = SLOW | {"inputs": ["4000000"]}  # Half a minute.
        asking = threading.Thread(target=ask_in_vain, args=[url, body])
        asking.start()
        time.sleep(0.7)
        process.send_signal(signal.SIGTERM)
        read_until(process, "stopping: ")
        process.send_signal(number)
        assert process.wait(timeout=5) == 128 + number
        asking.join()


@pytest.mark.slow
def test_the_command_ends_although_a_run_goes_on(base):
    with command(base, "--timeout", "0.3") as (process, url):
        read_until(process, "ready: ")
        ask_in_vain(url, SLOW | {"inputs": ["4000000"]})  # It gets an error, and the run goes on.
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0


def ask_in_vain(url, body, **options):
    with contextlib.suppress(urllib3.exceptions.HTTPError):
        urllib3.request("POST", f"{url}:predict", json=body, retries=False, **options)


@pytest.mark.parametrize("task", ["http._HttpServer.serve", "versions.Versions.watch"])
def test_the_server_ends_with_the_error_of_its_task(task, base, monkeypatch):
    async def fail(*_):
        raise OSError("no more files")

    monkeypatch.setattr(f"keras_transformer.serving.{task}", fail)
    with pytest.raises(OSError, match="no more files"):
        settings = Settings(models=[ModelConfig(name="shout", base=base)], port=0, rest_port=0)
        serve(lambda: Server(settings))


@pytest.mark.parametrize("taken", ["port", "rest_port"])
def test_a_port_that_is_taken_is_an_error(taken, base):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port, server = other.getsockname()[1], ModelServer(base, "shout")
        object.__setattr__(server.settings, taken, port)
        with pytest.raises(OSError, match=f"port {port}: .*Give another"), server:
            pass


def test_only_this_machine_can_connect(base):
    with ModelServer(base, "shout") as server:
        for port in (server.port, server.rest_port):
            with pytest.raises(OSError):  # An address of this machine, but not loopback's first.
                socket.create_connection(("127.0.0.2", port), timeout=5)


def test_a_request_that_takes_too_long_fails(base):
    with serving(base, timeout=0.2, workers=1) as client:
        status, answer = client.post({"inputs": ["100000"], "signature_name": "slow"})
        assert (status, answer["error"]) == (500, "Timed out waiting for notification")
        wait(lambda: client.post({"inputs": ["a"]})[0] == 200)  # The thread is free again.
