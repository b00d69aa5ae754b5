"""The text of an experiment."""

from typing import Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.strict import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
class DataConfig:
    """Where the parallel text is, and how it is cut into subwords.

    The text is in files, or in a set of TensorFlow Datasets (TFDS).

    >>> DataConfig(train_source="train.tsv", validation_source="valid.tsv").tfds is None
    True
    >>> DataConfig(
    ...     tfds="wmt14_translate/de-en", source_language="en", target_language="de"
    ... ).validation_split
    'validation'
    """

    train_source: str | None = None
    """Training text, one sentence a line, plain or gzip; TSV where train_target is left out."""
    train_target: str | None = None
    """Its translation, line by line."""
    validation_source: str | None = None
    """Text to choose a checkpoint by, as train_source."""
    validation_target: str | None = None
    """Its translation, line by line."""
    tfds: str | None = None
    """In place of files, a translation set of TFDS: wmt14_translate/de-en, or our own multi30k."""
    source_language: str | None = None
    """The language of the TFDS set to translate from, such as en."""
    target_language: str | None = None
    """The language of the TFDS set to translate into."""
    train_split: str = "train"
    """The split of the TFDS set to train on."""
    validation_split: str = "validation"
    """The split of the TFDS set to choose a checkpoint by."""
    max_length: int = Field(default=128, gt=1)
    """Training pairs with a side of more subwords, eos included, are left out and counted."""
    subwords: Literal["bpe", "unigram", "wordpiece"] = "bpe"
    """A SentencePiece model, bpe or unigram, or word pieces; its size is the model's vocab_size."""
    character_coverage: float = Field(default=1.0, ge=0.98, le=1)
    """Share of the training text's characters that get a subword of their own."""
    subword_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Rate of BPE-dropout: in training each epoch cuts the text anew, with so many merges left
    out (Provilkov et al., 2020)."""

    @model_validator(mode="after")
    def _check(self):
        files = self._given(
            train_source=None, train_target=None, validation_source=None, validation_target=None
        )
        tfds = self._given(
            tfds=None,
            source_language=None,
            target_language=None,
            train_split="train",
            validation_split="validation",
        )
        if tfds:
            kind, needed = "a TFDS set", ("tfds", "source_language", "target_language")
        else:
            kind, needed = "text in files", ("train_source", "validation_source")
        missing = [name for name in needed if getattr(self, name) is None]
        problems = []
        if files and tfds:
            problems.append(
                "text is either in files or in a TFDS set, received "
                f"{', '.join(files)} and {', '.join(tfds)}; leave out those of one kind"
            )
        elif missing:
            problems.append(
                f"{kind} needs {', '.join(needed)}, received no {' and no '.join(missing)}; "
                + ("give what is missing" if files or tfds else "give them, or tfds for a TFDS set")
            )
        if self.subword_dropout and self.subwords != "bpe":
            problems.append(
                "subword_dropout leaves out merges, which only subwords='bpe' has, received "
                f"subword_dropout={self.subword_dropout} and subwords={self.subwords!r}; set it to "
                "0 or choose 'bpe'"
            )
        if self.source_language is not None and self.source_language == self.target_language:
            problems.append(
                "source_language and target_language must be two languages, received "
                f"{self.source_language} for both"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _given(self, **defaults: str | None) -> list[str]:
        """Return the names of the fields that have another value than their default."""
        return [name for name, default in defaults.items() if getattr(self, name) != default]
