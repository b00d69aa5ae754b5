"""A complete experiment, the part of it that a translator needs, and their YAML files."""

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.data import DataConfig
from keras_transformer.config.decoding import DecodingConfig
from keras_transformer.config.model import TransformerConfig
from keras_transformer.config.strict import STRICT, configuration, describe_mistake
from keras_transformer.config.training import TrainingConfig
from keras_transformer.utils.errors import one_line
from keras_transformer.utils.files import whole_file

Config = TypeVar("Config")


@configuration()
class ExperimentConfig:
    """A complete experiment, as `pipelines.train` reads it from a file and the command line.

    `from_dict` reports all invalid values of all sections in one `pydantic.ValidationError`.

    >>> data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
    >>> config = ExperimentConfig.from_dict({"model": {"vocab_size": 8000}, "data": data})
    >>> config.training.warmup_steps
    4000
    """

    model: TransformerConfig
    """Size of the model."""
    data: DataConfig
    """Text and subwords."""
    training: TrainingConfig = TrainingConfig()
    """Training recipe."""
    decoding: DecodingConfig = DecodingConfig()
    """Decoding options for the final validation score and for the export."""

    @model_validator(mode="after")
    def _check(self):
        model = self.model
        if self.data.task == "parsing" and (given := self.decoding.not_for_trees()):
            raise ValueError(
                "parsing restricts the tokens itself, received decoding."
                f"{', decoding.'.join(given)}; leave it out"
            )
        if self.data.task == "parsing" and model.has_joint_vocabulary:
            raise ValueError(
                "the words and the trees of parsing have separate vocabularies, received no "
                "model.target_vocab_size; set it to at least 5 + 2 for each label, such as 128, "
                "and model.share_embeddings to target"
            )
        takes_over = self.training.init_from is not None or self.training.teachers
        if self.data.augment_symbols and not (self.data.user_symbols or takes_over):
            raise ValueError(
                "data.augment_symbols adds user symbols to the text, received no "
                "data.user_symbols; set them, for example to printf and html"
            )
        if model.position == "learned" and self.data.max_length > model.max_length:
            raise ValueError(
                "learned positions need model.max_length to be at least data.max_length, received "
                f"{model.max_length} and {self.data.max_length}; raise the first or lower the "
                "second"
            )
        return self

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExperimentConfig":
        """Build a configuration from nested dictionaries, such as a parsed file.

        Args:
            values: The sections by name, each a dictionary of its fields. Those that version 0.1
                wrote are accepted too.

        Returns:
            The configuration.

        Raises:
            ValueError: If a value is invalid, or a field is unknown.
        """
        return TypeAdapter(cls).validate_python(upgrade(values))

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "ExperimentConfig":
        """Read a configuration from a YAML file.

        Args:
            path: The file.

        Returns:
            The configuration.

        Raises:
            FileNotFoundError: If the file does not exist.
            ValueError: If the file is not YAML, a value is invalid, or a field is unknown.
        """
        mistakes: list[str] = []
        return _validated(cls, read_yaml(path, mistakes), path, mistakes)

    def to_file(self, path: str | os.PathLike) -> None:
        """Write a YAML file that `from_file` reads back to an equal configuration.

        Args:
            path: The file, which appears only when it is complete.
        """
        _write_yaml(self, path)


@dataclass(frozen=True, kw_only=True, config=STRICT)
class SubwordsConfig:
    """The part of `DataConfig` that says how to read the vocabularies."""

    subwords: Literal["bpe", "unigram", "wordpiece", "word"] = "bpe"
    """Kind of vocabulary: a SentencePiece model (bpe or unigram), word pieces or whole words."""


@dataclass(frozen=True, kw_only=True, config=STRICT)
class TranslatorConfig:
    """The sections of an `ExperimentConfig` that a translator needs.

    >>> TranslatorConfig.from_sections(
    ...     {"model": {"vocab_size": 8000}, "data": {"max_length": 64}, "training": {}}, "x.yaml"
    ... ).data
    SubwordsConfig(subwords='bpe')
    """

    model: TransformerConfig
    """Size of the model."""
    data: SubwordsConfig
    """Kind of subwords."""
    decoding: DecodingConfig = DecodingConfig()
    """Options of decoding."""
    origin: dict[str, Any] = dataclasses.field(default_factory=dict)
    """License, attribution and languages of an imported model."""

    @classmethod
    def from_sections(
        cls, sections: Mapping[str, Any], path: str | os.PathLike
    ) -> "TranslatorConfig":
        """Take from the sections of a configuration what a translator needs.

        Args:
            sections: Nested dictionaries by name, such as a whole `ExperimentConfig`.
            path: Where they come from, for the error message.

        Raises:
            ValueError: If a value is invalid or a field of the model or of decoding is unknown.
        """
        names = "model", "decoding", "origin"
        values = {name: sections[name] for name in names if name in sections}
        data = sections.get("data", {})
        if isinstance(data, Mapping):
            data = {name: value for name, value in data.items() if name == "subwords"}
        return _validated(cls, {**values, "data": data}, path)

    def to_file(self, path: str | os.PathLike) -> None:
        """Write a YAML file, which appears only when it is complete."""
        _write_yaml(self, path)


def read_yaml(path: str | os.PathLike, mistakes: list[str] | None = None) -> dict[str, Any]:
    """Read the sections of a configuration from a YAML file, of this version or of 0.1.

    Args:
        path: The file.
        mistakes: A list that gets the keys that occur twice, to report them with other mistakes;
            without one, such a key is an error.

    Returns:
        Nested dictionaries, whose values are not validated yet.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If the file is not YAML, or holds something other than a mapping.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
    ...     print("training:\\n  epochs: 5", file=file, flush=True)
    ...     read_yaml(file.name)
    {'training': {'epochs': 5}}
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values, repeated = yaml.safe_load(text), list(_repeated(yaml.compose(text)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(
            f"{path} is not YAML: {one_line(error)}. Correct or restore it."
        ) from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} must hold a YAML mapping such as 'model: {{vocab_size: 8000}}', "
            f"received {type(values).__name__}. Correct or restore it."
        )
    if mistakes is not None:
        mistakes += repeated
    elif repeated:
        raise ValueError(f"{path}: {'; '.join(repeated)}")
    try:
        return upgrade(values)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _repeated(node: yaml.Node | None, prefix: str = "", depth: int = 2) -> Iterator[str]:
    """Yield the keys of sections and fields that occur twice, of which YAML takes the last."""
    lines: dict[str, int] = {}
    if isinstance(node, yaml.MappingNode) and depth:
        for key, value in node.value:
            name, line = f"{prefix}{key.value}", key.start_mark.line + 1
            if name in lines:
                both = f"lines {lines[name]} and {line}" if lines[name] != line else f"line {line}"
                yield f"{name} is given twice, in {both}; remove one"
            lines[name] = line
            yield from _repeated(value, f"{name}.", depth - 1)


def upgrade(values: dict[str, Any]) -> dict[str, Any]:
    """Convert the sections of a configuration that version 0.1 wrote to this version's.

    R-Drop, the only option that was removed, was off by default and is left out then.

    Args:
        values: Nested dictionaries, such as a parsed file, of any version.

    Returns:
        The dictionaries in the form of this version; `values` is not modified.

    Raises:
        ValueError: If the configuration uses R-Drop.

    >>> upgrade({"training": {"epochs": 3, "r_drop": 0.0}})
    {'training': {'epochs': 3}}
    """
    training = values.get("training")
    if not isinstance(training, dict) or "r_drop" not in training:
        return values
    if training["r_drop"] != 0:
        raise ValueError(
            "training.r_drop must be 0 or left out, because R-Drop was removed in version 0.2; "
            f"received {training['r_drop']}. Remove it to use the trained model, or to train "
            "without R-Drop."
        )
    kept = {name: value for name, value in training.items() if name != "r_drop"}
    return {**values, "training": kept}


def _validated(
    kind: type[Config],
    values: dict[str, Any],
    path: str | os.PathLike,
    mistakes: Sequence[str] = (),
) -> Config:
    """Return a configuration, or raise a ValueError that names the file and every mistake."""
    try:
        config = TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        mistakes = [*map(describe_mistake, error.errors()), *mistakes]
    if mistakes:
        raise ValueError(
            f"{path} has invalid values: {'; '.join(mistakes)}. Correct or restore it."
        )
    return config


def _write_yaml(config: ExperimentConfig | TranslatorConfig, path: str | os.PathLike) -> None:
    sections = {name: value for name, value in dataclasses.asdict(config).items() if value}
    text = yaml.safe_dump(sections, sort_keys=False, allow_unicode=True)
    with whole_file(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")
