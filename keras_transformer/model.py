"""The Transformer: embeddings, encoder, decoder and logits (Section 3)."""

import dataclasses

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
from keras_transformer.presets import get_preset
from keras_transformer.training.model import steps_in_halves, train_step_in_halves


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(keras.Model):
    """The encoder-decoder model of "Attention Is All You Need", built on construction.

    Args:
        config: the sizes, a `TransformerConfig`.

    Call arguments:
        inputs: {"source": int [B, S], "target": int [B, T]}, padded with 0. The source ends in eos;
            the target is what precedes each label: bos and all tokens but the last.
        training: whether dropout applies.

    Returns:
        float32 logits [B, T, V] of each next token.

    >>> from keras import ops
    >>> model = Transformer.from_preset("tiny", vocab_size=100, num_layers=1)
    >>> ids = {"source": ops.array([[5, 6, 3]]), "target": ops.array([[2, 7]])}
    >>> tuple(model(ids).shape)
    (1, 2, 100)
    """

    def __init__(self, config: TransformerConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self._taught = None
        policy = self.dtype_policy

        def embedding(vocab_size, name):
            return TokenEmbedding(vocab_size, config.d_model, dtype=policy, name=name)

        def position(name):
            if config.position == "sinusoidal":
                return SinusoidalPositionEncoding(dtype=policy, name=name)
            return LearnedPositionEncoding(config.max_length, dtype=policy, name=name)

        self.source_embedding = embedding(config.vocab_size, "source_embedding")
        self.target_embedding = (
            self.source_embedding
            if config.share_embeddings == "all"
            else embedding(config.target_size, "target_embedding")
        )
        self.output_embedding = (
            embedding(config.target_size, "output_embedding")
            if config.share_embeddings == "none"
            else self.target_embedding
        )
        self.source_position = position("source_position")
        self.target_position = position("target_position")
        self.source_dropout = Dropout(config.dropout, dtype=policy)
        self.target_dropout = Dropout(config.dropout, dtype=policy)
        sizes = {
            name: getattr(config, name)
            for name in (
                "num_layers",
                "d_model",
                "d_ff",
                "num_heads",
                "key_dim",
                "value_dim",
                "dropout",
                "attention_dropout",
                "ffn_dropout",
                "norm",
            )
        }
        self.encoder = Encoder(**sizes, dtype=policy, name="encoder")
        self.decoder = Decoder(**sizes, dtype=policy, name="decoder")
        self.build()

    @classmethod
    def from_preset(cls, name: str, vocab_size: int, *, dtype=None, **overrides) -> "Transformer":
        """Build a model by its name: one of the paper's, or a smaller one.

        Args:
            name: a key of `keras_transformer.presets.PRESETS`: "tiny", "base", "big", a row of the
                paper's Table 3 such as "table3_c_num_layers_2", or "parsing_wsj".
            vocab_size: V, the subwords of the vocabulary that both languages share.
            dtype: a Keras dtype policy such as "mixed_bfloat16"; by default the global one.
            **overrides: other fields of `TransformerConfig`.

        Raises:
            ValueError: there is no such preset, or no such field.

        >>> Transformer.from_preset("tiny", vocab_size=100, num_heads=8).config.num_heads
        8
        """
        sizes = dataclasses.asdict(get_preset(name).model) | overrides | {"vocab_size": vocab_size}
        return cls(TransformerConfig(**sizes), dtype=dtype)

    def with_dtype(self, dtype) -> "Transformer":
        """Return a model of the same weights in another Keras dtype policy, such as "bfloat16".

        >>> model = Transformer.from_preset("tiny", vocab_size=100, num_layers=1)
        >>> model.with_dtype("bfloat16").encoder.weights[0].dtype
        'bfloat16'
        """
        model = type(self)(self.config, dtype=dtype)
        model.set_weights(self.get_weights())
        return model

    def build(self, input_shape=None):
        for embedding in (self.source_embedding, self.target_embedding, self.output_embedding):
            if not embedding.built:
                embedding.build()
        shape = (None, None, self.config.d_model)
        for layer in (self.source_position, self.target_position, self.encoder, self.decoder):
            layer.build(shape)

    def train_step(self, *args):  # The data; on JAX a state before it.
        # A subclass may have a step, a loss or metrics of its own.
        if type(self) is Transformer and steps_in_halves(self):
            return train_step_in_halves(self, *args)
        return super().train_step(*args)

    def learn_from(self, teachers):
        """Let `fit` learn of what other models predict, where the loss has `distillation`.

        The teachers, of whose probabilities the mean is taken, stay as they are. They are no part
        of the model, and are not saved with it.

        Args:
            teachers: models with the same vocabularies and any other sizes.

        Raises:
            ValueError: a teacher has another number of subwords, or there is none.

        >>> from keras_transformer.losses import LabelSmoothedCrossEntropy
        >>> model, teacher = (Transformer.from_preset("tiny", vocab_size=50) for _ in range(2))
        >>> model.learn_from([teacher])
        >>> model.compile("sgd", LabelSmoothedCrossEntropy(0.1, distillation=0.5))
        """
        teachers = tuple(teachers)
        own = self.config.vocab_size, self.config.target_size
        theirs = [(teacher.config.vocab_size, teacher.config.target_size) for teacher in teachers]
        if not teachers or any(sizes != own for sizes in theirs):
            raise ValueError(
                "One teacher or more must have the vocabularies of the model, which has "
                f"{own[0]} and {own[1]} subwords; received {len(theirs)} with {theirs}. Give "
                "models that were trained with the same vocabularies."
            )

        def predict(inputs):
            predictions = [ops.softmax(teacher(inputs, training=False)) for teacher in teachers]
            return ops.stop_gradient(sum(predictions) / len(predictions))

        self._taught = predict  # Keras does not look for layers in a function.
        self.train_function = None  # One that is traced already has the teachers before.

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if training and getattr(self.loss, "r_drop", 0):
            return self.loss(y, (y_pred, self(x, training=True)), sample_weight)
        if training and getattr(self.loss, "distillation", 0):
            if self._taught is None:
                raise ValueError(
                    f"A loss with distillation={self.loss.distillation} needs teachers, and the "
                    "model has none. Call learn_from(teachers) before fit."
                )
            return self.loss(y, (y_pred, self._taught(x)), sample_weight)
        return super().compute_loss(x, y, y_pred, sample_weight, training=training)

    def call(self, inputs, training=None):
        memory, memory_mask = self.encode(inputs["source"], training=training)
        return self.decode(inputs["target"], memory, memory_mask, training=training)[0]

    def encode(self, source, training=None, is_padded=True):
        """Return the encoder's output [B, S, D] and its mask [B, 1, S] for ids [B, S].

        With `is_padded=False`, for ids without padding, the mask is None.
        """
        mask = padding_mask(source) if is_padded else None
        x = self._embed_source(source, training)
        return self.encoder(x, attention_mask=mask, training=training), mask

    def _embed_source(self, source, training):
        x = self.source_position(self.source_embedding(source))
        return self.source_dropout(x, training=training)

    def decode(self, target, memory, memory_mask=None, training=None):
        """Return the logits of the token after each of the target's, and the attention weights.

        Args:
            target: int [B, T].
            memory: float [B, S, D], from `encode`.
            memory_mask: bool [B, 1, S], from `encode`.
            training: whether dropout applies.

        Returns:
            The logits, float32 [B, T, V], and for each layer the weights of self-attention
            [B, H, T, T] and of cross-attention [B, H, T, S].
        """
        x = self.target_position(self.target_embedding(target))
        x = self.target_dropout(x, training=training)
        x, weights = self.decoder.attend(x, memory, memory_mask, training)
        return self.output_embedding(x, reverse=True), weights

    def attend(self, inputs):
        """Return the weights of every attention in the model, without dropout (Figures 3 to 5).

        Args:
            inputs: as of `call`.

        Returns:
            "encoder": float32 [B, N, H, S, S], self-attention of the N encoder layers.
            "decoder": float32 [B, N, H, T, T], self-attention of the decoder's.
            "cross": float32 [B, N, H, T, S], the decoder's attention to the encoder's output.

        >>> from keras import ops
        >>> model = Transformer.from_preset("tiny", vocab_size=100, num_layers=3)
        >>> ids = {"source": ops.array([[5, 6, 3]]), "target": ops.array([[2, 7]])}
        >>> {name: tuple(weights.shape) for name, weights in model.attend(ids).items()}
        {'encoder': (1, 3, 4, 3, 3), 'decoder': (1, 3, 4, 2, 2), 'cross': (1, 3, 4, 2, 3)}
        """
        mask = padding_mask(inputs["source"])
        x = self._embed_source(inputs["source"], training=False)
        memory, encoder = self.encoder.attend(x, mask, training=False)
        _, layers = self.decode(inputs["target"], memory, mask, training=False)
        decoder, cross = zip(*layers, strict=True)
        weights = {"encoder": encoder, "decoder": decoder, "cross": cross}
        return {name: ops.stack(list(layers), axis=1) for name, layers in weights.items()}

    def get_config(self):
        return {**super().get_config(), "config": dataclasses.asdict(self.config)}

    @classmethod
    def from_config(cls, config):
        config = dict(config)
        return cls(TransformerConfig(**config.pop("config")), **config)
