"""What a trained model attends to in a sentence."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import BOS_ID
from keras_transformer.translation.translator import Translator


class SentenceAttention(NamedTuple):
    """The attention weights of a sentence and its translation, with the subwords that they join."""

    source: list[str]
    """The S subwords of the sentence, eos included."""
    read: list[str]
    """What the decoder reads, T subwords: bos, and all that it writes but the last."""
    written: list[str]
    """The T subwords of the translation, eos included, each written after the one read."""
    encoder: np.ndarray
    """Self-attention of `source`, float32 [layers, H, S, S]."""
    decoder: np.ndarray
    """Self-attention of `read`, float32 [layers, H, T, T]."""
    cross: np.ndarray
    """Attention of `written` to `source`, float32 [layers, H, T, S]."""


def sentence_attention(translator: Translator, sentence: str) -> SentenceAttention:
    """Translate a sentence, and return what each head of each layer attended to (Figures 3 to 5).

    Args:
        translator: of a trained model.
        sentence: text.

    Raises:
        ValueError: there is no subword in the sentence.
    """
    source, lengths = translator.encode_text(tf.constant([sentence]))
    if lengths[0] == 1:
        raise ValueError(
            f"There is no word to attend to in {sentence!r}. Give a sentence with at least one."
        )
    found = translator.search(source, lengths)
    written = found.ids[:, 0, : found.lengths[0, 0]]
    read = tf.pad(written[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)
    weights = translator.model.attend({"source": source, "target": read})
    return SentenceAttention(
        translator.tokenizer.id_to_piece(source[0].numpy()),
        translator.target_tokenizer.id_to_piece(read[0].numpy()),
        translator.target_tokenizer.id_to_piece(written[0].numpy()),
        **{name: array[0].numpy() for name, array in weights.items()},
    )
