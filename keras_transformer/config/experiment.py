"""A whole experiment, and the file that describes it."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.data import DataConfig
from keras_transformer.config.decoding import DecodingConfig
from keras_transformer.config.strict import STRICT
from keras_transformer.config.training import TrainingConfig
from keras_transformer.config.model import TransformerConfig
from keras_transformer.utils.files import whole_file


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ExperimentConfig:
    """A whole experiment: what `pipelines.train` reads from a file and the command line.

    Every mistake in every section is reported at once.

    >>> data = {"train_source": "train.tsv", "validation_source": "valid.tsv"}
    >>> config = ExperimentConfig.from_dict({"model": {"vocab_size": 8000}, "data": data})
    >>> config.training.warmup_steps
    4000
    """

    model: TransformerConfig
    """Sizes of the model."""
    data: DataConfig
    """Text and vocabulary."""
    training: TrainingConfig = TrainingConfig()
    """Recipe."""
    decoding: DecodingConfig = DecodingConfig()
    """Search, for the final score and the export."""

    @model_validator(mode="after")
    def _check(self):
        model, problems = self.model, []
        if model.position == "learned" and self.data.max_length > model.max_length:
            problems.append(
                "learned positions need model.max_length to be at least data.max_length, received "
                f"{model.max_length} and {self.data.max_length}; raise the one or lower the other"
            )
        dropouts = model.dropout, model.attention_dropout, model.ffn_dropout
        if self.training.r_drop and not any(dropouts):
            problems.append(
                "training.r_drop compares passes of different dropout, received "
                f"r_drop={self.training.r_drop:g} and no dropout in the model; set it to 0 or "
                "model.dropout above 0"
            )
        if self.training.r_drop and self.training.teachers:
            problems.append(
                "training.r_drop does not go with training.teachers, received "
                f"r_drop={self.training.r_drop:g} and teachers={self.training.teachers}; set it to "
                "0 or leave them out"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "ExperimentConfig":
        """Build from nested dictionaries, such as a parsed file."""
        return TypeAdapter(cls).validate_python(values)

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "ExperimentConfig":
        """Read a YAML file."""
        return cls.from_dict(read_yaml(path))

    def to_file(self, path: str | os.PathLike) -> None:
        """Write a YAML file that `from_file` reads back to an equal configuration."""
        text = yaml.safe_dump(dataclasses.asdict(self), sort_keys=False, allow_unicode=True)
        with whole_file(Path(path)) as temporary:
            temporary.write_text(text, encoding="utf-8")


def read_yaml(path: str | os.PathLike) -> dict[str, Any]:
    """Read a YAML mapping; an error names the file where it holds something else."""
    values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} must hold a YAML mapping such as 'model: {{vocab_size: 8000}}', "
            f"received {type(values).__name__}."
        )
    return values
