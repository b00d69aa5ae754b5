"""The encoder and its layer (Section 3.1)."""

import keras

from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.residual import Residual, final_norm
from keras_transformer.layers.sizes import head_sizes


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderLayer(keras.layers.Layer):
    """Self-attention and a feed-forward network, each in a residual connection (Section 3.1).

    Args:
        d_model: D, the width of inputs and outputs.
        d_ff: the width inside the feed-forward network.
        num_heads: H.
        key_dim: the size of a head's queries and keys; D / H by default.
        value_dim: the size of a head's values; `key_dim` by default.
        dropout: the rate on each sub-layer's output.
        attention_dropout: the rate on the attention weights.
        ffn_dropout: the rate on the activations inside the feed-forward network.
        norm: "post", layer normalisation after each residual sum as in the paper, or "pre".

    Call arguments:
        inputs: float [B, S, D].
        attention_mask: bool [B, 1, S] or [B, S, S], True where a position may attend to another.
        training: whether dropout applies.

    Returns:
        float [B, S, D].

    >>> from keras import ops
    >>> layer = EncoderLayer(d_model=8, d_ff=32, num_heads=2)
    >>> tuple(layer(ops.ones((3, 5, 8))).shape)
    (3, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        ffn_dropout: float = 0.0,
        norm: str = "post",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_model = d_model
        self.d_ff = d_ff
        self.num_heads = num_heads
        self.key_dim, self.value_dim = head_sizes(d_model, num_heads, key_dim, value_dim)
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.ffn_dropout = ffn_dropout
        self.norm = norm
        policy = self.dtype_policy
        self.self_attention = MultiHeadAttention(
            num_heads,
            self.key_dim,
            self.value_dim,
            dropout=attention_dropout,
            use_bias=False,
            dtype=policy,
            name="self_attention",
        )
        self.self_attention_residual = Residual(
            dropout, norm, dtype=policy, name="self_attention_residual"
        )
        self.feed_forward = FeedForward(
            d_model, d_ff, ffn_dropout, dtype=policy, name="feed_forward"
        )
        self.feed_forward_residual = Residual(
            dropout, norm, dtype=policy, name="feed_forward_residual"
        )

    def build(self, input_shape):
        self.self_attention.build(input_shape)
        self.self_attention_residual.build(input_shape)
        self.feed_forward.build(input_shape)
        self.feed_forward_residual.build(input_shape)

    def call(self, inputs, attention_mask=None, training=None):
        return self.attend(inputs, attention_mask, training)[0]

    def attend(self, inputs, attention_mask=None, training=None):
        """Return what `call` returns, and the attention weights [B, H, S, S]."""
        heads = self.self_attention.project_self(self.self_attention_residual.prepare(inputs))
        outputs, weights = self.self_attention.attend(
            *heads, attention_mask=attention_mask, training=training
        )
        x = self.self_attention_residual(inputs, outputs, training=training)
        outputs = self.feed_forward(self.feed_forward_residual.prepare(x), training=training)
        return self.feed_forward_residual(x, outputs, training=training), weights

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "d_model": self.d_model,
            "d_ff": self.d_ff,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "ffn_dropout": self.ffn_dropout,
            "norm": self.norm,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class Encoder(keras.layers.Layer):
    """A stack of encoder layers (Section 3.1).

    Args:
        num_layers: N.
        d_model: D.
        d_ff: the width inside the feed-forward networks.
        num_heads: H.
        **options: the other arguments of `EncoderLayer`. With norm="pre" the stack ends in a layer
            normalisation, as the last residual sum has none.

    Call arguments:
        inputs: float [B, S, D], embeddings with positions.
        attention_mask: bool [B, 1, S] or [B, S, S], True where a position may attend to another.
        training: whether dropout applies.

    Returns:
        float [B, S, D].

    >>> from keras import ops
    >>> encoder = Encoder(num_layers=2, d_model=8, d_ff=32, num_heads=2)
    >>> tuple(encoder(ops.ones((3, 5, 8))).shape)
    (3, 5, 8)
    """

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        d_ff: int,
        num_heads: int,
        *,
        name=None,
        dtype=None,
        trainable=True,
        **options,
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, received {num_layers}.")
        self.sizes = {"d_model": d_model, "d_ff": d_ff, "num_heads": num_heads, **options}
        self.layers = [
            EncoderLayer(**self.sizes, dtype=self.dtype_policy, name=f"layer_{i}")
            for i in range(num_layers)
        ]
        self.final_norm = final_norm(self.layers, self.dtype_policy)

    def build(self, input_shape):
        for layer in self.layers:
            layer.build(input_shape)
        if self.final_norm is not None:
            self.final_norm.build(input_shape)

    def call(self, inputs, attention_mask=None, training=None):
        return self.attend(inputs, attention_mask, training)[0]

    def attend(self, inputs, attention_mask=None, training=None):
        """Return what `call` returns, and each layer's attention weights [B, H, S, S]."""
        x, weights = inputs, []
        for layer in self.layers:
            x, layer_weights = layer.attend(x, attention_mask, training)
            weights.append(layer_weights)
        return (x if self.final_norm is None else self.final_norm(x)), weights

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "num_layers": len(self.layers), **self.sizes}
