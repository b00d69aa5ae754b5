"""Whole words in a TensorFlow graph, with classes for rare ones, for parsing."""

import collections
import json
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from keras_transformer.config import PAD_ID, UNK_ID
from keras_transformer.text.base import SPECIAL, StringTable, Tokenizer

_RARE = 1
"""How often a word occurs, at most, to count as rare."""
_COMMON_CLASS = 10
"""How often rare words of a class occur, at least, in the text that a vocabulary is trained on."""
_CLASSES_SHARE = 4
"""At most one in this many tokens is a class."""
_SHAPES = (  # In this order: "a" is a lowercase letter, too.
    (r"[\p{Lu}\p{Lt}]+", "A"),
    (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]+", "a"),
    (r"\p{N}+", "0"),
)


def train_words(lines: Iterable[str], vocab_size: int) -> bytes:
    """Return a vocabulary of the most frequent words, and of classes for all others.

    Words that occur once are never tokens, so that a model learns to handle unknown words.

    Args:
        lines: Sentences, whose words are separated by white space.
        vocab_size: The size of the vocabulary (V). Tokens beyond those that are needed are unused.

    Returns:
        The vocabulary, for `WordTokenizer`.

    Raises:
        ValueError: If `vocab_size` is less than 5, or there is no word.

    >>> tokenizer = WordTokenizer(train_words(["the cat sat", "the dog saw the cat"], 8))
    >>> tokenizer.id_to_piece(range(4, 8))
    ['the', 'cat', '<unused0>', '<unused1>']
    """
    if vocab_size <= len(SPECIAL):
        raise ValueError(f"vocab_size must be at least {len(SPECIAL) + 1}, received {vocab_size}.")
    counts: collections.Counter[bytes] = collections.Counter()
    for text in lines:
        counts.update(text.encode("utf-8", "replace").split())
    if not counts:
        raise ValueError("a vocabulary of words needs text, received no text.")
    rare = [word for word, count in counts.items() if count <= _RARE]
    classes: collections.Counter[str] = collections.Counter()
    if rare:
        columns = _candidates(tf.constant(rare))
        rows = list(zip(*([name.decode() for name in x.numpy()] for x in columns), strict=True))
        frequent = collections.Counter(name for row in rows for name in row)
        for row in rows:
            if name := next((x for x in row if x and frequent[x] >= _COMMON_CLASS), None):
                classes[name] += 1
    kept = sorted(name for name, _ in classes.most_common(vocab_size // _CLASSES_SHARE))
    room = vocab_size - len(SPECIAL) - len(kept)
    ranking = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    words = {word.decode(): count for word, count in ranking[:room] if count > _RARE}
    content = {"words": words, "classes": kept, "vocab_size": vocab_size}
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


class WordTokenizer(Tokenizer):
    """Tokenize sentences into whole words, with classes for rare ones, inside a TensorFlow graph.

    White space separates words, so that the n-th token is the n-th word, as parsing needs it. A
    word outside the vocabulary gets the token of its class: its shape, such as `A0` for `B52`, and
    its last letters (Petrov et al., 2006); with tagged words, the last letters of its tag. The
    first word of a sentence is also looked up with a lowercase first letter. It has the methods of
    `Tokenizer`.

    Args:
        model: A vocabulary such as `train_words` returns.

    Attributes:
        model: The vocabulary, as bytes.
        vocab_size: Number of tokens in the vocabulary (V), including control tokens.
        counts: int [V], how often each word occurred when the vocabulary was trained; 0 for tokens
            that are not words.

    Raises:
        TypeError: If `model` is not bytes.
        ValueError: If `model` is not such a vocabulary.

    >>> rare = ["was", "eating", "reading", "dining", "going", "rising"]
    >>> rare += ["biking", "sewing", "hiking", "drawing", "singing"]
    >>> tokenizer = WordTokenizer(train_words(["the cat and the cat", *rare], 12))
    >>> ids = tokenizer.tokenize(["The cat was sleeping", ""])
    >>> tokenizer.id_to_piece(ids[0].numpy())
    ['the', 'cat', '<a>', '<a:ing>']
    """

    _KIND = "vocabulary of words"
    _TRAINED_BY = "train_words"

    def __init__(self, model: bytes):
        super().__init__(model)
        first = len(SPECIAL)
        names = [f"<{name}>" for name in self._classes]
        self._class_table = StringTable({x: i for i, x in enumerate(self._classes, first)})
        self._table = StringTable({x: i for i, x in enumerate(self._words, first + len(names))})
        self.counts = np.zeros(self.vocab_size, int)
        self.counts[first + len(names) : first + len(names) + len(self._words)] = list(
            self._words.values()
        )

    def _read(self, model: bytes) -> list[str]:
        names = ("words", "classes", "vocab_size")
        try:
            content = json.loads(model)
            words, classes, size = (content[name] for name in names)
            unused = size - len(SPECIAL) - len(classes) - len(words)
            is_right = (
                (isinstance(size, int) and unused >= 0 and isinstance(classes, list))
                and (all(isinstance(x, str) for x in classes) and len({*classes}) == len(classes))
                and all(isinstance(x, int) and x > 0 for x in words.values())
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            is_right = False
        if not is_right:
            raise ValueError(
                f"a vocabulary of words must be JSON with {', '.join(names)}, received "
                f"{model[:80]!r}. Read a file that was written by save."
            )
        self._words, self._classes = words, classes
        rest = [f"<unused{i}>" for i in range(unused)]
        return [*SPECIAL, *(f"<{name}>" for name in classes), *words, *rest]

    def tokenize(self, text: tf.Tensor, max_length: int | None = None) -> tf.RaggedTensor:
        # A word that has a class may be of any length.
        return self._tokenize(tf.convert_to_tensor(text, tf.string))[:, :max_length]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, text):
        words = tf.strings.split(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8"))
        ids = self._table(words.values, UNK_ID)
        starts = tf.gather(words.row_splits, words.value_rowids())
        is_new_first = (ids == UNK_ID) & (tf.range(tf.size(ids, tf.int64)) == starts)
        first = tf.strings.lower(tf.strings.substr(words.values, 0, 1, "UTF8_CHAR"), "utf-8")
        rest = tf.strings.regex_replace(words.values, r"(?s)^.(.*)$", r"\1")
        lower = self._table(tf.strings.join([first, rest]), UNK_ID)
        ids = tf.where(is_new_first, lower, ids)
        return words.with_values(self._with_classes(ids, words.values))

    def _with_classes(self, ids, words):
        """Return ids [N], where unk is replaced by the class of the word [N]."""
        for name in _candidates(words):
            ids = tf.where(ids == UNK_ID, self._class_table(name, UNK_ID), ids)
        return ids

    def class_ids(self) -> np.ndarray:
        """Return the id of the class of each word, int32 [V], and of other tokens their own."""
        ids = np.arange(self.vocab_size, dtype=np.int32)
        unknown = tf.fill([len(self._words)], UNK_ID)
        words = tf.constant([*self._words], tf.string)
        ids[self.counts > 0] = self._with_classes(unknown, words)
        return ids

    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        ids = tf.where((ids >= 0) & (ids < self.vocab_size), ids, PAD_ID)
        texts = ["", " ⁇", "", "", *(f" {piece}" for piece in self._pieces_by_id[len(SPECIAL) :])]
        joined = tf.strings.reduce_join(tf.gather(tf.constant(texts), ids), axis=1)
        return tf.strings.regex_replace(joined, "^ ", "")


def _candidates(words: tf.Tensor) -> list[tf.Tensor]:
    """Return the names of the classes of words [N], the most special first; "" is no class."""
    shape = words
    for pattern, symbol in _SHAPES:
        shape = tf.strings.regex_replace(shape, pattern, symbol)
    lower = tf.strings.lower(words, "utf-8")
    endings = [
        tf.strings.regex_replace(lower, rf"^(?:(?s:.*)([\pL\pM]{{{length}}})|(?s:.*))$", r"\1")
        for length in (3, 2, 1)
    ]
    first = tf.strings.regex_replace(shape, r"(?s)^(.).*$", r"\1")
    special = [tf.where(end == "", "", tf.strings.join([shape, ":", end])) for end in endings]
    return [*special, shape, first]
