"""Settings of the server, and of the page in front of another one."""

import dataclasses
import ssl
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.serving.model_config import ModelConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on what a client may request."""

    request_bytes: int = 16 << 20
    """Size of a request, after decompression."""
    answer_bytes: int = 128 << 20
    """Size of an answer that is passed on from another server."""
    answer_values: int = 1 << 22
    """Numbers and strings of a REST answer; memory may allow fewer, and is gRPC's only limit."""
    rows: int = 1024
    """Rows of a request."""
    waiting: int = 1000
    """Requests that run or wait to run, half of them of one address; further ones are refused.
    Batches have their own limit."""
    connections: int = 512
    """Open REST connections. An address may have half of them."""
    body_seconds: float = 30
    """Seconds in which the body of a REST request must arrive."""
    idle_seconds: float = 75
    """Seconds that a connection may wait for a request, or for the rest of its head."""
    stop_seconds: float = 10
    """Seconds that running requests have to finish when the server stops."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class WebSettings:
    """Where a server listens, which clients it answers, and the limits of its clients.

    Raises:
        ValueError: If an origin, or a file for TLS, is not one.
    """

    host: str = "127.0.0.1"
    """Address to listen on."""
    rest_port: int = 8501
    """Port for HTTP; 0 for a free one."""
    timeout: float = 60
    """Seconds after which a REST request fails."""
    allowed_hosts: Sequence[str] = ()
    """Names of this server besides those of the machine, as patterns such as *.example.com."""
    allowed_origins: Sequence[str] = ()
    """Origins of other pages that may use this server, such as https://example.com; * for all."""
    tls_cert: Path | None = None
    """File of the certificate chain in PEM format, for TLS."""
    tls_key: Path | None = None
    """File of its private key in PEM format."""
    limits: Limits = dataclasses.field(default_factory=Limits)

    def __post_init__(self) -> None:
        for host in self.allowed_hosts:
            if not host or set(host) & set(":/"):
                raise ValueError(
                    "An allowed host must be a name or a pattern such as *.example.com, without "
                    f"scheme and port, received {host!r}."
                )
        for origin in self.allowed_origins:
            parts = urllib.parse.urlsplit(origin)
            if origin not in ("*", "null", f"{parts.scheme}://{parts.netloc}"):
                raise ValueError(
                    "An allowed origin must be a scheme and a host, with a port if it is not the "
                    f"usual one, such as https://example.com, received {origin!r}."
                )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("TLS needs a certificate and its key. Give the files of both.")
        if self.tls_cert and self.tls_key:
            try:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self.tls_cert, self.tls_key, password="")
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{self.tls_cert} and {self.tls_key} must be a certificate and its key without "
                    f"a password, in PEM format: {error}. Correct them."
                ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(WebSettings):
    """What a server of a model serves, and where."""

    models: Sequence[ModelConfig]
    """The models."""
    model_config_file: Path | None = None
    """The file that lists them; it is followed."""
    port: int = 8500
    """Port for gRPC; 0 for a free one."""
    workers: int | None = None
    """Requests that run at a time, by default one per core, or two on a GPU; the others wait."""
    threads: int = 0
    """Threads within an operation; 0 for one per core."""
    batching: bool = False
    """Whether requests of several clients are joined."""
    page: bool = True
    """Whether / answers with a page for people."""
    api_keys: Sequence[str] = ()
    """Keys of which requests of LibreTranslate's API must have one; () for no keys."""
    poll_seconds: float = 1
    """Polling interval for new versions, in seconds."""
    retry_seconds: float = 60
    """Seconds until a version that did not load is tried again."""
    gpu_memory_fraction: float | None = None
    """Share of a GPU's memory that all models together may take; by default all that is free."""


def read_keys(path: Path) -> list[str]:
    """Return the API keys of a file, which has one a line; lines that begin with # are comments.

    Raises:
        OSError: If it cannot be read.
        ValueError: If it has no key.
    """
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    keys = [key for line in lines if (key := line.strip()) and not key.startswith("#")]
    if not keys:
        raise ValueError(f"{path} must have an API key on each line, and it has none. Add one.")
    return keys


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageSettings(WebSettings):
    """The page in front of another model server.

    Raises:
        ValueError: If `backend` is not an address.
    """

    name: str
    """Model name in requests."""
    backend: str
    """Address of its REST API, such as http://localhost:8501."""
    base: Path | None = None
    """Directory of the model's versions, for the card of the highest."""
    rest_port: int = 8080
    """Port for the page; 0 for a free one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        split_address(self.backend)
        object.__setattr__(self, "backend", self.backend.rstrip("/"))


def split_address(address: str) -> tuple[str, int]:
    """Return the host and the port of a model server's REST API.

    Args:
        address: Its address.

    Raises:
        ValueError: If it is not an address of HTTP or HTTPS.

    >>> split_address("https://host.example/models")
    ('host.example', 443)
    """
    message = (
        f"The address of a model server must be like http://localhost:8501, received {address!r}. "
        "Give its scheme, host and REST port."
    )
    usual = {"http": 80, "https": 443}
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(message) from error
    if parts.scheme not in usual or not host or port == 0:
        raise ValueError(message)
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(message)
    return host, port or usual[parts.scheme]
