"""The Transformer: embeddings, encoder, decoder and logits (Section 3)."""

import keras_transformer.utils.quiet_start  # isort: skip  # noqa: F401

import contextlib
import dataclasses
import functools
import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.layers import (
    Decoder,
    Dropout,
    Encoder,
    LearnedPositionEncoding,
    SinusoidalPositionEncoding,
    TokenEmbedding,
    padding_mask,
)
from keras_transformer.layers.adaptation import AdaptableModel
from keras_transformer.layers.alternatives import get_activation
from keras_transformer.layers.residual import LayerNorm
from keras_transformer.losses import (
    LabelSmoothedCrossEntropy,
    check_range,
    evaluate_part,
    has_part,
    train_part,
)
from keras_transformer.presets import get_preset
from keras_transformer.utils.backends import check_dense
from keras_transformer.utils.compiled_steps import checked_first, compiled_or_plain

__all__ = ["Transformer"]

_ORDERS = {"sinusoidal": "interleaved"}
"""The order of sines and cosines of a `TransformerConfig.position`, if it has another name."""


def _documented_by(method: Any) -> Any:
    """Give a method the signature and the docstring of another one."""
    return functools.wraps(method)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(AdaptableModel, keras.Model):
    """Build the encoder-decoder model of "Attention Is All You Need" (Section 3, Figure 1).

    Args:
        config: The sizes of the model.

    Call arguments:
        inputs: A dict of `"source"`, int [B, S], and `"target"`, int [B, T], padded with 0. The
            source ends in eos. The target is what precedes each label: bos, then all tokens but
            the last.
        training: Whether dropout applies.

    Returns:
        float32 [B, T, V], the logits of each next token.

    Reference: [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762).

    >>> from keras import ops
    >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=1)
    >>> ids = {"source": ops.array([[5, 6, 3]]), "target": ops.array([[2, 7]])}
    >>> tuple(model(ids).shape)
    (1, 2, 100)
    """

    kernel_parts = (
        *("source_embedding", "target_embedding", "output_embedding"),
        *("encoder", "decoder"),
    )

    def __init__(self, config: TransformerConfig, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(config, TransformerConfig):
            raise ValueError(
                f"config must be a TransformerConfig, received {type(config).__name__}. Give "
                "TransformerConfig(vocab_size=...), or use Transformer.from_size."
            )
        self.config = config
        policy = self.dtype_policy

        # Embeddings, tied as in Section 3.4.
        self.source_embedding = self._embedding(config.vocab_size, "source_embedding")
        self.target_embedding = (
            self.source_embedding
            if config.share_embeddings in ("all", "inputs")
            else self._embedding(config.target_size, "target_embedding")
        )
        self.output_embedding = (
            self.target_embedding
            if config.share_embeddings in ("all", "target")
            else self._embedding(config.target_size, "output_embedding")
        )
        self.output_bias = None

        # Positions (Section 3.5) and dropout on the sums (Section 5.4).
        self.source_position = self._position("source_position")
        self.target_position = self._position("target_position")
        self.source_norm = self._embedding_norm("source_norm")
        self.target_norm = self._embedding_norm("target_norm")
        self.source_dropout = Dropout(config.dropout, dtype=policy, name="source_dropout")
        self.target_dropout = Dropout(config.dropout, dtype=policy, name="target_dropout")

        # The stacks (Section 3.1).
        self.encoder = Encoder(
            config.num_layers,
            config.d_model,
            config.d_ff,
            config.num_heads,
            **self._layer_options(),
            name="encoder",
        )
        self.decoder = Decoder(
            config.decoder_layers,
            config.d_model,
            config.decoder_inner_size,
            config.decoder_heads,
            **self._layer_options(),
            name="decoder",
        )
        self._build_layers()
        self._share_trainable()
        # A subclass that overrides `call` may add layers, which its first call builds.
        self.built = (type(self).build, type(self).call) == (Transformer.build, Transformer.call)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not isinstance(inputs, Mapping) or not {"source", "target"} <= inputs.keys():
            received = list(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
            raise ValueError(
                "The inputs must be a dict of 'source' and 'target', the ids of both sides, "
                f"received {received}."
            )
        for name in ("source", "target"):
            check_dense(inputs[name], f"The {name}")
        shapes = [tuple(inputs[name].shape) for name in ("source", "target")]
        if any(len(shape) != 2 for shape in shapes):
            raise ValueError(
                "The source must be ids [B, S] and the target ids [B, T], received shapes "
                f"{shapes[0]} and {shapes[1]}. Give one sentence as a batch of 1."
            )
        if training and self.quantization_mode is not None:
            raise ValueError(
                f"An int8 model cannot be trained; {self.name!r} is quantized. Train the float "
                "model, and quantize a copy of it."
            )
        memory, memory_mask = self.encode(inputs["source"], training=training)
        return self.decode(inputs["target"], memory, memory_mask, training=training)[0]

    def encode(
        self,
        source: Any,
        training: bool | None = None,
        return_attention_scores: bool = False,
    ) -> tuple[Any, ...]:
        """Return the encoder's output, its mask, and its attention weights if asked for.

        Args:
            source: int [B, S].
            training: Whether dropout applies.
            return_attention_scores: Whether to return the attention weights too.

        Returns:
            float [B, S, D] and bool [B, 1, S]. With `return_attention_scores`, also the weights of
            each layer, [B, H, S, S].
        """
        mask = padding_mask(source)
        x = self.source_dropout(self.embed_source(source), training=training)
        x, weights = self.encoder(x, mask, return_attention_scores=True, training=training)
        return (x, mask, weights) if return_attention_scores else (x, mask)

    def decode(
        self, target: Any, memory: Any, memory_mask: Any = None, training: bool | None = None
    ) -> tuple[Any, list[Any]]:
        """Return the logits of the token after each of the target's, and the attention weights.

        Args:
            target: int [B, T].
            memory: float [B, S, D], from `encode`.
            memory_mask: bool [B, 1, S], from `encode`.
            training: Whether dropout applies.

        Returns:
            The logits, float32 [B, T, V], and for each layer the weights of self-attention
            [B, H, T, T] and of cross-attention [B, H, T, S].
        """
        x = self.target_dropout(self.embed_target(target), training=training)
        x, weights = self.decoder(
            x, memory, memory_mask=memory_mask, return_attention_scores=True, training=training
        )
        return self.project_to_logits(x), weights

    def project_to_logits(self, x: Any) -> Any:
        """Return the logits, float32 [..., V], for what the decoder returns, float [..., D]."""
        logits = self.output_embedding(x, reverse=True)
        return logits if self.output_bias is None else logits + self.output_bias

    def embed_source(self, source: Any) -> Any:
        """Return what the encoder reads, before dropout, for ids [B, S]: float [B, S, D]."""
        x = self.source_position(self.source_embedding(source))
        return x if self.source_norm is None else self.source_norm(x)

    def embed_target(self, target: Any) -> Any:
        """Return what the decoder reads, before dropout, for ids [B, T]: float [B, T, D]."""
        x = self.target_position(self.target_embedding(target))
        return x if self.target_norm is None else self.target_norm(x)

    def _layer_options(self):
        config = self.config
        return {
            "key_dim": config.key_dim,
            "value_dim": config.value_dim,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
            "ffn_dropout": config.ffn_dropout,
            "norm": config.norm,
            "activation": get_activation(config.activation),
            "use_bias": config.use_bias,
            "layer_norm_epsilon": config.layer_norm_epsilon,
            "dtype": self.dtype_policy,
        }

    def _embedding(self, vocab_size, name):
        return TokenEmbedding(
            vocab_size,
            self.config.d_model,
            scale=None if self.config.scale_embeddings else 1.0,
            dtype=self.dtype_policy,
            name=name,
        )

    def _position(self, name):
        position, policy = self.config.position, self.dtype_policy
        if position == "learned":
            return LearnedPositionEncoding(self.config.max_length, dtype=policy, name=name)
        order, offset = _ORDERS.get(position, position), self.config.position_offset
        return SinusoidalPositionEncoding(order, offset, dtype=policy, name=name)

    def _embedding_norm(self, name):
        if not self.config.embedding_norm:
            return None
        return LayerNorm(self.config.layer_norm_epsilon, dtype=self.dtype_policy, name=name)

    @classmethod
    def from_size(
        cls, name: str, vocab_size: int, *, dtype: Any = None, **overrides: Any
    ) -> "Transformer":
        """Build a model with random weights from the name of its sizes.

        Args:
            name: A key of `keras_transformer.presets.PRESETS`: `"tiny"`, `"base"`, `"big"`, a row
                of the paper's Table 3 such as `"table3_c_num_layers_2"`, or `"parsing_wsj"`.
            vocab_size: V, the number of tokens in the vocabulary that both languages share.
            dtype: A Keras dtype policy such as `"mixed_bfloat16"`; the global one by default.
            **overrides: Other fields of `TransformerConfig`.

        Raises:
            ValueError: If there is no such preset or field.

        >>> Transformer.from_size("tiny", vocab_size=100, num_heads=8).config.num_heads
        8
        """
        sizes = dataclasses.asdict(get_preset(name).model) | overrides | {"vocab_size": vocab_size}
        return cls(TransformerConfig(**sizes), dtype=dtype)

    @classmethod
    def from_preset(cls, *args: Any, **kwargs: Any) -> "Transformer":
        """Build a model as `from_size` does; the deprecated name of that method."""
        warnings.warn(
            "Transformer.from_preset is now Transformer.from_size: it has random weights, which "
            "Keras's from_preset has not. Use from_size.",
            FutureWarning,
            stacklevel=2,
        )
        return cls.from_size(*args, **kwargs)

    def with_dtype(self, dtype: Any) -> "Transformer":
        """Return a model with the same weights in another Keras dtype policy.

        Args:
            dtype: A Keras dtype policy such as `"bfloat16"`.

        >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=1)
        >>> model.with_dtype("bfloat16").encoder.weights[0].dtype
        'bfloat16'
        """
        return self._copy(type(self), dtype=dtype)

    def _copy(self, model_class, **changes):
        """Return another model with the same weights, LoRA and int8."""
        model = model_class.from_config({**Transformer.get_config(self), **changes})
        model.set_weights(self.get_weights())
        return model

    def without_lora(self) -> "Transformer":
        """Return a model with merged kernels and the same outputs: itself if it has no LoRA.

        Raises:
            ValueError: If a subclass overrides a method that computes logits.
        """
        if not self.has_lora:
            return self
        if names := self.overridden_methods():
            raise ValueError(
                f"The class of {self.name!r} overrides {', '.join(names)}, so no merged copy can "
                "be made. Call merge_lora() first."
            )
        model = self._copy(Transformer)
        model.merge_lora()
        return model

    def overridden_methods(self) -> list[str]:
        """Return the names of the methods from ids to logits that a subclass overrides."""
        names = ["call", "encode", "decode", "embed_source", "embed_target", "project_to_logits"]
        return [x for x in names if getattr(type(self), x) is not getattr(Transformer, x)]

    def build(self, input_shape: Any = None) -> None:
        """Build what the `call` of a subclass adds; the constructor has built everything else."""
        if input_shape is not None and type(self).build is Transformer.build:
            ids = {n: keras.KerasTensor(shape, "int32") for n, shape in input_shape.items()}
            keras.Operation.compute_output_spec(self, ids)

    def _build_layers(self):
        for embedding in (self.source_embedding, self.target_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        shape = (None, None, self.config.d_model)
        for side in ("source", "target"):
            getattr(self, f"{side}_position").build(shape)
            getattr(self, f"{side}_dropout").build(shape)
            if (norm := getattr(self, f"{side}_norm")) is not None:
                norm.build(shape)
        self.encoder.build(shape)
        self.decoder.build(shape, shape)
        if self.config.use_output_bias:
            self.output_bias = self.add_weight(
                shape=(self.config.target_size,),
                initializer="zeros",
                name="output_bias",
                autocast=False,
            )

    def make_train_function(self, force: bool = False) -> Any:
        """Return the function that makes a training step; `fit` and `train_on_batch` call this.

        Args:
            force: Whether to replace a function that is there.

        Raises:
            ValueError: If the optimizer accumulates gradients of a `LabelSmoothedCrossEntropy`.
        """
        self._check_accumulation()
        # TensorFlow would trace a step that creates variables a second time.
        if self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        if self.train_function is not None and not force:
            return self.train_function
        if self._is_compiled_by_xla() and self.steps_per_execution == 1:
            plain = self._plain_steps()
            super().make_train_function(force=True)
            self.train_function = compiled_or_plain(self.train_function, plain)
        else:
            super().make_train_function(force=True)
            self.train_function = self._with_checked_labels(self.train_function)
        return self.train_function

    def _check_accumulation(self):
        """Raise a ValueError if the optimizer would average means over different numbers."""
        # With float16, Keras puts the optimizer into one that scales the loss.
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        steps = getattr(optimizer, "gradient_accumulation_steps", None)
        if steps and isinstance(self.loss, LabelSmoothedCrossEntropy):
            raise ValueError(
                f"gradient_accumulation_steps={steps} would average means over different numbers "
                "of tokens, which is not the update of the whole batch. Leave it out, and give the "
                "whole batch to keras_transformer.training.TrainingTransformer(config, "
                f"accumulation={steps}), whose parts count tokens."
            )

    def _is_compiled_by_xla(self):
        """Return whether XLA of TensorFlow compiles training steps."""
        return keras.backend.backend() == "tensorflow" and self.jit_compile

    def _plain_steps(self):
        """Make a new `train_function` without XLA, and return it."""
        with self._without_xla():
            super().make_train_function(force=True)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Any:
        """Return the function that evaluates a batch; `evaluate` and `test_on_batch` call this.

        With TensorFlow, XLA compiles no evaluation and no prediction, whose batches may have any
        shape.

        Args:
            force: Whether to replace a function that is there.
        """
        if self.test_function is None or force:
            with self._without_xla():
                super().make_test_function(force=True)
            self.test_function = self._with_checked_labels(self.test_function)
        return self.test_function

    def make_predict_function(self, force: bool = False) -> Any:
        """Return the function that `predict` and `predict_on_batch` call; see Keras.

        Args:
            force: Whether to replace a function that is there.
        """
        with self._without_xla():
            return super().make_predict_function(force)

    @contextlib.contextmanager
    def _without_xla(self):
        """Let functions that are made in the block be compiled by XLA only with JAX."""
        jit_compile = self.jit_compile
        if keras.backend.backend() == "tensorflow":
            self.jit_compile = False
        try:
            yield
        finally:
            self.jit_compile = jit_compile

    def _with_checked_labels(self, function):
        """Return a function that checks labels first, on JAX, where steps can't raise."""
        checks = isinstance(self.loss, LabelSmoothedCrossEntropy)
        if keras.backend.backend() != "jax" or not checks:
            return function
        return checked_first(
            self, function, lambda labels: check_range(labels, self.config.target_size)
        )

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the loss of a batch; see `keras.Model.compute_loss`.

        Raises:
            ValueError: If there are no labels for a `LabelSmoothedCrossEntropy`.
        """
        if y is None and isinstance(self.loss, LabelSmoothedCrossEntropy):
            raise ValueError(
                "Training needs labels, the ids [B, T] of the tokens that follow the target's, "
                "received none. Call fit(inputs, labels)."
            )
        return super().compute_loss(x, y, y_pred, sample_weight, training=training)

    @_documented_by(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> Any:
        self._check_class_weight("fit", args, kwargs)
        return super().fit(*args, **kwargs)

    @_documented_by(keras.Model.train_on_batch)
    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        self._check_class_weight("train_on_batch", args, kwargs)
        return super().train_on_batch(*args, **kwargs)

    def _check_class_weight(self, name, args, kwargs):
        """Raise a ValueError if the arguments of `fit` or `train_on_batch` weight classes."""
        given = inspect.signature(getattr(keras.Model, name)).bind(self, *args, **kwargs).arguments
        if given.get("class_weight") is not None:
            raise ValueError(
                "class_weight must be None: Keras takes labels [B, T] for one-hot labels of B "
                "examples. Give each token's weight as sample_weight [B, T], such as weights[y] "
                "with weights [V]."
            )

    def train_step(self, *args: Any) -> Any:  # On JAX, a state comes before the data.
        return train_part(self, *args) if has_part(self) else super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        return evaluate_part(self, *args) if has_part(self) else super().test_step(*args)

    def attention_weights(self, inputs: Any) -> dict[str, Any]:
        """Return the weights of every attention in the model, without dropout (Figures 3 to 5).

        Args:
            inputs: The call argument.

        Returns:
            A dict of `"encoder"`, float32 [B, layers, H, S, S], `"decoder"`,
            [B, layers, H, T, T], and `"cross"`, [B, layers, H, T, S].

        >>> from keras import ops
        >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=3)
        >>> ids = {"source": ops.array([[5, 6, 3]]), "target": ops.array([[2, 7]])}
        >>> {name: tuple(x.shape) for name, x in model.attention_weights(ids).items()}
        {'encoder': (1, 3, 4, 3, 3), 'decoder': (1, 3, 4, 2, 2), 'cross': (1, 3, 4, 2, 3)}
        """
        source = inputs["source"]
        memory, mask, encoder = self.encode(source, training=False, return_attention_scores=True)
        _, layers = self.decode(inputs["target"], memory, mask, training=False)
        decoder, cross = zip(*layers, strict=True)
        weights = {"encoder": encoder, "decoder": decoder, "cross": cross}
        return {name: ops.stack(list(layers), axis=1) for name, layers in weights.items()}

    def compute_output_shape(self, input_shape: Any) -> Any:
        return (*input_shape["target"], self.config.target_size)

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Export logits for ids; see `keras.Model.export`.

        To export translation from text to text, use
        `keras_transformer.export.export_saved_model`.

        Args:
            filepath: Where to write it.
            format: "tf_saved_model", "onnx", "litert" or another format of Keras.
            verbose: Whether to print a message.
            input_signature: By default `source` and `target`, int32 of any shape [B, S] and [B, T].
            **kwargs: Options of the format.
        """
        if input_signature is None:
            names = ("source", "target")
            specs = {n: keras.InputSpec(shape=(None, None), dtype="int32", name=n) for n in names}
            input_signature = [specs]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": dataclasses.asdict(self.config)}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Transformer":
        config = dict(config)
        adaptation = config.pop("adaptation", {})
        model = cls(TransformerConfig(**config.pop("config")), **config)
        model.restore_adaptation(adaptation)
        return model
