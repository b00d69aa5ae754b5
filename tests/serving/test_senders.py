"""Pages of other sites, probes, and TLS."""

import socket
import ssl

import grpc
import pytest
import urllib3
from grpc_health.v1 import health_pb2, health_pb2_grpc

from keras_transformer.serving.application import Senders
from keras_transformer.serving.settings import PageSettings, WebSettings
from tests.helpers.model_server import ModelServer, write_certificate
from tests.helpers.page import Passing, ask
from tests.serving.conftest import connect

PREDICT = "/v1/models/shout:predict"
BODY = '{"inputs": ["a"]}'
ALLOWED = {
    "allowed_hosts": ["mt.example", "*.mt.example"],
    "allowed_origins": ["https://a.example"],
}
PROBES = ("/livez", "/readyz", "/monitoring/prometheus/metrics")


@pytest.fixture(scope="module")
def open_ports(base, port):
    """The REST ports of a server and of a page in front of one, both with allowed senders."""
    backend = f"http://localhost:{port}"
    with ModelServer(base, "shout", **ALLOWED) as server, Passing(backend, **ALLOWED) as page:
        yield server.rest_port, page.port


def send(port, method="POST", path=PREDICT, **headers):
    """Return the response to a request that a browser may send for a page without asking."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    body = BODY if method == "POST" else None
    return ask(port, method, path, body, {"Content-Type": "text/plain", **headers})


OWN = "localhost LOCALHOST.:1 127.0.0.1:1 [::1]:1 10.1.2.3 app.localhost"


@pytest.mark.parametrize("host", [*OWN.split(), "mt.example:1", "b.MT.example"])
def test_a_server_answers_its_own_names(host, open_ports):
    for port in open_ports:
        assert send(port, Host=host).status == 200
        assert send(port, Host=host, Origin=f"http://{host}").status == 200


def test_the_name_of_the_machine_is_its_own(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Box")
    monkeypatch.setattr("socket.getfqdn", lambda: "box.example.")
    senders = Senders(WebSettings(host="mt.internal"))
    names = ("box", "box.example:1", "mt.internal", "box.example.com", "xbox", "")
    assert [senders._is_own(name) for name in names] == [True, True, True, False, False, False]


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "1.2.3.4.evil", "[", "a@"]
)
@pytest.mark.parametrize("path", [PREDICT, "/translate", "/page/bleu", "/"])
def test_a_name_that_resolves_here_is_refused(host, path, passing, port):
    """As after DNS rebinding, when the page's origin is the same as its host."""
    for each in (port, passing.port):
        response = send(each, "GET" if path == "/" else "POST", path, Host=host)
        assert response.status == 403
        assert f"does not answer the host {host}." in response.body.decode()
        assert "--allowed-hosts " in response.body.decode()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", ""])
@pytest.mark.parametrize("path", [PREDICT, "/translate"])
def test_a_page_elsewhere_is_refused(origin, path, passing, plain):
    for port in (passing.port, plain.server.rest_port):
        response = send(port, path=path, Origin=origin)
        assert response.status == 403
        assert f"start it with --allowed-origins {origin}" in response.body.decode()
        assert "access-control-allow-origin" not in response.headers
        preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        assert ask(port, "OPTIONS", path, headers=preflight).status >= 400


def test_a_page_elsewhere_may_only_link_here(passing, port):
    for each in (port, passing.port):
        for mode, status in {"no-cors": 403, "navigate": 200}.items():
            headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode}
            assert ask(each, "GET", "/", headers=headers).status == status
            for path in (PREDICT, "/translate", "/page/bleu"):
                assert ask(each, "POST", path, BODY, headers).status == 403
        for site in ("same-origin", "none"):
            assert ask(each, "POST", PREDICT, BODY, {"Sec-Fetch-Site": site}).status == 200


def test_an_allowed_page_may_read_the_answers(open_ports):
    origin = "https://a.example"
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }
    for port in open_ports:
        response = send(port, Origin=origin)
        assert (response.status, response.headers["access-control-allow-origin"]) == (200, origin)
        preflight = ask(port, "OPTIONS", PREDICT, headers={"Origin": origin, **asked})
        assert preflight.status == 200
        assert preflight.headers["access-control-allow-origin"] == origin
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert preflight.headers["access-control-allow-headers"] == "content-type"
        other = ask(port, "OPTIONS", PREDICT, headers={"Origin": "https://b.example", **asked})
        assert other.status == 400
        assert "access-control-allow-origin" not in other.headers


@pytest.mark.parametrize("path", PROBES)
def test_probes_are_answered_under_any_name(path, passing, port):
    sender = {"Host": "probe.example", "Origin": "https://b.example"}
    for each in (port, passing.port):
        assert send(each, "GET", path, **sender).status == 200
        assert send(each, "POST", path, **sender).status == 403


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"allowed_hosts": ["https://a.example"]}, "without scheme and port, received 'https://a"),
        ({"allowed_hosts": ["a.example:8501"]}, "without scheme and port, received 'a.example:8"),
        ({"allowed_origins": ["a.example"]}, "must be a scheme and a host.*received 'a.example'"),
        ({"allowed_origins": ["https://a.example/"]}, "received 'https://a.example/'"),
        ({"tls_cert": __file__, "tls_key": __file__}, "must be a certificate and its key"),
        ({"tls_cert": "absent", "tls_key": "absent"}, "must be a certificate and its key"),
        ({"tls_cert": __file__}, "needs a certificate and its key. Give the files of both"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        PageSettings(backend="http://localhost:8501", name="x", **wrong)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The files of a certificate for localhost and of its key."""
    return write_certificate(tmp_path_factory.mktemp("tls"))


def test_rest_grpc_and_the_page_in_front_use_tls(pair, base, port):
    cert, key = pair
    tls = {"tls_cert": cert, "tls_key": key}
    with (
        ModelServer(base, "shout", **tls) as server,
        Passing(f"http://localhost:{port}", **tls) as page,
    ):
        trusting = ssl.create_default_context(cafile=cert)
        for each in (server.rest_port, page.port):
            with urllib3.PoolManager(ssl_context=trusting, retries=False) as pool:
                url = f"https://localhost:{each}{PREDICT}"
                assert pool.request("POST", url, body=BODY).json() == {"outputs": ["A"]}
            with pytest.raises(urllib3.exceptions.HTTPError):
                urllib3.request("POST", url.replace("https", "http"), body=BODY, retries=False)
        trusting = grpc.ssl_channel_credentials(cert.read_bytes())
        with grpc.secure_channel(f"localhost:{server.port}", trusting) as channel:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError):
            connect(server).predict({"text": ["a"]})


def test_a_client_without_a_handshake_is_left(pair, base, monkeypatch):
    monkeypatch.setattr("keras_transformer.serving.http._HANDSHAKE_SECONDS", 0.5)
    cert, key = pair
    with ModelServer(base, "shout", tls_cert=cert, tls_key=key) as server:
        for sent in (b"", b"\x16\x03\x01"):
            with socket.create_connection(("localhost", server.rest_port), timeout=10) as one:
                one.sendall(sent)
                assert one.recv(1) == b""  # Closed; otherwise it times out.
