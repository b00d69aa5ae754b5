"""The tokens of constituency trees, such as `(NP`, `XX` and `)NP`, in a TensorFlow graph."""

import json
import re
from collections.abc import Iterable
from typing import Literal

import tensorflow as tf

from keras_transformer.config import PAD_ID, UNK_ID
from keras_transformer.text.base import Tokenizer
from keras_transformer.text.string_table import StringTable
from keras_transformer.trees import UNKNOWN_TAG, WORD, Tree, escape, linearize

_SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
_FIRST_TAG = len(_SPECIAL)
_CHARACTERS = "()[]{}"
_LEAF = r"\(([^()\s]+)\s+[^()\s]+\s*\)"
_TAG_MARK = "/"  # Before a tag in the graph, so that it differs from a word without one.


def tree_vocabulary(
    trees: Iterable[Tree],
    vocab_size: int | None = None,
    *,
    word_tags: Literal["none", "source", "target"] = "none",
) -> bytes:
    """Return the vocabulary of trees: two tokens for each label, and one or more for words.

    Args:
        trees: Trees with all labels and tags.
        vocab_size: The size of the vocabulary, if it shall have room that no token uses.
        word_tags: Where part-of-speech tags are: nowhere (XX stands for any word), in the source
            (after each word; see `join_words`), or in the target (a token for each tag stands for
            its words).

    Returns:
        The vocabulary, for `TreeTokenizer`.

    Raises:
        ValueError: If there is no tree, or more labels than fit.

    >>> from keras_transformer.trees import parse_tree
    >>> trees = [parse_tree("(S (NP (PRP We)) (VP (VBD left)))")]
    >>> TreeTokenizer(tree_vocabulary(trees)).id_to_piece(range(4, 11))
    ['XX', '(NP', ')NP', '(S', ')S', '(VP', ')VP']
    >>> TreeTokenizer(tree_vocabulary(trees, word_tags="target")).id_to_piece(range(4, 8))
    ['PRP', 'VBD', '(NP', ')NP']
    """
    labels: set[str] = set()
    tags = set() if word_tags == "target" else {WORD}
    for tree in trees:
        labels.update(token[1:] for token in linearize(tree) if token.startswith("("))
        if word_tags == "target":
            tags.update(tree.tags)
    if not labels:
        raise ValueError("A vocabulary of trees needs at least one tree, received none.")
    needed = _FIRST_TAG + len(tags) + 2 * len(labels)
    if vocab_size is not None and needed > vocab_size:
        raise ValueError(
            f"A vocabulary of trees with {len(labels)} labels and tokens for words: {len(tags)}, "
            f"needs {needed} tokens, received a size of {vocab_size}. Raise it "
            "(model.target_vocab_size), or check the trees: the labels are "
            f"{' '.join(sorted(labels))[:200]}."
        )
    content = {
        "labels": sorted(labels),
        "tags": sorted(tags),
        "word_tags": word_tags,
        "vocab_size": vocab_size or needed,
    }
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


class TreeTokenizer(Tokenizer):
    """Tokenize constituency trees as typed brackets, with a token for each word (Section 6.3).

    The text of a tree is its bracketed notation. `tokenize` leaves the words out; `write` puts
    those of a sentence in again. The methods are those of `Tokenizer`.

    Args:
        model: A vocabulary such as `tree_vocabulary` returns.

    Attributes:
        model: The vocabulary, as bytes.
        vocab_size: Number of tokens in the vocabulary (V), including control tokens.
        labels: The labels of brackets.
        word_tags: Where part-of-speech tags are: "none", "source" or "target".
        tag_ids: The ids of the tokens that stand for words.
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
    ['(S', '(NP', 'XX', ')NP', '(VP', 'XX', ')VP', ')S']
    >>> tokenizer.write(ids.to_tensor(), tf.constant(["They came"])).numpy()[0].decode()
    '(S (NP (XX They)) (VP (XX came)))'
    """

    _KIND = "vocabulary of trees"
    _TRAINED_BY = "tree_vocabulary"

    def __init__(self, model: bytes):
        super().__init__(model)
        first = _FIRST_TAG + len(self.tags)
        self.tag_ids = list(range(_FIRST_TAG, first))
        self.open_ids = [first + 2 * i for i in range(len(self.labels))]
        self.close_ids = [i + 1 for i in self.open_ids]
        opening = {f"({label}": i for label, i in zip(self.labels, self.open_ids, strict=True)}
        tags = {f"{_TAG_MARK}{tag}": i for tag, i in zip(self.tags, self.tag_ids, strict=True)}
        self._table = StringTable({**opening, **tags})
        # In the source or nowhere, all tags are the same to the model.
        self._other_tag = UNK_ID if self.word_tags == "target" else _FIRST_TAG

    def _read(self, model: bytes) -> list[str]:
        names = ("labels", "tags", "word_tags", "vocab_size")
        try:
            content = json.loads(model)
            self.labels, self.tags, self.word_tags, size = (content[name] for name in names)
            unused = size - _FIRST_TAG - len(self.tags) - 2 * len(self.labels)
            is_right = self.word_tags in ("none", "source", "target") and all(
                isinstance(strings, list) and strings and len({*strings}) == len(strings)
                for strings in (self.labels, self.tags)
            )
            is_right = is_right and isinstance(size, int) and unused >= 0
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right:
            raise ValueError(
                f"a vocabulary of trees must be JSON with {', '.join(names)}, received "
                f"{model[:80]!r}. Read a file that was written by save."
            )
        brackets = [f"{bracket}{label}" for label in self.labels for bracket in "()"]
        return [*_SPECIAL, *self.tags, *brackets, *(f"<unused{i}>" for i in range(unused))]

    def tokenize(self, text: tf.Tensor, max_length: int | None = None) -> tf.RaggedTensor:
        # Words are not tokens of their own, so their lengths say nothing about the number of bytes.
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
        words = tf.where(ids == UNK_ID, self._other_tag, ids)
        ids = tf.where(opens, ids, tf.where(closes, closing, words))
        return tf.RaggedTensor.from_row_splits(ids, tokens.row_splits, validate=False)

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
        return (ids >= _FIRST_TAG) & (ids < _FIRST_TAG + len(self.tags))

    def _join(self, ids, words, tags):
        """Return trees [B] of ids [B, T].

        Args:
            ids: The tokens.
            words: string [B, W], the words; where there are too few, XX takes their place.
            tags: string [B, W], their tags; "" for that of the token.
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
        for tag, i in zip(self.tags, self.tag_ids, strict=True):
            table[i] = escape(tag)
        texts = tf.gather(tf.constant(table), ids)
        tags = tf.where(tags == "", texts, tags)
        leaves = tf.strings.join([" (", tags, " ", tf.where(words == "", WORD, words), ")"])
        joined = tf.strings.reduce_join(tf.where(is_word, leaves, texts), axis=1)
        return tf.strings.regex_replace(joined, "^ ", "")

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(["", *self._pieces_by_id[PAD_ID + 1 :]]), ids)
