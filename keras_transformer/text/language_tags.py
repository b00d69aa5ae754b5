"""Tags such as `>>de<<` at the start of a text, which choose the language of its translation."""

import re
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.config import UNK_ID

_TAG = r">>[^<>\s]+<<"
_ANY_TEXT = r"(?s)>>.*?<<"


def is_language_tag(piece: str) -> bool:
    """Return whether a piece of a vocabulary is a tag.

    >>> [is_language_tag(piece) for piece in (">>de<<", ">><<", "▁de")]
    [True, False, False]
    """
    return re.fullmatch(_TAG, piece) is not None


def starts_with_tag(text: str) -> bool:
    """Return whether a text begins with a tag.

    >>> starts_with_tag(">>de<< a dog"), starts_with_tag("a >>de<< dog")
    (True, False)
    """
    return re.match(_TAG, text) is not None


class LanguageTags:
    """Take the tag off the start of texts.

    A tag is a word between `>>` and `<<`. One that is not among the tags of the vocabulary is
    unknown.

    Args:
        ids: The id of each tag of the vocabulary.
        any_text: Whether any text between `>>` and the first `<<` is a tag, as for Hugging Face.

    >>> tags = LanguageTags({">>de<<": 7, ">>fr<<": 9})
    >>> text, ids = tags.split(tf.constant([">>fr<< A dog", "A dog", ">>xx<<A dog"]))
    >>> text.numpy().tolist(), ids.numpy().tolist()
    ([b' A dog', b'A dog', b'A dog'], [9, -1, 1])
    >>> tags.split_strings([">>fr<< A dog", "A dog"])
    ([' A dog', 'A dog'], [9, -1])
    """

    def __init__(self, ids: dict[str, int], any_text: bool = False):
        self.ids = ids
        self._pattern = _ANY_TEXT if any_text else _TAG

    def split(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return texts [B] without their tags, and the ids of these, int32 [B], -1 for none."""
        rest = tf.strings.regex_replace(text, f"^(?:{self._pattern})", "", replace_global=False)
        length = tf.strings.length(text) - tf.strings.length(rest)
        tag = tf.strings.substr(text, tf.zeros_like(length), length)
        ids = tf.where(length > 0, UNK_ID, -1)
        if self.ids:
            is_tag = tag[:, tf.newaxis] == tf.constant(list(self.ids))
            known = tf.reduce_max(tf.where(is_tag, tf.constant(list(self.ids.values())), -1), 1)
            ids = tf.where(known >= 0, known, ids)
        return rest, ids

    def split_strings(self, texts: Sequence[str]) -> tuple[list[str], list[int]]:
        """Return what `split` does, for texts in memory."""
        rests, ids = [], []
        for text in texts:
            found = re.match(self._pattern, text)
            end = found.end() if found else 0
            rests.append(text[end:])
            ids.append(self.ids.get(text[:end], UNK_ID) if found else -1)
        return rests, ids
