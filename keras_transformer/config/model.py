"""The sizes of a model."""

from typing import Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.strict import STRICT, describe_fields


@describe_fields
@dataclass(frozen=True, config=STRICT)
class TransformerConfig:
    """The sizes of a Transformer; the defaults are the paper's base model (Table 3, first row).

    All invalid values are reported together in one `pydantic.ValidationError` (a `ValueError`).

    >>> TransformerConfig(vocab_size=37000).d_model
    512
    >>> import dataclasses
    >>> dataclasses.replace(TransformerConfig(vocab_size=37000), num_heads=16).num_heads
    16
    """

    vocab_size: int = Field(gt=4)
    """Size of the vocabulary that source and target share, or of the source vocabulary."""
    target_vocab_size: int | None = Field(default=None, gt=4)
    """Size of a separate target vocabulary; by default both languages share one."""
    num_layers: int = Field(default=6, gt=0)
    """Number of encoder layers, and of decoder layers (N)."""
    d_model: int = Field(default=512, gt=0)
    """Size of the embeddings and of the output of every layer."""
    d_ff: int = Field(default=2048, gt=0)
    """Size of the inner layer of the feed-forward networks."""
    num_heads: int = Field(default=8, gt=0)
    """Number of attention heads (h)."""
    key_dim: int | None = Field(default=None, gt=0)
    """Size of the queries and keys of a head (d_k); by default d_model / num_heads."""
    value_dim: int | None = Field(default=None, gt=0)
    """Size of the values of a head (d_v); by default key_dim."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate of the embeddings and of the output of every sub-layer (Section 5.4)."""
    attention_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate of the attention weights."""
    ffn_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate of the activations inside the feed-forward networks."""
    norm: Literal["post", "pre"] = "post"
    """Layer normalization after each residual sum, as in the paper, or before each sub-layer."""
    position: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Position encoding (Section 3.5; learned: Table 3, row E)."""
    max_length: int = Field(default=1024, gt=0)
    """Longest sequence, in tokens, that learned positions support."""
    share_embeddings: Literal["all", "target", "none"] = "all"
    """Whether one matrix serves as source embedding, target embedding and softmax weights (all;
    Section 3.4), as the last two (target), or each has its own (none)."""

    @property
    def has_joint_vocabulary(self) -> bool:
        """True if source and target share one vocabulary."""
        return self.target_vocab_size is None

    @property
    def target_size(self) -> int:
        """Size of the target vocabulary, shared or separate."""
        return self.target_vocab_size or self.vocab_size

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
