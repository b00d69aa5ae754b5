"""Translation of texts of any length, sentence by sentence."""

import functools
from collections.abc import Callable

import tensorflow as tf

from keras_transformer.text import Tokenizer
from keras_transformer.text.protection import is_odd, join
from keras_transformer.text.sentences import split_long, split_sentences

_ROWS = 64
"""Sentences that are translated at a time."""
_MOST_CHARACTERS = 200
"""The most characters of a part of a sentence that is too long."""


def cut_tag(text: tf.Tensor, tokenizer: Tokenizer) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the tags of a language before texts [B], such as `>>de<< `, and the rest of these."""
    if not getattr(tokenizer, "language_tags", None):
        return tf.fill(tf.shape(text), ""), text
    rest = tf.strings.regex_replace(text, r"^>>[^<>\s]+<< ?", "", replace_global=False)
    length = tf.strings.length(text) - tf.strings.length(rest)
    return tf.strings.substr(text, tf.zeros_like(length), length), rest


def split_text(
    text: tf.Tensor, tokenizer: Tokenizer, max_source_length: int
) -> tuple[tf.Tensor, tf.RaggedTensor]:
    """Split texts into sentences that a model can read.

    Args:
        text: string [B].
        tokenizer: The tokenizer of the source.
        max_source_length: The most tokens that the model reads.

    Returns:
        The tags of a language before each text, string [B], and its pieces [B, None]: sentence,
        white space, sentence and so on. Longer sentences are split.
    """
    tag, text = cut_tag(text, tokenizer)
    pieces = split_sentences(text)
    most = max(max_source_length - 3, 1)  # Besides the end and languages.
    for share in (1, 4):  # A character may have several tokens.
        tokens = tokenizer.tokenize(pieces.values, most + 1).row_lengths()
        is_long = (tokens > most) & ~is_odd(pieces)
        characters = max(min(most - 1, _MOST_CHARACTERS) // share, 1)
        pieces = tf.cond(
            tf.reduce_any(is_long),
            functools.partial(split_long, pieces, is_long, characters),
            functools.partial(tf.identity, pieces),
        )
    return tag, pieces


def translate_sentences(
    translate: Callable[[tf.Tensor], tf.Tensor], tag: tf.Tensor, pieces: tf.RaggedTensor
) -> tf.Tensor:
    """Translate texts in batches of sentences of similar length.

    Args:
        translate: A function from string [N] to string [N].
        tag: string [B], as `split_text` returns them.
        pieces: string [B, None], likewise. Those without a letter stay as they are.

    Returns:
        The translations, string [B].
    """
    has_letter = tf.strings.regex_full_match(pieces.values, r"(?s).*\pL.*")
    places = tf.where(has_letter & ~is_odd(pieces))[:, 0]
    lengths = tf.strings.length(tf.gather(pieces.values, places))
    places = tf.gather(places, tf.argsort(lengths, direction="DESCENDING"))
    tags = tf.gather(tag, tf.gather(pieces.value_rowids(), places))
    sentences = tf.strings.join([tags, tf.gather(pieces.values, places)])
    found = in_batches(translate, sentences)
    values = tf.tensor_scatter_nd_update(pieces.values, places[:, tf.newaxis], found)
    return join(pieces.with_values(values))


def in_batches(translate: Callable[[tf.Tensor], tf.Tensor], texts: tf.Tensor) -> tf.Tensor:
    """Return `translate(texts)` of texts [N], for some of them at a time."""
    return tf.while_loop(
        lambda start, found: start < tf.size(texts),
        lambda start, found: (
            start + _ROWS,
            tf.concat([found, translate(texts[start : start + _ROWS])], axis=0),
        ),
        (0, tf.fill([0], "")),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
    )[1]
