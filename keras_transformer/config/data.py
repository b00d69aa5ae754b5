"""Training and validation text, and the rules of what fits together."""

import dataclasses
import math
import re
from collections.abc import Collection, Sequence
from typing import Literal

from pydantic import Field, model_validator

from keras_transformer.config.filters import chosen_filters
from keras_transformer.config.strict import configuration

_FILES = ("train_source", "train_target", "validation_source", "validation_target")
_DATASET = ("tfds", "source_language", "target_language", "train_split", "validation_split")

SYMBOL_KINDS = "printf", "python", "icu", "qt", "variables", "html", "urls", "accelerators"
"""Kinds of text that can be user symbols: the names of `keras_transformer.text.patterns`."""
PATTERN_PREFIX = "re:"
"""What a regular expression among the user symbols begins with."""
AUGMENTATIONS = "join", "no_final_punctuation", "upper", "title", "typos", "symbols"
"""Ways to change training text, in the order in which they apply."""


@configuration()
class CorpusConfig:
    """Parallel text in files, one entry of `DataConfig.corpora`.

    >>> CorpusConfig(source="news.en", target="news.de", language="de", tag="news").full_tag
    'de_news'
    """

    source: str
    """Text in the source language, in the form of train_source."""
    target: str | None = None
    """The same sentences in the target language, line by line; without it, source has both."""
    weight: float | None = None
    """How often a pass has each pair: 2 means twice, and 0.5 a random half."""
    language: str | None = None
    """Target language, such as de, for a model of several languages."""
    source_language: str | None = None
    """Language of the source, such as eng_Latn, if training.init_from is an imported model of many
    languages; by default, decoding.source_language."""
    target_language: str | None = None
    """Language of the target, likewise. A corpus has both or none."""
    tag: str | None = None
    """Domain or origin of the text, such as news: >>news<< is put in front of each source sentence,
    or >>de_news<< with a language."""

    @property
    def full_tag(self) -> str:
        """The tag of the sources without its brackets; empty if they have none."""
        return "_".join(filter(None, (self.language, self.tag)))

    @property
    def direction(self) -> str:
        """Both languages, such as eng_Latn-deu_Latn; empty without them."""
        return "-".join(filter(None, (self.source_language, self.target_language)))


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
    """Training text in the source language, one sentence per line, plain, gzip, xz or zstd; or,
    without train_target, a file of both languages: TSV, .po, XLIFF, TMX or .ts. For several files,
    see corpora."""
    train_target: str | list[str] | None = None
    """The same sentences in the target language, line by line; as many files as train_source."""
    corpora: list[CorpusConfig] = Field(default_factory=list)
    """Training text in several files, instead of train_source: for each corpus, source and, if you
    like, target, weight (times that a pass has each pair), language (of the target, for a model of
    several), source_language and target_language (for an imported model of many) and tag (domain or
    origin)."""
    train_weights: list[float] = Field(default_factory=list)
    """The weights of corpora, if train_source is a list."""
    train_languages: list[str] = Field(default_factory=list)
    """The languages of corpora, if train_source is a list."""
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
    """Target language of each validation file, among those of corpora, or both languages, such as
    eng_Latn-deu_Latn, if corpora have both. The mean of their BLEU selects the checkpoint."""
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
    6 on a single GPU, with JAX, and where training.jit_compile is true. Otherwise, batches are
    padded to their longest sentences."""
    max_length_ratio: float | None = Field(default=None, ge=1)
    """Largest ratio of the lengths of both sides in tokens; other training pairs are dropped."""
    drop_duplicates: bool = False
    """Whether to drop training pairs that occurred before."""
    filters: list[str] = Field(default_factory=list)
    """What else is dropped: messages or prose, which are sets of filters, or single filters, such
    as identical, placeholders and near_duplicates. The command prepare shows what each finds;
    vocabularies are trained on what is kept."""
    cache: str | None = None
    """Directory of encoded text that runs share. By default, a run keeps its own."""
    subwords: Literal["bpe", "unigram", "wordpiece", "word"] = "bpe"
    """Kind of vocabulary: a SentencePiece model (bpe or unigram), word pieces or, for parsing,
    whole words (word) with classes for rare ones."""
    character_coverage: float = Field(default=1.0, ge=0.98, le=1)
    """Share of the characters in the training text that become tokens."""
    normalization: Literal["nfkc", "nfc", "identity"] | None = None
    """What a SentencePiece vocabulary does to text: nfkc replaces characters such as … or a
    no-break space by their plain equivalents, and several spaces by one; nfc only composes accents
    and joins spaces; with identity, text comes back as it was, white space included. By default,
    nfkc, or what the vocabulary of training.init_from does."""
    user_symbols: list[str] = Field(default_factory=list)
    """Parts of text that are always single tokens: printf, python, icu, qt, variables, html, urls
    or accelerators for what these patterns match in the training text, re: and a regular
    expression, such as re:--[a-z]+, or a symbol itself, such as ~."""
    max_user_symbols: int = Field(default=200, gt=0)
    """Most matches of these patterns that become user symbols, the most frequent ones."""
    vocabulary_sentences: int = Field(default=5_000_000, gt=0)
    """Most sentences that a vocabulary is trained on. Of a longer text, it is every second, every
    fourth and so on."""
    vocabulary_corpora: int | None = Field(default=None, gt=0)
    """Number of corpora, the first ones, whose text a vocabulary is trained on; by
    default all. The labels of trees are those of all corpora."""
    subword_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Rate of BPE-dropout: each pass segments the training text again and skips this share of the
    merges (Provilkov et al., 2020). With whole words, the rate z of word dropout: each pass takes
    the class of a word that occurs n times with a probability of z / (z + n)."""
    augment_upper: float = Field(default=0.0, ge=0, le=1)
    """Share of the training pairs in capital letters, others in each pass, like all rates of
    augmentation. Placeholders, markup and URLs stay as they are."""
    augment_title: float = Field(default=0.0, ge=0, le=1)
    """Share of the training pairs whose words all begin with a capital letter."""
    augment_no_final_punctuation: float = Field(default=0.0, ge=0, le=1)
    """Share of the training pairs that lose the period, question mark or exclamation mark at the
    end, if both sides have one."""
    augment_typos: float = Field(default=0.0, ge=0, le=1)
    """Share of the training sources with a typing error in a word."""
    augment_join: float = Field(default=0.0, ge=0, le=1)
    """Share of the training pairs that are followed by a second pair, if both sides end with a
    period, question mark or exclamation mark."""
    augment_symbols: float = Field(default=0.0, ge=0, le=1)
    """Share of the training pairs with a user symbol of the vocabulary at the start or at the end
    of both sides, or with tags around both."""

    @property
    def augmentation(self) -> dict[str, float]:
        """The rates of augmentation that are not 0."""
        rates = {name: getattr(self, f"augment_{name}") for name in AUGMENTATIONS}
        return {name: rate for name, rate in rates.items() if rate}

    @property
    def directions(self) -> dict[str, tuple[str, str]]:
        """Source and target language by their names in validation_languages; see `CorpusConfig`."""
        return {
            corpus.direction: (corpus.source_language, corpus.target_language)
            for corpus in self.training_corpora
            if corpus.source_language and corpus.target_language
        }

    @model_validator(mode="after")
    def _check(self):
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        given = [name for name in _FILES + _DATASET if getattr(self, name) != defaults[name]]
        text = "corpora" if self.corpora else "train_source"
        problems = text_source_problems(
            [*given, text] if self.corpora else given,
            files=("corpora", *_FILES),
            dataset=_DATASET,
            required_files=(text, "validation_source"),
            required_dataset=("tfds", "source_language", "target_language"),
            languages=(self.source_language, self.target_language),
        )
        problems += self._corpora_problems() + self._task_problems()
        try:
            chosen_filters(self.filters)
        except ValueError as error:
            problems.append(str(error))
        if self.subword_dropout and self.subwords not in ("bpe", "word"):
            problems.append(
                "subword_dropout needs the merges of subwords='bpe' or the words of 'word', "
                f"received subword_dropout={self.subword_dropout} and subwords={self.subwords!r}; "
                "set it to 0 or choose one of these"
            )
        problems += self._symbol_problems()
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
        names += ["train_languages", "validation_languages", "filters"]
        given = [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name)]
        given += [
            f"{name} of corpora"
            for name in ("target", "language", "source_language", "target_language", "tag")
            if any(getattr(corpus, name) for corpus in self.corpora)
        ]
        return [
            "parsing takes its sources and targets from the trees of train_source, received "
            f"{each}; leave it out"
            for each in given
        ]

    @property
    def training_corpora(self) -> list[CorpusConfig]:
        """The training text: `corpora`, the files of train_source, or the TFDS dataset."""
        sources = as_list(self.train_source) if self.tfds is None else [self.tfds]
        if self.corpora or not sources:
            return self.corpora
        options = (as_list(self.train_target), self.train_weights, self.train_languages)
        columns = (option or [None] * len(sources) for option in options)
        return [
            CorpusConfig(source=source, target=target, weight=weight, language=language)
            for source, target, weight, language in zip(sources, *columns, strict=True)
        ]

    def _symbol_problems(self) -> list[str]:
        """Return what is wrong with the options that need the text of a SentencePiece model."""
        problems = []
        for symbol in self.user_symbols:
            if symbol.startswith(PATTERN_PREFIX):
                if problem := _pattern_problem(symbol.removeprefix(PATTERN_PREFIX)):
                    problems.append(
                        "user_symbols must have regular expressions that can be joined after "
                        f"{PATTERN_PREFIX}, received {symbol!r} ({problem})"
                    )
            elif re.fullmatch("[a-z]+", symbol):
                if symbol not in SYMBOL_KINDS:
                    problems.append(
                        f"user_symbols has the kinds {', '.join(SYMBOL_KINDS)}, received "
                        f"{symbol!r}; write {PATTERN_PREFIX}{symbol} for the word itself"
                    )
            elif not can_be_symbol(symbol):
                problems.append(
                    "a user symbol must be printable, without white space or ▁, and must not be "
                    f"a token of the vocabulary such as <s>, received {symbol!r}; leave it out"
                )
        given = ["normalization"] if self.normalization else []
        given += ["user_symbols"] if self.user_symbols else []
        given += [f"augment_{name}" for name in self.augmentation]
        if given and (self.subwords not in ("bpe", "unigram") or self.task != "translation"):
            problems.append(
                "normalization, user symbols and augmentation need task='translation' and "
                f"subwords='bpe' or 'unigram', received {', '.join(given)} with "
                f"task={self.task!r} and subwords={self.subwords!r}; leave them out"
            )
        return problems

    def _corpora_problems(self) -> list[str]:
        """Return what is wrong with the files."""
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
        number = len(self.corpora) or max(1, len(as_list(self.train_source)))
        for name, one, unit in (
            ("train_weights", "one number", " numbers"),
            ("train_languages", "one language", ""),
        ):
            values = getattr(self, name)
            if values and not self.corpora and len(values) != number:
                problems.append(
                    f"{name} must have {one} for each corpus, received {len(values)}{unit} for "
                    f"{number}"
                )
        names = ("train_source", "train_target", "train_weights", "train_languages")
        if self.corpora and (given := [name for name in names if getattr(self, name)]):
            problems.append(
                f"corpora replaces {', '.join(names)}, received both corpora and "
                f"{' and '.join(given)}; move {'it' if len(given) == 1 else 'them'} into corpora"
            )
        if not problems:
            problems = self._weight_problems() + self._language_problems()
        if self.vocabulary_corpora is not None and self.vocabulary_corpora > number:
            problems.append(
                f"vocabulary_corpora must be at most {number}, the number of corpora, received "
                f"{self.vocabulary_corpora}"
            )
        return problems

    def _weight_problems(self) -> list[str]:
        """Return what is wrong with the weights of the training corpora."""
        name = "the weights of corpora" if self.corpora else "train_weights"
        given = [corpus.weight for corpus in self.training_corpora]
        weights = [1.0 if weight is None else weight for weight in given]
        problems = []
        if weights and not (min(weights) >= 0 and 0 < sum(weights) < math.inf):
            problems.append(f"{name} must be at least 0, and not all 0, received {weights}")
        if any(weight is not None for weight in given) and self.temperature != 1:
            problems.append(
                "the sizes of the corpora decide their weights with a temperature, received "
                f"{name}={weights} and temperature={self.temperature}; leave one of them out"
            )
        return problems

    def _language_problems(self) -> list[str]:
        """Return what is wrong with the target languages and the tags of the corpora."""
        corpora, validation = self.training_corpora, self.validation_languages
        name = "the languages of corpora" if self.corpora else "train_languages"
        validations = 1 if self.task == "parsing" else max(1, len(as_list(self.validation_source)))
        named = [(c.direction or None) if c.language is None else c.language for c in corpora]
        train = [each for each in named if each is not None]
        problems = []
        if mixed := [
            corpus.source
            for corpus in corpora
            if (corpus.source_language is None) != (corpus.target_language is None)
            or (corpus.direction and corpus.language)
        ]:
            problems.append(
                "a corpus has language, or both source_language and target_language, or none, "
                f"received others for {', '.join(mixed)}"
            )
        if 0 < len(train) < len(corpora):
            problems.append(
                f"either all corpora or none have a language, received {len(train)} of "
                f"{len(corpora)}; add the others"
            )
        if validation and len(validation) != validations:
            problems.append(
                "validation_languages must have one language for each validation file, received "
                f"{len(validation)} for {validations}"
            )
        if bool(train) != bool(validation):
            given, missing = (name, "validation_languages")
            if validation:
                given, missing = missing, given
            problems.append(
                f"{name} and validation_languages must be set together, received {given} without "
                f"{missing}; give both"
            )
        elif unknown := sorted(
            set(validation) - {c.language or c.direction for c in corpora if not c.tag}
        ):
            problems.append(
                f"validation_languages must be among {name}{' without a tag' * bool(self.corpora)}"
                f", received {', '.join(unknown)}"
            )
        if validations > 1 and not validation:
            problems.append(
                f"several validation files need validation_languages, received {validations} files "
                "without it"
            )
        tags = [*train, *(corpus.tag for corpus in corpora if corpus.tag is not None)]
        if bad := [each for each in tags if not re.fullmatch("[A-Za-z0-9_-]+", each)]:
            problems.append(
                "a language or a tag must have letters from a to z, digits, - and _ only, received "
                f"{', '.join(map(repr, bad))}; try de, or pt-BR"
            )
        if tags and self.subwords == "wordpiece":
            problems.append(
                f"{name} and tags need a vocabulary with tags, received subwords='wordpiece'; "
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


def can_be_symbol(text: str) -> bool:
    """Return whether a SentencePiece vocabulary can have a text as a user symbol.

    >>> [can_be_symbol(text) for text in ("%s", "<b>", "<s>", "{0, number}", "")]
    [True, True, False, False, False]
    """
    is_taken = re.fullmatch(r">>[^<>]+<<|<0x[0-9A-F]{2}>|</?s>|<pad>|<unk>", text)
    return bool(text) and text.isprintable() and not is_taken and not set(text) & {" ", "▁"}


def _pattern_problem(pattern: str) -> str:
    r"""Return why a regular expression cannot be joined with others by |, or an empty text.

    >>> [bool(_pattern_problem(each)) for each in ("(", "(?i)a", r"(a)\1", "(?i:a)", "(a|b)")]
    [True, True, True, False, False]
    """
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        return str(error)
    try:
        re.compile(f"(?:{pattern})")
    except re.error:
        return "flags of the whole expression; write (?i:...) instead of (?i)..."
    if compiled.groupindex:
        return "a named group; write (?:...) instead of (?P<name>...)"
    # The groups of the others change the numbers.
    if compiled.groups and re.search(r"(?<!\\)(?:\\\\)*(?:\\[1-9]|\(\?\()", pattern):
        return "a back reference; write out what it stands for"
    return ""


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
