"""The options of a search."""

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.strict import STRICT


@dataclass(frozen=True, kw_only=True, config=STRICT)
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
