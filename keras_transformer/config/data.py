"""Training and validation text."""

import dataclasses
from typing import Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.sources import text_source_problems
from keras_transformer.config.strict import STRICT, describe_fields

_FILES = ("train_source", "train_target", "validation_source", "validation_target")
_DATASET = ("tfds", "source_language", "target_language", "train_split", "validation_split")


@describe_fields
@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataConfig:
    """The parallel text, in files or in TensorFlow Datasets (TFDS), and its subwords.

    >>> DataConfig(train_source="train.tsv", validation_source="valid.tsv").tfds is None
    True
    >>> DataConfig(
    ...     tfds="wmt14_translate/de-en", source_language="en", target_language="de"
    ... ).validation_split
    'validation'
    """

    train_source: str | None = None
    """Training text in the source language, one sentence per line, plain or gzip; or, without
    train_target, a TSV file of both languages."""
    train_target: str | None = None
    """The same sentences in the target language, line by line."""
    validation_source: str | None = None
    """Validation text, which selects the checkpoint, in the form of train_source."""
    validation_target: str | None = None
    """The same sentences in the target language, line by line."""
    tfds: str | None = None
    """Name of a TFDS translation dataset to use instead of files, such as wmt14_translate/de-en; or
    multi30k, which comes with this package."""
    source_language: str | None = None
    """Language of the TFDS dataset to translate from, such as en."""
    target_language: str | None = None
    """Language of the TFDS dataset to translate into."""
    train_split: str = "train"
    """Split of the TFDS dataset to train on."""
    validation_split: str = "validation"
    """Split of the TFDS dataset to validate on."""
    max_length: int = Field(default=128, gt=1)
    """Longest sentence in tokens, including eos, on either side; longer pairs are dropped and
    counted in the log."""
    static_shapes: int | None = Field(default=None, gt=0)
    """Largest number of shapes of batches, for XLA, which compiles a step once for each, such as 6.
    With it, TensorFlow compiles the steps on a single GPU. By default batches are padded to their
    longest sentences, which is faster without XLA."""
    subwords: Literal["bpe", "unigram", "wordpiece"] = "bpe"
    """Kind of vocabulary: a SentencePiece model (bpe or unigram) or word pieces."""
    character_coverage: float = Field(default=1.0, ge=0.98, le=1)
    """Share of the characters in the training text that get a token of their own."""
    subword_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Rate of BPE-dropout: each epoch segments the training text again and skips this share of the
    merges (Provilkov et al., 2020)."""

    @model_validator(mode="after")
    def _check(self):
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        problems = text_source_problems(
            [name for name in _FILES + _DATASET if getattr(self, name) != defaults[name]],
            files=_FILES,
            dataset=_DATASET,
            required_files=("train_source", "validation_source"),
            required_dataset=("tfds", "source_language", "target_language"),
            languages=(self.source_language, self.target_language),
        )
        if self.subword_dropout and self.subwords != "bpe":
            problems.append(
                "subword_dropout leaves out merges, which only subwords='bpe' has, received "
                f"subword_dropout={self.subword_dropout} and subwords={self.subwords!r}; set it to "
                "0 or choose 'bpe'"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self
