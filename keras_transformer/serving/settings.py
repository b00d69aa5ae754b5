"""Settings of the server, and of the page in front of another one."""

import dataclasses
import urllib.parse
from pathlib import Path

from keras_transformer.utils.cores import available_cores


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on what a client may request."""

    request_bytes: int = 16 << 20
    """Size of a request, after decompression."""
    answer_bytes: int = 128 << 20
    """Size of an answer that is passed on from another server."""
    answer_values: int = 1 << 22
    """Numbers and strings of a REST answer, which take some 100 bytes each until it is sent."""
    rows: int = 1024
    """Rows of a request."""
    waiting: int = 1000
    """Requests that run or wait to run; further ones are refused. Batches have their own limit."""
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
    """Where a server listens, and the limits of its clients."""

    name: str
    """Model name in requests."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    rest_port: int = 8501
    """Port for HTTP; 0 for a free one."""
    timeout: float = 60
    """Seconds after which a REST request fails."""
    limits: Limits = dataclasses.field(default_factory=Limits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings(WebSettings):
    """What a server of a model serves, and where."""

    base: Path
    """Directory of the numbered versions."""
    port: int = 8500
    """Port for gRPC; 0 for a free one."""
    workers: int = dataclasses.field(default_factory=available_cores)
    """Requests that run at a time; the others wait."""
    batching: bool = False
    """Whether requests of several clients are joined."""
    page: bool = True
    """Whether / answers with a page for people."""
    poll_seconds: float = 1
    """Polling interval for new versions, in seconds."""
    retry_seconds: float = 60
    """Seconds until a version that did not load is tried again."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageSettings(WebSettings):
    """The page in front of another model server.

    Raises:
        ValueError: If `backend` is not an address.
    """

    backend: str
    """Address of its REST API, such as http://localhost:8501."""
    base: Path | None = None
    """Directory of the model's versions, for the card of the highest."""
    rest_port: int = 8080
    """Port for the page; 0 for a free one."""

    def __post_init__(self) -> None:
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
