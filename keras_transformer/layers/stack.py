"""What the encoder and the decoder share: their sub-layers, and how layers are stacked."""

import inspect
from typing import Any, ClassVar

import keras

from keras_transformer.layers.adaptation import Adaptable
from keras_transformer.layers.attention import MultiHeadAttention
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.initial import part_seeds, serialized_initializer
from keras_transformer.layers.residual import NORM_EPSILON, LayerNorm, Residual


class Sized(Adaptable):
    """Name the class where an argument of it is missing, and trace the shapes of outputs."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        try:  # Python would name the class that defines the constructor.
            inspect.signature(cls.__init__).bind(cls, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}: {error}.") from None
        return super().__new__(cls, *args, **kwargs)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        # Traced, because `return_attention_scores` adds outputs.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)


class SubLayers(Sized):
    """Hold attentions and a feed-forward network, each in a residual connection (Section 3.1).

    This is the base of `EncoderLayer` and `DecoderLayer`, which add the order of computation.
    """

    kernel_parts: ClassVar[tuple[str, ...]]
    """Attributes that hold the attentions and the feed-forward network, in order. `NAME_residual`
    is the residual connection around `NAME`."""
    feed_forward: FeedForward
    feed_forward_residual: Residual

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
        activation: Any = "relu",
        use_bias: bool = False,
        layer_norm_epsilon: float = NORM_EPSILON,
        kernel_initializer: Any = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        key_dim = _head_size(d_model, num_heads) if key_dim is None else key_dim
        self.d_model = d_model
        self.d_ff = d_ff
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.ffn_dropout = ffn_dropout
        self.norm = norm
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = kernel_initializer
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: d_model}, name="inputs")
        self._seeds = part_seeds(seed)
        for name in self.kernel_parts[:-1]:
            self._add(name, self._attention(name))
        feed_forward = FeedForward(
            d_model,
            d_ff,
            ffn_dropout,
            activation=activation,
            kernel_initializer=kernel_initializer,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self._add("feed_forward", feed_forward)
        self._share_trainable()

    def _attention(self, name):
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            kernel_initializer=self.kernel_initializer,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name=name,
        )

    def _add(self, name, layer):
        residual = Residual(
            self.dropout,
            self.norm,
            self.layer_norm_epsilon,
            next(self._seeds),
            dtype=self.dtype_policy,
            name=f"{name}_residual",
        )
        setattr(self, name, layer)
        setattr(self, residual.name, residual)

    def _build(self, inputs_shape, memory_shape=None):
        for name in self.kernel_parts:
            is_cross = name == "cross_attention"
            if is_cross and memory_shape is None:
                # Built without weights, because Keras quantizes only models that are built.
                residual = self.cross_attention_residual
                self.cross_attention.weights_dropout.built = True
                residual.output_dropout.built = residual.layer_norm.built = True
                continue
            shapes = (inputs_shape, memory_shape) if is_cross else (inputs_shape,)
            getattr(self, name).build(*shapes)
            getattr(self, f"{name}_residual").build(inputs_shape)

    def get_config(self) -> dict[str, Any]:
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
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "kernel_initializer": serialized_initializer(self.kernel_initializer),
            "seed": self.seed,
        }


class Stack(Sized):
    """Run layers one after the other (Section 3.1); the base of `Encoder` and `Decoder`."""

    kernel_parts = ("layers",)
    layer_class: ClassVar[type[SubLayers]]

    def __init__(
        self,
        num_layers: int,
        d_model: int,
        d_ff: int,
        num_heads: int,
        *,
        seed: int | None = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        **options: Any,
    ):
        super().__init__(name=name, dtype=dtype, trainable=trainable)
        if num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, received {num_layers}.")
        self.layer_options = {"d_model": d_model, "d_ff": d_ff, "num_heads": num_heads, **options}
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: d_model}, name="inputs")
        seeds = part_seeds(seed)
        self.layers = [
            self.layer_class(
                **self.layer_options,
                seed=next(seeds),
                dtype=self.dtype_policy,
                name=f"layer_{i}",
            )
            for i in range(num_layers)
        ]
        # Nothing normalizes the last residual sum of pre-norm layers.
        self.final_norm = None
        if (last := self.layers[-1]).norm == "pre":
            self.final_norm = LayerNorm(
                last.layer_norm_epsilon, dtype=self.dtype_policy, name="final_norm"
            )
        self._share_trainable()

    def _build(self, *shapes):
        for layer in self.layers:
            layer.build(*shapes)
        if self.final_norm is not None:
            self.final_norm.build(shapes[0])

    def get_config(self) -> dict[str, Any]:
        config = self.layers[0].get_config()
        options = {name: config[name] for name in self.layer_options}
        return {
            **super().get_config(),
            "num_layers": len(self.layers),
            **options,
            "seed": self.seed,
        }


def _head_size(d_model: int, num_heads: int) -> int:
    """Return d_model / num_heads (Section 3.2.2)."""
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, received {num_heads}.")
    if d_model % num_heads:
        raise ValueError(
            "d_model must be divisible by num_heads unless key_dim is given, "
            f"received d_model={d_model} and num_heads={num_heads}."
        )
    return d_model // num_heads
