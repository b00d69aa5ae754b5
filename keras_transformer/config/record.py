"""The record of an export: how a SavedModel was made, in its assets.extra/export.json."""

import dataclasses
import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

from keras_transformer.utils import checksums
from keras_transformer.utils.files import write_json


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportRecord:
    """How a SavedModel was made.

    Only `compiled` and `signatures` say how to run the model; the rest is for its readers and for
    training runs that start from it. A record of version 0.1 lacks some fields.

    >>> import tempfile
    >>> record = ExportRecord(compiled=True, facts={"scores": {"bleu": 41.7}})
    >>> with tempfile.TemporaryDirectory() as version:
    ...     _ = record.write(version)
    ...     ExportRecord.read(version) == record
    True
    """

    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the exporter was told: command, data, training, scores, description and so on."""
    signatures: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    """What each signature does, and its inputs and outputs, each with its type and shape."""
    compiled: bool = False
    """Whether XLA compiles the search, which the server has to be started for."""
    device: str = "any"
    """The device that a compiled search is for, "cpu" or "gpu"; "any" for another search, and for
    exports of earlier versions, whose compiled search is for CPUs."""
    precision: str = "float32"
    """Type of weights and matrix products."""
    parameters: int = 0
    """Number of the model's parameters."""
    vocabulary: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Class of the tokenizers, number of subwords per side, whether the sides share them, and the
    codes of languages, if the model has many."""
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of `TransformerConfig`."""
    decoding: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Fields of `DecodingConfig`."""
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Versions of the packages that exported it."""

    FILE: ClassVar[str] = "assets.extra/export.json"

    @classmethod
    def read(cls, version: str | os.PathLike) -> "ExportRecord":
        """Read the record of a version directory, of this release or of 0.1.

        Args:
            version: The directory, such as saved_models/NAME/1.

        Raises:
            FileNotFoundError: If the directory has no record.
            ValueError: If the record is damaged.
        """
        path = Path(version) / cls.FILE
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist: the SavedModel was not written by pipelines.export. "
                "Export it again, or restore the file."
            )
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(values, dict):
                raise ValueError(f"expected an object, received {type(values).__name__}")
            own = {name: _checked(name, values.pop(name)) for name in _TYPES if name in values}
        except ValueError as error:  # Also of JSON, and of bytes that are not UTF-8.
            raise ValueError(
                f"{path} is damaged: {error}. Restore it, or export the model again."
            ) from error
        return cls(facts=values, **own)

    def write(self, version: str | os.PathLike) -> Path:
        """Write the record into a version directory, and return the path of the file.

        If the directory has checksums, the record's checksum is updated.
        """
        path = Path(version) / self.FILE
        path.parent.mkdir(exist_ok=True)
        has_checksums = (Path(version) / checksums.FILE).exists()
        with checksums.recorded_files(version, [self.FILE]) if has_checksums else nullcontext():
            write_json(path, self.to_dict())
        return path

    def to_dict(self) -> dict[str, Any]:
        """Return the content of export.json: the facts, then the other fields, at one level."""
        return {**self.facts, **{name: getattr(self, name) for name in _TYPES}}


# Of the fields but `facts`, in the order of the file.
_TYPES = {name: type(value) for name, value in vars(ExportRecord()).items() if name != "facts"}


def _checked(name: str, value: Any) -> Any:
    if not isinstance(value, _TYPES[name]):
        expected = _TYPES[name].__name__
        raise ValueError(f"{name} must be of type {expected}, received {value!r}")
    return value
