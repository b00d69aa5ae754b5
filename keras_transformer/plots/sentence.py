"""The attention weights of a trained model for a sentence."""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import EOS_ID
from keras_transformer.translation.teacher_forcing import decoder_inputs
from keras_transformer.translation.translator import Translator


class SentenceAttention(NamedTuple):
    """Attention weights of a sentence and its translation, with their tokens."""

    source: list[str]
    """The S tokens of the sentence, eos included."""
    read: list[str]
    """The T input tokens of the decoder: bos, and the translation without its last token."""
    written: list[str]
    """The T tokens of the translation, eos included. Token i is predicted from `read[: i + 1]`."""
    encoder: np.ndarray
    """Self-attention of `source`, float32 [layers, H, S, S]."""
    decoder: np.ndarray
    """Self-attention of `read`, float32 [layers, H, T, T]."""
    cross: np.ndarray
    """Attention of `written` to `source`, float32 [layers, H, T, S]."""


def sentence_attention(
    translator: Translator, sentence: str, translation: str | None = None
) -> SentenceAttention:
    """Return the attention weights of all heads for a sentence and its translation (Figs. 3-5).

    Args:
        translator: Translator with a trained model.
        sentence: The sentence.
        translation: Its translation; by default the one that the translator finds.

    Returns:
        The tokens and weights, as `SentenceAttention`.

    Raises:
        ValueError: If the sentence is empty.

    Example:

    ```python
    found = sentence_attention(translator, "A dog runs.")
    figure = attention_grid(found.cross, found.source, found.written)
    ```
    """
    text = tf.constant([sentence])
    source, lengths = translator.encode_text(text)
    if lengths[0] == 1:
        raise ValueError(
            f"sentence must have at least one word to attend to, received {sentence!r}. Give some "
            "text."
        )
    if translation is None:
        num_words = translator.count_words(text, lengths)
        found = translator.search(source, lengths, num_words=num_words)
        written = found.ids[:, 0, : found.lengths[0, 0]]
    else:
        ids = translator.target_tokenizer.tokenize([translation]).to_tensor()
        written = tf.pad(ids, [[0, 0], [0, 1]], constant_values=EOS_ID)
    read = decoder_inputs(written)
    weights = translator.model.attention_weights({"source": source, "target": read})
    return SentenceAttention(
        translator.tokenizer.id_to_piece(source[0].numpy()),
        translator.target_tokenizer.id_to_piece(read[0].numpy()),
        translator.target_tokenizer.id_to_piece(written[0].numpy()),
        **{name: array[0].numpy() for name, array in weights.items()},
    )
