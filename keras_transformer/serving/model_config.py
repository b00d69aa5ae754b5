"""The models of a server, as in a file for TensorFlow Serving's `--model_config_file`."""

import collections
import dataclasses
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_FIELDS = {"name", "base_path", "model_platform", "model_version_policy", "version_labels"}


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
    """Return the `ModelServerConfig` of TensorFlow Serving that a file contains.

    Args:
        content: The message as text.
        path: The file, for errors.

    Raises:
        ValueError: If it is not such a message.
    """
    from google.protobuf import text_format

    from keras_transformer.serving.protos import model_server_config_pb2

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
        if field.name not in _FIELDS:
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
