"""From pairs of texts to the inputs and labels of `TransformerSeq2SeqLM`."""

from collections.abc import Mapping
from typing import Any

import keras
import keras_hub
import tensorflow as tf

from keras_transformer.keras_hub.backbone import TransformerBackbone
from keras_transformer.keras_hub.tokenizer import TransformerTokenizer

_LENGTH = 128


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """A `keras_hub.models.Seq2SeqLMPreprocessor` that packs text as a `Transformer` expects it.

    A source ends in eos, and has no bos. All sequences are padded to a fixed length, and longer
    ones are cut off.

    Args:
        tokenizer: The `TransformerTokenizer` of both languages, or of the target.
        source_tokenizer: The tokenizer of the source, if the languages have separate vocabularies.
        encoder_sequence_length: S, including eos.
        decoder_sequence_length: T, including bos.
        origin: License, attribution and languages of the model, as far as they are known.
        **kwargs: Other arguments of `keras_hub.models.Seq2SeqLMPreprocessor`.

    Call arguments:
        x: A dictionary of `encoder_text` and `decoder_text`, each a string, a list of strings, or a
            string tensor, [] or [B].
        y: Must be None: the labels are the decoder's next tokens.
        sample_weight: Must be None.
        encoder_sequence_length: S, by default the layer's.
        decoder_sequence_length, sequence_length: T, by default the layer's.

    Returns:
        The inputs of `TransformerBackbone`, the labels int32 [B, T], and their weights bool [B, T].

    >>> from keras_transformer.text import train_word_piece
    >>> tokenizer = TransformerTokenizer(train_word_piece(["a dog"], 266), kind="wordpiece")
    >>> preprocessor = TransformerSeq2SeqLMPreprocessor(tokenizer, decoder_sequence_length=4)
    >>> x, y, _ = preprocessor({"encoder_text": ["a dog"], "decoder_text": ["a"]})
    >>> tuple(x["encoder_token_ids"].shape), tuple(y.shape)
    ((1, 128), (1, 4))
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer: TransformerTokenizer,
        source_tokenizer: TransformerTokenizer | None = None,
        encoder_sequence_length: int = _LENGTH,
        decoder_sequence_length: int = _LENGTH,
        origin: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ):
        super().__init__(tokenizer, encoder_sequence_length, decoder_sequence_length, **kwargs)
        self.source_tokenizer = source_tokenizer
        self.origin = dict(origin or {})

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        self.encoder_packer = keras_hub.layers.StartEndPacker(
            end_value=self.tokenizer.end_token_id,
            pad_value=self.tokenizer.pad_token_id,
            sequence_length=self.encoder_sequence_length,
            return_padding_mask=True,
        )

    def call(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> Any:
        if y is not None or sample_weight is not None:
            raise ValueError(
                "The labels are the tokens of decoder_text, but y or sample_weight is given. Pass "
                "only a dictionary of encoder_text and decoder_text."
            )
        length = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        ids, mask = self.decoder_packer(
            self.tokenizer(x["decoder_text"]), sequence_length=length + 1
        )
        inputs = {
            **self._pack_source(x["encoder_text"], encoder_sequence_length),
            "decoder_token_ids": ids[..., :-1],
            "decoder_padding_mask": mask[..., :-1],
        }
        return keras.utils.pack_x_y_sample_weight(inputs, ids[..., 1:], mask[..., 1:])

    def generate_preprocess(
        self,
        x: Any,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> dict[str, Any]:
        """Return the inputs of `TransformerSeq2SeqLM.generate_step`.

        Args:
            x: Texts, or a dictionary of `encoder_text` and `decoder_text`, what the translation
                starts with.
            encoder_sequence_length: S, by default the layer's.
            decoder_sequence_length, sequence_length: T, by default the layer's.

        Returns:
            The inputs of `TransformerBackbone`, without eos in `decoder_token_ids`.
        """
        if not self.built:
            self.build(None)
        if not isinstance(x, dict):
            texts = tf.convert_to_tensor(x, tf.string)
            x = {"encoder_text": texts, "decoder_text": tf.zeros_like(texts)}
        ids, mask = self.decoder_packer(
            self.tokenizer(x["decoder_text"]),
            sequence_length=(
                decoder_sequence_length or sequence_length or self.decoder_sequence_length
            ),
            add_end_value=False,
        )
        return {
            **self._pack_source(x["encoder_text"], encoder_sequence_length),
            "decoder_token_ids": ids,
            "decoder_padding_mask": mask,
        }

    def generate_postprocess(self, x: dict[str, Any]) -> Any:
        """Return the texts of what `TransformerSeq2SeqLM.generate_step` returns.

        Args:
            x: A dictionary of `decoder_token_ids` and `decoder_padding_mask`, [T] or [B, T].

        Returns:
            A string or a list of strings.
        """
        ids, mask = x["decoder_token_ids"], x["decoder_padding_mask"]
        if tf.executing_eagerly():  # Tensors of another backend, maybe on its GPU.
            ids, mask = map(keras.ops.convert_to_numpy, (ids, mask))
        # The tokenizer drops pad, bos and eos.
        return self.tokenizer.detokenize(tf.where(mask, ids, self.tokenizer.pad_token_id))

    def _pack_source(self, text, length):
        tokenizer = self.source_tokenizer or self.tokenizer
        ids, mask = self.encoder_packer(
            tokenizer(text), sequence_length=length or self.encoder_sequence_length
        )
        return {"encoder_token_ids": ids, "encoder_padding_mask": mask}

    def get_config(self) -> dict[str, Any]:
        source = self.source_tokenizer
        return {
            **super().get_config(),
            "source_tokenizer": source and keras.saving.serialize_keras_object(source),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "origin": self.origin,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "TransformerSeq2SeqLMPreprocessor":
        source = config.get("source_tokenizer")
        if isinstance(source, dict):
            config = {**config, "source_tokenizer": keras.saving.deserialize_keras_object(source)}
        return super().from_config(config)
