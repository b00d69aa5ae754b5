"""Settings of the server, and the model's files that hold those of batching."""

import dataclasses
import re
import urllib.parse
from pathlib import Path

from keras_transformer.utils.cores import available_cores

# A version's own file precedes the one that all versions share, as in TensorFlow Serving.
_FILES = ("batching_params.pbtxt", "../serving/batching.config")
_ENTRY = re.compile(r"(\w+)\s*:?\s*\{\s*value\s*:\s*(-?\d+)\s*;?\s*\}\s*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Batching:
    """How requests of several clients become one batch; the fields are TensorFlow Serving's.

    >>> Batching(max_batch_size=8, max_enqueued_batches=2).most_waiting
    16
    """

    max_batch_size: int = 64
    """Rows of a batch; a request of more is refused."""
    batch_timeout_micros: int = 5000
    """Microseconds that the first request of a batch waits for others."""
    max_enqueued_batches: int = 100
    """Batches that may wait; further requests are refused."""
    num_batch_threads: int = dataclasses.field(default_factory=available_cores)
    """Batches that run at a time."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.name != "batch_timeout_micros" and getattr(self, field.name) < 1:
                raise ValueError(
                    f"{field.name} must be positive, received {getattr(self, field.name)}. Correct "
                    "it in batching_params.pbtxt or serving/batching.config."
                )

    @property
    def most_waiting(self) -> int:
        """The number of rows that may wait."""
        return self.max_batch_size * self.max_enqueued_batches

    @classmethod
    def read(cls, version: Path) -> "Batching":
        """Read the files that came with a model.

        Args:
            version: The version directory. Values that its files do not have are the defaults.

        Raises:
            ValueError: If a file has anything but these fields, or a value is not positive.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        values: dict[str, int] = {}
        for file in reversed(_FILES):
            path = version / file
            if not path.exists():
                continue
            text = re.sub("#.*", "", path.read_text(encoding="utf-8")).strip()
            entries = {name: int(value) for name, value in _ENTRY.findall(text)}
            others = [_ENTRY.sub("", text), *(name for name in entries if name not in known)]
            if strange := [each for each in others if each]:
                raise ValueError(
                    f"{path} must hold {', '.join(known)} only, each as NAME {{ value: NUMBER }}; "
                    f"received {' '.join(strange[0].split())[:80]!r}. Remove it, or serve with "
                    "--engine tensorflow."
                )
            values |= entries
        return cls(**values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client may ask for."""

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
    """Open REST connections."""
    body_seconds: float = 30
    """Seconds in which the body of a REST request must arrive."""
    idle_seconds: float = 75
    """Seconds that a connection may wait for a request, or for the rest of its head."""
    stop_seconds: float = 30
    """Seconds that running requests have to finish when the server stops."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What is served, and where."""

    base: Path
    """Directory of the numbered versions."""
    name: str
    """Model name in requests."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8500
    """Port for gRPC; 0 for a free one."""
    rest_port: int = 8501
    """Port for REST; 0 for a free one."""
    workers: int = dataclasses.field(default_factory=available_cores)
    """Requests that run at a time; the others wait."""
    timeout: float = 60
    """Seconds after which a REST request fails."""
    batching: bool = False
    """Whether requests of several clients are joined."""
    page: bool = True
    """Whether / answers with a page for people."""
    poll_seconds: float = 1
    """Polling interval for new versions, in seconds."""
    retry_seconds: float = 60
    """Seconds until a version that did not load is tried again."""
    limits: Limits = dataclasses.field(default_factory=Limits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PageSettings:
    """The page in front of another model server.

    Raises:
        ValueError: If `backend` is not an address.
    """

    backend: str
    """Address of its REST API, such as http://localhost:8501."""
    name: str
    """Name of the model there."""
    base: Path | None = None
    """Directory of the model's versions, for the card of the highest."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    rest_port: int = 8080
    """Port for the page; 0 for a free one."""
    timeout: float = 60
    """Seconds that the other server has for an answer."""
    limits: Limits = dataclasses.field(default_factory=Limits)

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
