"""Frozen dataclasses that describe a model, its data, its training and its decoding."""

import dataclasses
import os
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import ConfigDict, Field, TypeAdapter, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.files import whole_file

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3

_FORBID_EXTRA = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@dataclass(frozen=True, config=_FORBID_EXTRA)
class TransformerConfig:
    """The sizes of a Transformer; the defaults are the paper's base model (Table 3, first row).

    Wrong values are reported together in one `pydantic.ValidationError` (a `ValueError`).

    >>> TransformerConfig(vocab_size=37000).d_model
    512
    >>> dataclasses.replace(TransformerConfig(vocab_size=37000), num_heads=16).num_heads
    16
    """

    vocab_size: int = Field(gt=4)
    """Subwords of the source vocabulary, and of the target's where both share one."""
    target_vocab_size: int | None = Field(default=None, gt=4)
    """Subwords of a separate target vocabulary; without it both languages share one."""
    num_layers: int = Field(default=6, gt=0)
    """Layers of the encoder, and of the decoder (N)."""
    d_model: int = Field(default=512, gt=0)
    """Width of embeddings and of every layer's output."""
    d_ff: int = Field(default=2048, gt=0)
    """Width inside the feed-forward networks."""
    num_heads: int = Field(default=8, gt=0)
    """Attention heads (h)."""
    key_dim: int | None = Field(default=None, gt=0)
    """Size of a head's queries and keys (d_k); d_model / num_heads without it."""
    value_dim: int | None = Field(default=None, gt=0)
    """Size of a head's values (d_v); key_dim without it."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Rate on every sub-layer's output and on the embeddings (Section 5.4)."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Rate on the attention weights."""
    ffn_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Rate on the activations inside the feed-forward networks."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalisation after each residual sum, as in the paper, or before each sub-layer."""
    position: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position encoding (Section 3.5; learned: Table 3, row E)."""
    max_length: int = Field(default=1024, gt=0)
    """Longest sequence, in subwords, that learned positions have room for."""
    share_embeddings: Literal["all", "target", "none"] = "all"
    """One matrix for source, target and softmax (Section 3.4), for the last two, or for none."""

    @model_validator(mode="after")
    def _check(self):
        problems = []
        if self.key_dim is None and self.d_model % self.num_heads:
            problems.append(
                "d_model must be divisible by num_heads unless key_dim is given, received "
                f"d_model={self.d_model} and num_heads={self.num_heads}"
            )
        if self.position == "sinusoidal" and self.d_model % 2:
            problems.append(
                f"sinusoidal positions need an even d_model, received {self.d_model}; "
                "choose an even one or position='learned'"
            )
        if self.share_embeddings == "all" and self.target_vocab_size is not None:
            problems.append(
                "share_embeddings='all' needs one vocabulary for both languages, received "
                f"target_vocab_size={self.target_vocab_size}; leave it out or choose "
                "share_embeddings='target' or 'none'"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


@dataclass(frozen=True, kw_only=True, config=_FORBID_EXTRA)
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


@dataclass(frozen=True, kw_only=True, config=_FORBID_EXTRA)
class TrainingConfig:
    """The training recipe; the defaults are the paper's (Section 5)."""

    epochs: int = Field(default=20, gt=0)
    """Epochs, after each of which the model is validated and saved."""
    steps_per_epoch: int | None = Field(default=None, gt=0)
    """Batches of an epoch; those of one pass over the training text without it."""
    batch_tokens: int = Field(default=25_000, gt=0)
    """Padded tokens of a batch on its longer side, over all replicas (Section 5.1)."""
    warmup_steps: int = Field(default=4000, gt=0)
    """Steps of rising learning rate (Section 5.3)."""
    learning_rate_scale: float = Field(default=1.0, gt=0)
    """Factor on the paper's learning rate."""
    beta_1: float = Field(default=0.9, ge=0, lt=1)
    """Adam's first decay rate."""
    beta_2: float = Field(default=0.98, ge=0, lt=1)
    """Adam's second decay rate."""
    epsilon: float = Field(default=1e-9, gt=0)
    """Adam's epsilon."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Probability mass spread over the vocabulary (Section 5.4)."""
    average_checkpoints: int = Field(default=5, gt=0)
    """Number of last epochs whose weights are averaged (Section 6.1)."""
    patience: int | None = Field(default=None, gt=0)
    """Epochs without a better validation BLEU after which training stops; without it, never."""
    replicas: int | None = Field(default=None, gt=0)
    """GPUs to train on, or logical CPU devices where there is none; all GPUs without it."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Keras dtype policy."""
    seed: int = Field(default=1, ge=0, lt=2**32)
    """Seed of initial weights, dropout and the order of the batches."""
    init_from: str | None = None
    """Directory of a finished training, or of an exported model (its last version, if it names
    none), to start from: its weights, sizes and vocabularies, with a new optimizer and schedule;
    without it, from random weights and a vocabulary of the text."""


@dataclass(frozen=True, kw_only=True, config=_FORBID_EXTRA)
class DecodingConfig:
    """The search; the defaults are the paper's (Section 6.1)."""

    beam_size: int = Field(default=4, gt=0)
    """Hypotheses kept; 1 is greedy search."""
    length_penalty: float = Field(default=0.6, ge=0)
    """Exponent alpha of Wu et al. (2016)."""
    extra_length: int = Field(default=50, ge=0)
    """A translation has at most as many subwords as its source, both with eos, and this many
    more."""
    max_source_length: int = Field(default=512, gt=1)
    """Subwords of a source sentence, eos included, after which it is cut off."""
    num_hypotheses: int | None = Field(default=None, gt=0)
    """How many translations of a sentence n_best gives; beam_size without it, and a search finds
    no more than that."""
    min_length: int = Field(default=0, ge=0)
    """A translation has at least this many subwords, unless its limit is lower."""
    max_length: int | None = Field(default=None, gt=0)
    """A translation has at most this many subwords, eos included, however long its source is."""
    no_repeat_ngram_size: int = Field(default=0, ge=0)
    """No sequence of this many subwords comes twice in a translation; 0 allows any repetition."""
    repetition_penalty: float = Field(default=1.0, ge=1, allow_inf_nan=False)
    """How much less probable the subwords become that a translation already has; 1 is no less."""
    prefix: str = ""
    """Text that every translation starts with."""
    temperature: float | None = Field(default=None, ge=0.001, le=100)
    """Samples translations instead of searching for the best: at 1 with the probabilities that the
    model gives them, below 1 with sharper ones; without it, searches."""
    top_k: int = Field(default=0, ge=0)
    """When sampling, only this many most probable subwords may come next; 0 allows all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """When sampling, only the fewest most probable subwords may come next that together have this
    probability; 1 allows all. It is slow in a large vocabulary, unless top_k goes before it."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """When sampling, the same seed and sentence have the same translation."""

    @model_validator(mode="after")
    def _check(self):
        problems = []
        if self.temperature is None and (self.num_hypotheses or 1) > self.beam_size:
            problems.append(
                "num_hypotheses must be at most beam_size, received "
                f"{self.num_hypotheses} and {self.beam_size}; lower the one or raise the other"
            )
        if self.max_length is not None and self.min_length > self.max_length:
            problems.append(
                f"min_length must be at most max_length, received {self.min_length} and "
                f"{self.max_length}; lower the one or raise the other"
            )
        sampling = {"top_k": 0, "top_p": 1, "seed": 0}
        given = [name for name, default in sampling.items() if getattr(self, name) != default]
        if self.temperature is None and given:
            problems.append(
                f"a search takes no {' or '.join(given)}; leave out what is for sampling, or give "
                "a temperature to sample"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


@dataclass(frozen=True, kw_only=True, config=_FORBID_EXTRA)
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
        if self.model.position == "learned" and self.data.max_length > self.model.max_length:
            raise ValueError(
                "learned positions need model.max_length to be at least data.max_length, received "
                f"{self.model.max_length} and {self.data.max_length}; raise the one or lower the "
                "other"
            )
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
