"""The sizes of a model."""

from typing import Literal

from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from keras_transformer.config.strict import STRICT


@dataclass(frozen=True, config=STRICT)
class TransformerConfig:
    """The sizes of a Transformer; the defaults are the paper's base model (Table 3, first row).

    Wrong values are reported together in one `pydantic.ValidationError` (a `ValueError`).

    >>> TransformerConfig(vocab_size=37000).d_model
    512
    >>> import dataclasses
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

    @property
    def has_joint_vocabulary(self) -> bool:
        """Whether source and target share one vocabulary."""
        return self.target_vocab_size is None

    @property
    def target_size(self) -> int:
        """Subwords of the target's vocabulary, joint or its own."""
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
