"""What a saved translator is, apart from its weights and vocabularies."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from keras_transformer.config.decoding import DecodingConfig
from keras_transformer.config.model import TransformerConfig
from keras_transformer.config.strict import STRICT
from keras_transformer.utils.files import whole_file


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
        values = {name: sections[name] for name in ("model", "decoding") if name in sections}
        data = sections.get("data", {})
        if isinstance(data, Mapping):
            data = {name: value for name, value in data.items() if name == "subwords"}
        try:
            return TypeAdapter(cls).validate_python({**values, "data": data})
        except ValidationError as error:
            mistakes = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ValueError(
                f"{path} has invalid values: {'; '.join(mistakes)}. Correct or restore it."
            ) from error

    def to_file(self, path: str | os.PathLike) -> None:
        """Write a YAML file, which appears only when it is complete."""
        text = yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True)
        with whole_file(Path(path)) as temporary:
            temporary.write_text(text, encoding="utf-8")
