"""Options of decoding."""

import math
import re
import struct
from typing import Literal

from pydantic import Field, model_validator

from keras_transformer.config.data import PATTERN_PREFIX
from keras_transformer.config.model import BOS_ID, PAD_ID, UNK_ID
from keras_transformer.config.strict import configuration

PROTECTED_KINDS = (
    *("printf", "python", "icu", "qt", "variables", "html", "urls", "emails", "paths", "options"),
    *("breaks", "capitals", "numbers", "accelerators"),
)
"""What a translation can keep; see `keras_transformer.text.protection`."""
ALL_KINDS = "all"
"""Stands for all of them except numbers and accelerators."""


def protect_problems(protect: str) -> list[str]:
    """Return what is wrong with `DecodingConfig.protect`.

    >>> protect_problems("html re:[A-Z]+-[0-9]+"), len(protect_problems("tags re:( re:[0-9]*"))
    ([], 3)
    """
    problems = []
    for word in protect.replace(",", " ").split():
        if not word.startswith(PATTERN_PREFIX):
            if word not in (*PROTECTED_KINDS, ALL_KINDS):
                problems.append(
                    f"protect has the names {', '.join(PROTECTED_KINDS)} and {ALL_KINDS}, received "
                    f"{word!r}; write {PATTERN_PREFIX} before a regular expression"
                )
            continue
        try:
            pattern = re.compile(word.removeprefix(PATTERN_PREFIX))
            problem = "a group; write (?:...) instead of (...)" if pattern.groups else ""
            if pattern.match(""):  # It would match before all others, everywhere.
                problem = "it matches an empty text; write + instead of *"
        except re.error as error:
            problem = str(error)
        if problem:
            problems.append(
                f"protect must have regular expressions without groups after {PATTERN_PREFIX}, "
                f"received {word!r} ({problem})"
            )
    return problems


@configuration()
class DecodingConfig:
    """How a model decodes: beam search by default, with the paper's options (Section 6.1).

    >>> DecodingConfig(beam_size=1).length_penalty  # Greedy search.
    0.6
    """

    beam_size: int = Field(default=4, gt=0)
    """Number of hypotheses kept for each sentence; 1 is greedy search."""
    length_penalty: float = Field(default=0.6, ge=0)
    """Exponent alpha of the length penalty (Wu et al., 2016)."""
    style: Literal["paper", "marian", "transformers", "transformers_early"] = "paper"
    """Which beam search to reproduce: the paper's, or, as imported models expect, the one of
    Marian or of Hugging Face's Transformers, without and with its early_stopping; see
    `decoding.styles`. In all but the paper's, scores are
    log-probability / length ** length_penalty."""
    renormalize: bool = True
    """Whether the probability of tokens that are never chosen, such as padding, is divided among
    the others, so that scores count only tokens that can be chosen."""
    extra_length: int = Field(default=50, ge=0, le=1_000_000)
    """Longest translation, as a number of tokens beyond the length of the source."""
    length_factor: float = Field(default=1.0, ge=0, le=1e6)
    """Factor of the length of the source in that limit, which is rounded up."""
    max_source_length: int = Field(default=512, gt=1)
    """Longest source sentence in tokens, including eos; longer ones are truncated."""
    num_hypotheses: int | None = Field(default=None, gt=0)
    """Number of translations that n_best returns, by default beam_size; beam search finds at most
    that many."""
    min_length: int = Field(default=0, ge=0)
    """Shortest translation in tokens, unless its upper limit is lower."""
    max_length: int | None = Field(default=None, gt=0)
    """Longest translation in tokens, including eos, for a source of any length."""
    no_repeat_ngram_size: int = Field(default=0, ge=0)
    """No n-gram of this many tokens occurs twice in a translation; 0 allows any repetition."""
    repetition_penalty: float = Field(default=1.0, ge=1)
    """Factor by which tokens that a translation already contains become less likely; 1 turns it
    off."""
    allow_unknown: bool = False
    """Whether translations may contain the unknown token."""
    source_language: str | None = None
    """Language of the source, for models of many languages: a code of the model, such as eng_Latn,
    or a name or code that means it, such as English or en."""
    target_language: str | None = None
    """Language of the translation, likewise."""
    prefix: str = ""
    """Text that every translation starts with; not with protect."""
    protect: str = ""
    """What a translation keeps as it is in the source: printf, python, icu, qt, variables, html,
    urls, emails, paths, options, breaks, capitals, numbers and accelerators, or all for all but the
    last two, or re: and a regular expression without white space and commas; several are separated
    by spaces. By default, nothing is guaranteed."""
    temperature: float | None = Field(default=None, ge=0.001, le=100)
    """Sample translations instead of searching for the best one: at 1 from the model's own
    distribution, below 1 from a sharper one. By default, decoding searches."""
    top_k: int = Field(default=0, ge=0)
    """When sampling, choose among this many most likely tokens; 0 allows all."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """When sampling, choose among the smallest set of most likely tokens whose total probability is
    at least this; 1 allows all. Slow with a large vocabulary unless top_k is set as well."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """When sampling, the same seed and sentence give the same translation."""

    @property
    def excluded_ids(self) -> list[int]:
        """Ids of tokens that no translation contains, because they are no text.

        >>> DecodingConfig().excluded_ids  # Padding, unk and bos.
        [0, 1, 2]
        """
        return [PAD_ID, BOS_ID] if self.allow_unknown else [PAD_ID, UNK_ID, BOS_ID]

    def not_for_trees(self) -> list[str]:
        """Return the options that are set and contradict the rules of trees, as name=value.

        >>> DecodingConfig(min_length=3).not_for_trees()
        ['min_length=3']
        """
        names = ["min_length", "no_repeat_ngram_size", "repetition_penalty"]
        names += ["allow_unknown", "prefix", "protect"]
        plain = DecodingConfig()
        return [
            f"{name}={getattr(self, name)!r}"
            for name in names
            if getattr(self, name) != getattr(plain, name)
        ]

    def longest(self, source_length: int) -> int:
        """Return the maximum number of tokens of a translation, for a source of some length.

        >>> DecodingConfig(extra_length=50).longest(20)
        70
        """
        # Marian computes the product in float32: 1.1 times 10 tokens are 11, not 12.
        (factor,) = struct.unpack("f", struct.pack("f", self.length_factor))
        (product,) = struct.unpack("f", struct.pack("f", factor * source_length))
        longest = math.ceil(product) + self.extra_length
        return longest if self.max_length is None else min(longest, self.max_length)

    @model_validator(mode="after")
    def _check(self):
        problems = protect_problems(self.protect)
        if self.temperature is None and (self.num_hypotheses or 1) > self.beam_size:
            problems.append(
                "num_hypotheses must be at most beam_size, received "
                f"{self.num_hypotheses} and {self.beam_size}; lower the first or raise the second"
            )
        if self.max_length is not None and self.min_length > self.max_length:
            problems.append(
                f"min_length must be at most max_length, received {self.min_length} and "
                f"{self.max_length}; lower the first or raise the second"
            )
        sampling = {"top_k": 0, "top_p": 1, "seed": 0}
        given = [name for name, default in sampling.items() if getattr(self, name) != default]
        if self.temperature is None and given:
            problems.append(
                f"{' and '.join(given)} apply to sampling, which needs a temperature; received "
                "none; leave them out or set temperature"
            )
        if self.length_factor == self.extra_length == 0:
            problems.append(
                "length_factor and extra_length must not both be 0, which allows nothing; raise one"
            )
        if self.prefix and self.protect:
            problems.append(
                "prefix must be empty where spans are kept (protect, documents), because a text "
                f"may be translated in pieces; received {self.prefix!r}; leave one out"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self
