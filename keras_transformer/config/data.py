"""Training and validation text, and the rules of what fits together."""

import dataclasses
import math
import re
from collections.abc import Collection, Sequence
from typing import Literal

from pydantic import Field, model_validator

from keras_transformer.config.strict import configuration

_FILES = ("train_source", "train_target", "validation_source", "validation_target")
_DATASET = ("tfds", "source_language", "target_language", "train_split", "validation_split")


@configuration()
class DataConfig:
    """The parallel text, in files or in TensorFlow Datasets (TFDS), and its subwords.

    >>> DataConfig(train_source="train.tsv", validation_source="valid.tsv").tfds is None
    True
    >>> DataConfig(
    ...     tfds="wmt14_translate/de-en", source_language="en", target_language="de"
    ... ).validation_split
    'validation'
    """

    task: Literal["translation", "parsing"] = "translation"
    """What a model learns. For parsing, train_source and validation_source are files of bracketed
    trees, one a line or over several lines, or directories of .mrg files; there is no target."""
    word_tags: Literal["none", "source", "target"] = "none"
    """For parsing, where part-of-speech tags are: in no text, in the source, as in We/PRP, or in
    the target, so that the model predicts them."""
    train_source: str | list[str] | None = None
    """Training text in the source language, one sentence per line, plain or gzip; or, without
    train_target, a TSV file of both languages. A list names several corpora."""
    train_target: str | list[str] | None = None
    """The same sentences in the target language, line by line; as many files as train_source."""
    train_weights: list[float] = Field(default_factory=list)
    """How often a pass has each pair of the corpora, one number for each: 2 means twice, and 0.5 a
    random half that differs from pass to pass. By default, once."""
    train_languages: list[str] = Field(default_factory=list)
    """Target language of each corpus, such as de, for a model of several languages: >>de<< is put
    in front of each source sentence, and becomes its first token."""
    temperature: float = Field(default=1.0, ge=1)
    """Temperature T of the mixture of corpora: one of n pairs gets a share of a pass that is
    proportional to n^(1/T). With 1, each pair comes once; higher values favor small corpora."""
    validation_source: str | list[str] | None = None
    """Validation text, which selects the checkpoint, in the form of train_source. Several files
    need validation_languages."""
    validation_target: str | list[str] | None = None
    """The same sentences in the target language, line by line; as many files as
    validation_source."""
    validation_languages: list[str] = Field(default_factory=list)
    """Target language of each validation file, as train_languages. The mean of their BLEU selects
    the checkpoint."""
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
    """Largest number of shapes of batches, for XLA, which compiles a step once for each; by default
    6 on GPUs and with JAX, unless training.jit_compile is false. Otherwise, batches are padded to
    their longest sentences."""
    max_length_ratio: float | None = Field(default=None, ge=1)
    """Largest ratio of the lengths of both sides in tokens; other training pairs are dropped."""
    drop_duplicates: bool = False
    """Whether to drop training pairs that occurred before."""
    cache: str | None = None
    """Directory of encoded text that runs share. By default, a run keeps its own."""
    subwords: Literal["bpe", "unigram", "wordpiece", "word"] = "bpe"
    """Kind of vocabulary: a SentencePiece model (bpe or unigram), word pieces or, for parsing,
    whole words (word) with classes for rare ones."""
    character_coverage: float = Field(default=1.0, ge=0.98, le=1)
    """Share of the characters in the training text that become tokens."""
    vocabulary_sentences: int = Field(default=5_000_000, gt=0)
    """Most sentences that a vocabulary is trained on. Of a longer text, it is every second, every
    fourth and so on."""
    vocabulary_corpora: int | None = Field(default=None, gt=0)
    """Number of corpora of train_source, the first ones, whose text a vocabulary is trained on; by
    default all. The labels of trees are those of all corpora."""
    subword_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Rate of BPE-dropout: each pass segments the training text again and skips this share of the
    merges (Provilkov et al., 2020). With whole words, the rate z of word dropout: each pass takes
    the class of a word that occurs n times with a probability of z / (z + n)."""

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
        problems += self._corpora_problems() + self._task_problems()
        if self.subword_dropout and self.subwords not in ("bpe", "word"):
            problems.append(
                "subword_dropout needs the merges of subwords='bpe' or the words of 'word', "
                f"received subword_dropout={self.subword_dropout} and subwords={self.subwords!r}; "
                "set it to 0 or choose one of these"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _task_problems(self) -> list[str]:
        """Return which options do not fit the task."""
        if self.task == "translation":
            return [
                f"{name}={getattr(self, name)!r} needs task='parsing'; choose another value or task"
                for name, is_given in (
                    ("word_tags", self.word_tags != "none"),
                    ("subwords", self.subwords == "word"),
                )
                if is_given
            ]
        names = ["train_target", "validation_target", "tfds"]
        names += ["train_languages", "validation_languages"]
        return [
            "parsing takes its sources and targets from the trees of train_source, received "
            f"{name}={getattr(self, name)!r}; leave it out"
            for name in names
            if getattr(self, name)
        ]

    def _corpora_problems(self) -> list[str]:
        """Return what is wrong with the lists of files."""
        problems = []
        for split in ("train", "validation"):
            sources, targets = (
                as_list(getattr(self, f"{split}_{x}")) for x in ("source", "target")
            )
            if targets and len(sources) != len(targets):
                problems.append(
                    f"{split}_source and {split}_target must name equally many files, received "
                    f"{len(sources)} and {len(targets)}"
                )
            if getattr(self, f"{split}_source") == []:
                problems.append(f"{split}_source must name a file, received an empty list")
        corpora = max(1, len(as_list(self.train_source)))
        if self.vocabulary_corpora is not None and self.vocabulary_corpora > corpora:
            problems.append(
                f"vocabulary_corpora must be at most {corpora}, the number of corpora, received "
                f"{self.vocabulary_corpora}"
            )
        return problems + self._weight_problems(corpora) + self._language_problems(corpora)

    def _weight_problems(self, corpora: int) -> list[str]:
        """Return what is wrong with the weights of the training corpora."""
        weights, temperature = self.train_weights, self.temperature
        problems = []
        if weights and len(weights) != corpora:
            problems.append(
                "train_weights must have one number for each corpus, received "
                f"{len(weights)} numbers for {corpora}"
            )
        if weights and not (min(weights) >= 0 and 0 < sum(weights) < math.inf):
            problems.append(f"train_weights must be at least 0, and not all 0, received {weights}")
        if weights and temperature != 1:
            problems.append(
                "the sizes of the corpora decide their weights with a temperature, received "
                f"train_weights={weights} and temperature={temperature}; leave one of them out"
            )
        return problems

    def _language_problems(self, corpora: int) -> list[str]:
        """Return what is wrong with the target languages of the corpora."""
        train, validation = self.train_languages, self.validation_languages
        validations = 1 if self.task == "parsing" else max(1, len(as_list(self.validation_source)))
        problems = []
        if train and len(train) != corpora:
            problems.append(
                "train_languages must have one language for each corpus, received "
                f"{len(train)} for {corpora}"
            )
        if validation and len(validation) != validations:
            problems.append(
                "validation_languages must have one language for each validation file, received "
                f"{len(validation)} for {validations}"
            )
        if bool(train) != bool(validation):
            given, missing = ("train", "validation") if train else ("validation", "train")
            problems.append(
                "train_languages and validation_languages must be set together, received "
                f"{given}_languages without {missing}_languages; give both"
            )
        elif unknown := sorted(set(validation) - set(train)):
            problems.append(
                f"validation_languages must be among train_languages, received {', '.join(unknown)}"
            )
        if validations > 1 and not validation:
            problems.append(
                f"several validation files need validation_languages, received {validations} files "
                "without it"
            )
        if bad := [each for each in train if not re.fullmatch("[A-Za-z0-9_-]+", each)]:
            problems.append(
                "a language must have letters from a to z, digits, - and _ only, received "
                f"{', '.join(map(repr, bad))}; try de, or pt-BR"
            )
        if train and self.subwords == "wordpiece":
            problems.append(
                "train_languages need a vocabulary with tags, received subwords='wordpiece'; "
                "choose 'bpe' or 'unigram'"
            )
        return problems


def as_list(paths: str | list[str] | None) -> list[str]:
    """Return the files of an option that takes one or several.

    >>> as_list("train.tsv"), as_list(["a.tsv", "b.tsv"]), as_list(None)
    (['train.tsv'], ['a.tsv', 'b.tsv'], [])
    """
    return paths if isinstance(paths, list) else [] if paths is None else [paths]


def language_tag(language: str) -> str:
    """Return the tag of a target language, which is put in front of a source sentence.

    >>> language_tag("de")
    '>>de<<'
    """
    return f">>{language}<<"


def text_source_problems(
    given: Collection[str],
    *,
    files: Sequence[str],
    dataset: Sequence[str],
    required_files: Sequence[str],
    required_dataset: Sequence[str],
    languages: tuple[str | None, str | None],
) -> list[str]:
    """Return what is wrong with the choice of text, in terms of the caller's own option names.

    Args:
        given: Names of the options that have a value.
        files: Names of the options that choose text in files.
        dataset: Names of the options that choose a TFDS dataset.
        required_files: Names of the options that text in files needs.
        required_dataset: Names of the options that a TFDS dataset needs: its name first, source
            and target language last.
        languages: Values of the source and the target language, None where not given.

    Returns:
        A sentence for each problem, without a final period; none if the choice is valid.

    >>> options = dict(
    ...     files=["--source", "--target"],
    ...     dataset=["--tfds"],
    ...     required_files=["--source"],
    ...     required_dataset=["--tfds", "--from", "--to"],
    ...     languages=(None, None),
    ... )
    >>> text_source_problems(["--source"], **options)
    []
    >>> text_source_problems(["--tfds", "--from"], **options)
    ['a TFDS dataset needs --tfds, --from, --to, received no --to; give what is missing']
    """
    chosen_files = [name for name in files if name in given]
    chosen_dataset = [name for name in dataset if name in given]
    if chosen_dataset:
        kind, required = "a TFDS dataset", required_dataset
    else:
        kind, required = "text in files", required_files
    missing = [name for name in required if name not in given]
    problems = []
    if chosen_files and chosen_dataset:
        problems.append(
            "text is either in files or in a TFDS dataset, received "
            f"{', '.join(chosen_files)} and {', '.join(chosen_dataset)}; give only one kind"
        )
    elif missing:
        advice = (
            "give what is missing"
            if chosen_files or chosen_dataset
            else f"give text in files, or {required_dataset[0]} for a TFDS dataset"
        )
        problems.append(
            f"{kind} needs {', '.join(required)}, received no {' and no '.join(missing)}; {advice}"
        )
    if languages[0] is not None and languages[0] == languages[1]:
        problems.append(
            f"{' and '.join(required_dataset[-2:])} must be two languages, received "
            f"{languages[0]} for both"
        )
    return problems
