"""Settings of the server and of its models, and of the page in front of another server."""

import collections
import dataclasses
import os
import re
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

_MODEL_FIELDS = {"name", "base_path", "model_platform", "model_version_policy", "version_labels"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model, and which of its versions are served.

    >>> found = {number: Path(f"en_de/{number}") for number in (1, 9, 10)}
    >>> list(ModelConfig(name="en_de", base=Path("en_de"), latest=2).choose(found))
    [10, 9]
    """

    name: str
    """Name in requests."""
    base: Path
    """Directory of the numbered versions."""
    latest: int = 1
    """Number of versions to serve, the highest ones; 0 for all."""
    specific: frozenset[int] = frozenset()
    """The versions to serve instead, if not empty."""
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Names of versions in requests."""

    def choose(self, found: Mapping[int, Path]) -> dict[int, Path]:
        """Return the versions to serve, the highest first."""
        numbers = self.specific & found.keys() if self.specific else found.keys()
        most = None if self.specific else self.latest or None
        return {number: found[number] for number in sorted(numbers, reverse=True)[:most]}


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


def parse_model_config(content: bytes, path: Path) -> list[ModelConfig]:
    """Return the models that a file for `--model-config-file` lists.

    Args:
        content: A `ModelServerConfig` of TensorFlow Serving, as text.
        path: The file, for errors.

    Raises:
        ValueError: If it has mistakes, or asks for what this server does not do.

    >>> config = b'name: "a" base_path: "/a" model_platform: "tensorflow"'
    >>> text = b"model_config_list { config { %s } }" % config
    >>> parse_model_config(text, Path("models.config"))[0].base
    PosixPath('/a')
    """
    config = parse_text(content, path)
    models = config.model_config_list.config
    mistakes = [] if models else ["model_config_list must list at least one model"]
    if config.WhichOneof("config") == "custom_model_config":
        mistakes = ["custom_model_config is not supported; use model_config_list"]
    counts = collections.Counter(model.name for model in models)
    mistakes += [f"{name} is listed {count} times" for name, count in counts.items() if count > 1]
    mistakes += [mistake for model in models for mistake in _mistakes(model)]
    if mistakes:
        raise ValueError(f"{path} has mistakes: {'; '.join(mistakes)}. Correct it.")
    return [_model(model) for model in models]


def parse_text(content: bytes, path: Path) -> Any:
    """Return the `ModelServerConfig` of TensorFlow Serving that a file contains as text.

    Raises:
        ValueError: If it is not such a message.
    """
    from google.protobuf import text_format

    from keras_transformer.serving.tensors import model_server_config_pb2

    try:
        return text_format.Parse(content, model_server_config_pb2.ModelServerConfig())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} must be a ModelServerConfig of TensorFlow Serving in text format: "
            f"{str(error).removesuffix('.')}. Correct it."
        ) from error


def _mistakes(model: Any) -> Iterator[str]:
    """Yield what a message `ModelConfig` has that this server cannot do."""
    if not model.name or set(model.name) & set(":/"):
        yield f"name must be a text without colon and slash, received {model.name!r}"
    if not os.path.isabs(model.base_path):
        yield f"base_path of {model.name} must be an absolute path, received {model.base_path!r}"
    if model.model_platform != "tensorflow":
        received = model.model_platform
        yield f"model_platform of {model.name} must be 'tensorflow', received {received!r}"
    policy = model.model_version_policy
    if policy.HasField("specific") and not policy.specific.versions:
        yield f"model_version_policy of {model.name} names no specific version"
    for label in model.version_labels:
        if not re.fullmatch(r"\w+", label, re.ASCII):
            yield f"labels of {model.name} must have letters, digits and _ only, received {label!r}"
    for field, _ in model.ListFields():
        if field.name not in _MODEL_FIELDS:
            yield f"{field.name} of {model.name} is not supported"


def _model(model: Any) -> ModelConfig:
    policy = model.model_version_policy
    return ModelConfig(
        name=model.name,
        base=Path(model.base_path),
        latest=0 if policy.HasField("all") else max(policy.latest.num_versions, 1),
        specific=frozenset(policy.specific.versions),
        labels=dict(model.version_labels),
    )


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
    """Return the host and the port of the address of a model server's REST API.

    Raises:
        ValueError: If it is not one of HTTP or HTTPS.

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
