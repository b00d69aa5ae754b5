"""The sizes of a model, and the ids of its special tokens."""

from typing import Literal

from pydantic import Field, model_validator

from keras_transformer.config.strict import configuration

PAD_ID = 0
"""The id of padding."""
UNK_ID = 1
"""The id of unknown tokens."""
BOS_ID = 2
"""The id at the start of what the decoder reads."""
EOS_ID = 3
"""The id at the end of a sentence."""


@configuration(kw_only=False)
class TransformerConfig:
    """The sizes of a Transformer; the defaults are the paper's base model (Table 3, first row).

    All invalid values are reported together in one `ValueError`.

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
    num_decoder_layers: int | None = Field(default=None, gt=0)
    """Number of decoder layers; by default num_layers."""
    d_model: int = Field(default=512, gt=0)
    """Size of the embeddings and of the output of every layer."""
    d_ff: int = Field(default=2048, gt=0)
    """Size of the inner layer of the feed-forward networks."""
    decoder_d_ff: int | None = Field(default=None, gt=0)
    """That size in the decoder; by default d_ff."""
    num_heads: int = Field(default=8, gt=0)
    """Number of attention heads (h)."""
    decoder_num_heads: int | None = Field(default=None, gt=0)
    """Number of attention heads in the decoder; by default num_heads."""
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
    layer_norm_epsilon: float = Field(default=1e-6, gt=0)
    """Added to the variance in layer normalization."""
    activation: Literal["relu", "swish", "gelu", "sigmoid_gelu"] = "relu"
    """Function inside the feed-forward networks; sigmoid_gelu is x * sigmoid(1.702 x)."""
    use_bias: bool = False
    """Whether the projections of the attention add a bias."""
    use_output_bias: bool = False
    """Whether a bias is added to the logits."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by sqrt(d_model), as in Section 3.4."""
    position: Literal["sinusoidal", "sines_cosines", "tensor2tensor", "learned"] = "sinusoidal"
    """Position encoding (Section 3.5; learned: Table 3, row E). sines_cosines has the sines first
    and the cosines second; tensor2tensor too, with the frequencies of that library and Marian."""
    max_length: int = Field(default=1024, gt=0)
    """Longest sequence, in tokens, that learned positions support."""
    share_embeddings: Literal["all", "target", "inputs", "none"] = "all"
    """Whether one matrix serves as source embedding, target embedding and softmax weights (all;
    Section 3.4), as the last two (target), the first two (inputs), or each has its own (none)."""
    position_offset: int = Field(default=0, ge=0)
    """Number of the first position of sines and cosines."""
    embedding_norm: bool = False
    """Whether layer normalization is applied to the sums of embeddings and positions."""

    @property
    def has_joint_vocabulary(self) -> bool:
        """True if source and target share one vocabulary."""
        return self.target_vocab_size is None

    @property
    def target_size(self) -> int:
        """Size of the target vocabulary, shared or separate."""
        return self.target_vocab_size or self.vocab_size

    @property
    def decoder_layers(self) -> int:
        """Number of decoder layers, the encoder's or another."""
        return self.num_decoder_layers or self.num_layers

    @property
    def decoder_heads(self) -> int:
        """Number of attention heads in the decoder, the encoder's or another."""
        return self.decoder_num_heads or self.num_heads

    @property
    def decoder_inner_size(self) -> int:
        """Size of the inner layer in the decoder, the encoder's or another."""
        return self.decoder_d_ff or self.d_ff

    @model_validator(mode="after")
    def _check(self):
        problems = []
        for name in ("num_heads", "decoder_num_heads"):
            heads = getattr(self, name)
            if self.key_dim is None and heads and self.d_model % heads:
                problems.append(
                    f"d_model must be divisible by {name} unless key_dim is given, received "
                    f"d_model={self.d_model} and {name}={heads}"
                )
        if self.position != "learned" and self.d_model % 2:
            problems.append(
                f"sinusoidal positions need an even d_model, received {self.d_model}; "
                "choose an even one or position='learned'"
            )
        if self.position == "tensor2tensor" and self.d_model < 4:
            problems.append(
                f"position='tensor2tensor' needs a d_model of at least 4, received {self.d_model}"
            )
        if self.position == "learned" and self.position_offset:
            problems.append(
                f"position='learned' needs position_offset=0, received {self.position_offset}"
            )
        if self.share_embeddings in ("all", "inputs") and self.target_vocab_size is not None:
            problems.append(
                f"share_embeddings='{self.share_embeddings}' needs one vocabulary for both "
                f"languages, received target_vocab_size={self.target_vocab_size}; leave it out or "
                "choose share_embeddings='target' or 'none'"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self
