"""The tokens of constituency trees, such as `(NP`, `XX1` and `)NP`, in a TensorFlow graph."""

import json
import re
from collections.abc import Iterable
from typing import Literal

import tensorflow as tf

from keras_transformer.config import PAD_ID, UNK_ID
from keras_transformer.text.base import SPECIAL, StringTable, Tokenizer
from keras_transformer.trees import UNKNOWN_TAG, WORD, Tree, escape, linearize

_FIRST_WORD = len(SPECIAL)
_NUMBERS = 128
"""Word tokens of a vocabulary. The words after that many start with the first token again."""
_CHARACTERS = "()[]{}"
_LEAF = r"\(([^()\s]+)\s+[^()\s]+\s*\)"
_TAG_MARK = "/"  # Before a tag in the graph, so that it differs from a word without one.


def tree_vocabulary(
    trees: Iterable[Tree],
    vocab_size: int | None = None,
    *,
    word_tags: Literal["none", "source", "target"] = "none",
) -> bytes:
    """Return the vocabulary of trees: two tokens for each label, and tokens for words.

    The token of a word names its position in the sentence, XX1 to XX128, and then XX1 again: a
    model need not count words to know which one comes next.

    Args:
        trees: Trees with all labels and tags.
        vocab_size: The size of the vocabulary, if it should have room for more tokens.
        word_tags: Where part-of-speech tags are: nowhere, in the source (after each word; see
            `join_words`), or in the target (a token after each word's token).

    Returns:
        The vocabulary, for `TreeTokenizer`.

    Raises:
        ValueError: If there is no tree, or more labels than fit.

    >>> from keras_transformer.trees import parse_tree
    >>> trees = [parse_tree("(S (NP (PRP We)) (VP (VBD left)))")]
    >>> TreeTokenizer(tree_vocabulary(trees)).id_to_piece(range(130, 138))
    ['XX127', 'XX128', '(NP', ')NP', '(S', ')S', '(VP', ')VP']
    >>> TreeTokenizer(tree_vocabulary(trees, word_tags="target")).id_to_piece(range(132, 136))
    ['PRP', 'VBD', '(NP', ')NP']
    """
    labels: set[str] = set()
    tags: set[str] = set()
    for tree in trees:
        labels.update(token[1:] for token in linearize(tree) if token.startswith("("))
        if word_tags == "target":
            tags.update(tree.tags)
    if not labels:
        raise ValueError("A vocabulary of trees needs at least one tree, received an empty list.")
    needed = _FIRST_WORD + _NUMBERS + len(tags) + 2 * len(labels)
    if vocab_size is not None and needed > vocab_size:
        raise ValueError(
            f"A vocabulary of trees with {len(labels)} labels and {len(tags)} tags needs {needed} "
            f"tokens, {_NUMBERS} of them for words, received a size of {vocab_size}. Raise it "
            "(model.target_vocab_size), or check the trees: the labels are "
            f"{' '.join(sorted(labels))[:200]}."
        )
    content = {
        "labels": sorted(labels),
        "tags": sorted(tags),
        "words": _NUMBERS,
        "word_tags": word_tags,
        "vocab_size": vocab_size or needed,
    }
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


class TreeTokenizer(Tokenizer):
    """Tokenize constituency trees as typed brackets and the numbers of words (Section 6.3).

    The text of a tree is its bracketed notation. `tokenize` leaves the words out; `write` puts
    the words of a sentence in again. It has the methods of `Tokenizer`.

    Args:
        model: A vocabulary such as `tree_vocabulary` returns.

    Attributes:
        model: The vocabulary, as bytes.
        vocab_size: Number of tokens in the vocabulary (V), including control tokens.
        labels: The labels of brackets.
        word_tags: Where part-of-speech tags are: "none", "source" or "target".
        tags: The tags that follow words; none unless they are in the target.
        word_ids: The ids of the tokens that stand for words, in the order of words.
        tag_ids: The ids of the tags.
        open_ids: The id of the token that opens a bracket, for each label.
        close_ids: The id of the token that closes it.

    Raises:
        TypeError: If `model` is not bytes.
        ValueError: If `model` is not such a vocabulary.

    >>> from keras_transformer.trees import parse_tree
    >>> tree = "(S (NP (PRP We)) (VP (VBD left)))"
    >>> tokenizer = TreeTokenizer(tree_vocabulary([parse_tree(tree)]))
    >>> ids = tokenizer.tokenize([tree])
    >>> tokenizer.id_to_piece(ids[0].numpy())
    ['(S', '(NP', 'XX1', ')NP', '(VP', 'XX2', ')VP', ')S']
    >>> tokenizer.write(ids.to_tensor(), tf.constant(["They came"])).numpy()[0].decode()
    '(S (NP (XX They)) (VP (XX came)))'
    """

    _KIND = "vocabulary of trees"
    _TRAINED_BY = "tree_tokenizer.tree_vocabulary"

    def __init__(self, model: bytes):
        super().__init__(model)
        first_tag = _FIRST_WORD + self._num_words
        first_label = first_tag + len(self.tags)
        self.word_ids = list(range(_FIRST_WORD, first_tag))
        self.tag_ids = list(range(first_tag, first_label))
        self.open_ids = [first_label + 2 * i for i in range(len(self.labels))]
        self.close_ids = [i + 1 for i in self.open_ids]
        opening = {f"({label}": i for label, i in zip(self.labels, self.open_ids, strict=True)}
        tags = {f"{_TAG_MARK}{tag}": i for tag, i in zip(self.tags, self.tag_ids, strict=True)}
        self._table = StringTable({**opening, **tags})

    def _read(self, model: bytes) -> list[str]:
        names = ("labels", "tags", "words", "word_tags", "vocab_size")
        try:
            content = json.loads(model)
            self.labels, self.tags, words, self.word_tags, size = (content[x] for x in names)
            unused = size - _FIRST_WORD - words - len(self.tags) - 2 * len(self.labels)
            is_right = (
                all(isinstance(x, list) and len({*x}) == len(x) for x in (self.labels, self.tags))
                and self.word_tags in ("none", "source", "target")
                and bool(self.tags) == (self.word_tags == "target")
                and (isinstance(size, int) and bool(self.labels) and words > 0 and unused >= 0)
            )
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right:
            raise ValueError(
                f"a vocabulary of trees must be JSON with {', '.join(names)}, received "
                f"{model[:80]!r}. Read a file that was written by save."
            )
        self._num_words = words
        numbers = [f"{WORD}{i + 1}" for i in range(words)]
        brackets = [f"{bracket}{label}" for label in self.labels for bracket in "()"]
        rest = [f"<unused{i}>" for i in range(unused)]
        return [*SPECIAL, *numbers, *self.tags, *brackets, *rest]

    def tokenize(self, text: tf.Tensor, max_length: int | None = None) -> tf.RaggedTensor:
        # A word of any length is one token, so `max_length` does not limit the number of bytes.
        return self._tokenize(tf.convert_to_tensor(text, tf.string))[:, :max_length]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, text):
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        text = tf.strings.regex_replace(text, _LEAF, rf" {_TAG_MARK}\1 ")
        text = tf.strings.regex_replace(text, r"\(\s*", " (")
        tokens = tf.strings.split(tf.strings.regex_replace(text, r"\)", " ) "))
        first = tf.strings.substr(tokens.values, 0, 1)
        opens, closes = first == "(", first == ")"
        ids = self._table(tokens.values, UNK_ID)
        # Within a depth, brackets open and close in turn: the one before is the one to close.
        change = tf.cast(opens, tf.int64) - tf.cast(closes, tf.int64)
        depth = tf.cumsum(change) - tf.cast(opens, tf.int64)
        key = depth + tokens.value_rowids() * (2 * tf.size(depth, tf.int64) + 1)
        order = tf.argsort(tf.where(opens | closes, key, tf.int64.max), stable=True)
        before = tf.concat([[UNK_ID], tf.gather(ids, order)[:-1]], axis=0)
        sorted_key = tf.gather(key, order)
        is_same = tf.concat([[False], sorted_key[1:] == sorted_key[:-1]], axis=0)
        before = tf.where(is_same, before, UNK_ID)
        opened = tf.gather(before, tf.math.invert_permutation(order))
        closing = tf.where(opened == UNK_ID, UNK_ID, opened + 1)
        ids = tf.where(closes, closing, ids)  # At words, the ids of their tags.
        is_word = ~(opens | closes)
        words = self._number(tokens.with_values(tf.cast(is_word, tf.int32)))
        if not self.tags:
            ids = tf.where(is_word, words, ids)
            return tf.RaggedTensor.from_row_splits(ids, tokens.row_splits, validate=False)
        both = tf.ragged.boolean_mask(
            tf.stack([words, ids], axis=1),
            tf.stack([is_word, tf.fill(tf.shape(is_word), True)], axis=1),
        )
        splits = tf.gather(both.row_splits, tokens.row_splits)
        return tf.RaggedTensor.from_row_splits(both.values, splits, validate=False)

    def _number(self, is_word):
        """Return the ids of words, for 1 at each word in ragged rows and 0 at other tokens."""
        before = tf.concat([[0], tf.cumsum(is_word.values)], axis=0)
        start = tf.gather(before, tf.gather(is_word.row_starts(), is_word.value_rowids()))
        return _FIRST_WORD + (before[:-1] - start) % self._num_words

    def count_words(self, text: tf.Tensor) -> tf.Tensor:
        """Return the numbers of words, int32 [B], of sentences, string [B].

        Only ASCII white space separates words.
        """
        return tf.cast(tf.strings.split(text).row_lengths(), tf.int32)

    def write(self, ids: tf.Tensor, text: tf.Tensor) -> tf.Tensor:
        """Return trees with the words of sentences.

        Args:
            ids: int32 [B, T], tokens of trees, followed by eos or padding.
            text: string [B], the sentences. If a tree has too few words, the rest of its sentence
                is added to its root.

        Returns:
            Bracketed trees, string [B]; "" for ids without a tree.
        """
        text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8")
        for character in _CHARACTERS:
            text = tf.strings.regex_replace(text, re.escape(character), escape(character))
        words = tf.strings.split(text)
        tags = tf.fill(tf.shape(words.values), "")
        if self.word_tags == "source":
            tags = tf.strings.regex_replace(words.values, r"^(?:.+/([^/]+)|.*)$", r"\1")
            untagged = tf.strings.regex_replace(words.values, r"^(.+)/[^/]+$", r"\1")
            words = words.with_values(untagged)
        tags = words.with_values(tags).to_tensor()
        trees = self._join(ids, words.to_tensor(), tags)
        # Words that the tree lacks.
        known = tf.where(tags == "", UNKNOWN_TAG, tags)
        left = tf.strings.join([" (", known, " ", words.to_tensor(), ")"])
        found = tf.math.count_nonzero(self._is_word(ids), axis=1)
        is_found = tf.sequence_mask(found, tf.shape(left, tf.int64)[1])
        is_left = tf.sequence_mask(words.row_lengths()) & ~is_found
        left = tf.strings.reduce_join(tf.where(is_left, left, ""), axis=1)
        root = tf.strings.regex_replace(trees, r"\)$", "")
        return tf.where(trees == "", "", tf.strings.join([root, left, ")"]))

    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        nothing = tf.fill([tf.shape(ids)[0], 0], "")
        return self._join(ids, nothing, nothing)

    def _is_word(self, ids):
        return (ids >= _FIRST_WORD) & (ids < _FIRST_WORD + self._num_words)

    def _join(self, ids, words, tags):
        """Return trees [B] of ids [B, T], words and tags, both string [B, W].

        XX stands for a word that is missing, and a tag of "" is taken from the tokens.
        """
        ids = tf.where((ids >= 0) & (ids < self.vocab_size), ids, PAD_ID)
        is_word = self._is_word(ids)
        places = tf.cumsum(tf.cast(is_word, tf.int32), axis=1, exclusive=True)
        places = tf.minimum(places, tf.shape(words)[1])
        words, tags = (
            tf.gather(tf.pad(each, [[0, 0], [0, 1]], constant_values=""), places, batch_dims=1)
            for each in (words, tags)
        )
        table = [""] * self.vocab_size
        for label, opens, closes in zip(self.labels, self.open_ids, self.close_ids, strict=True):
            table[opens], table[closes] = f" ({label}", ")"
        known = [UNKNOWN_TAG] * self.vocab_size
        for tag, i in zip(self.tags, self.tag_ids, strict=True):
            known[i] = escape(tag)
        following = tf.pad(ids, [[0, 0], [0, 1]], constant_values=PAD_ID)[:, 1:]
        tags = tf.where(tags == "", tf.gather(tf.constant(known), following), tags)
        leaves = tf.strings.join([" (", tags, " ", tf.where(words == "", WORD, words), ")"])
        texts = tf.where(is_word, leaves, tf.gather(tf.constant(table), ids))
        joined = tf.strings.reduce_join(texts, axis=1)
        return tf.strings.regex_replace(joined, "^ ", "")
