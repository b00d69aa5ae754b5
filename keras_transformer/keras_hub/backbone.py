"""The Transformer as a KerasHub backbone: a functional model with KerasHub's names of inputs."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import keras_hub
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.model import Transformer


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerBackbone(keras_hub.models.Backbone):
    """The encoder and decoder of a `Transformer` as a `keras_hub.models.Backbone`.

    Args:
        vocab_size: V, the number of tokens in the vocabulary that both languages share, or of the
            source vocabulary.
        dtype: A Keras dtype policy such as `"mixed_bfloat16"`; the global one by default.
        name: The name of the model.
        trainable: Whether the weights are trainable.
        adaptation: The LoRA, int8 and frozen parts of the layers, as `get_config` returns them.
        **sizes: Other fields of `TransformerConfig`.

    Call arguments:
        inputs: A dictionary:
            - `encoder_token_ids`: int [B, S].
            - `encoder_padding_mask`: [B, S], 1 where there is a token and 0 where there is padding.
            - `decoder_token_ids`: int [B, T].
            - `decoder_padding_mask`: [B, T].

    Returns:
        A dictionary of `encoder_sequence_output`, float [B, S, D], and `decoder_sequence_output`,
        float [B, T, D].

    Attributes:
        transformer: The `Transformer` whose layers these are.

    Raises:
        ValueError: If a size is invalid.

    >>> backbone = TransformerBackbone(vocab_size=50, num_layers=1, d_model=8, d_ff=16, num_heads=2)
    >>> ids, mask = ops.array([[5, 6, 3]]), ops.array([[1, 1, 1]])
    >>> inputs = {"encoder_token_ids": ids, "encoder_padding_mask": mask}
    >>> inputs |= {"decoder_token_ids": ids[:, :2], "decoder_padding_mask": mask[:, :2]}
    >>> {name: tuple(output.shape) for name, output in backbone(inputs).items()}
    {'encoder_sequence_output': (1, 3, 8), 'decoder_sequence_output': (1, 2, 8)}
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        adaptation: Mapping[str, Any] | None = None,
        **sizes: Any,
    ):
        config = TransformerConfig(vocab_size=vocab_size, **sizes)
        transformer = Transformer(config, dtype=dtype, name="transformer")
        transformer.restore_adaptation(adaptation or {})
        inputs = {
            f"{side}_{kind}": keras.Input((None,), dtype="int32", name=f"{side}_{kind}")
            for side in ("encoder", "decoder")
            for kind in ("token_ids", "padding_mask")
        }
        source_mask, target_mask = (
            attention_mask(inputs[f"{side}_padding_mask"]) for side in ("encoder", "decoder")
        )
        memory = encode(transformer, inputs["encoder_token_ids"], source_mask)
        x = transformer.target_dropout(transformer.embed_target(inputs["decoder_token_ids"]))
        x = transformer.decoder(x, memory, memory_mask=source_mask, attention_mask=target_mask)
        # The output embedding may be no part of the graph, so the backbone tracks the whole model.
        self.transformer = transformer
        super().__init__(
            inputs=inputs,
            outputs={"encoder_sequence_output": memory, "decoder_sequence_output": x},
            dtype=dtype,
            name=name,
            trainable=trainable,
        )
        self.token_embedding = transformer.target_embedding

    @classmethod
    def from_transformer(cls, transformer: Transformer) -> "TransformerBackbone":
        """Return a backbone with a copy of the weights of a `Transformer`.

        Args:
            transformer: The model.

        Raises:
            ValueError: If a subclass overrides a method that computes logits.
        """
        if names := transformer.overridden_methods():
            raise ValueError(
                f"A backbone has the layers of a Transformer, without {', '.join(names)}, which "
                f"{type(transformer).__name__} overrides. Leave them as they are."
            )
        backbone = cls(**_sizes(transformer), dtype=transformer.dtype_policy)
        backbone.transformer.set_weights(transformer.get_weights())
        return backbone

    def enable_lora(self, rank: int, target_layer_names: Sequence[str] | None = None) -> None:
        """Freeze the backbone, and train low-rank matrices; see `Transformer.enable_lora`.

        Compile the task afterwards.

        Args:
            rank: The rank of the matrices.
            target_layer_names: Which kernels, the `targets` of `Transformer.enable_lora`; by
                default those of all attentions.
        """
        self.transformer.enable_lora(rank, targets=target_layer_names or ("attention",))

    def get_config(self) -> dict[str, Any]:
        # KerasHub's would give the dtypes of int8 layers, and rename the policy that they share.
        dtype = keras.dtype_policies.serialize(self.dtype_policy)
        return {"name": self.name, "dtype": dtype, **_sizes(self.transformer)}


def _sizes(transformer):
    """Return the arguments of a backbone for a `Transformer` of the same weights."""
    adaptation, trainable = transformer.get_config().get("adaptation"), transformer.trainable
    sizes = dataclasses.asdict(transformer.config)
    return {**sizes, "adaptation": adaptation, "trainable": trainable}


def attention_mask(padding_mask: Any) -> Any:
    """Return the mask of keys, bool [B, 1, S], of KerasHub's padding mask [B, S]."""
    return ops.expand_dims(ops.cast(padding_mask, "bool"), 1)


def encode(transformer: Transformer, ids: Any, mask: Any) -> Any:
    """Return the encoder's output [B, S, D] for ids [B, S] and a mask of keys, bool [B, 1, S]."""
    return transformer.encoder(transformer.source_dropout(transformer.embed_source(ids)), mask)
