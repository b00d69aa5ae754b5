"""The tokens of constituency trees, such as `(NP`, `XX` and `)NP`, in a TensorFlow graph."""

import json
import re
from collections.abc import Iterable

import tensorflow as tf

from keras_transformer.config import PAD_ID, UNK_ID
from keras_transformer.text.base import Tokenizer
from keras_transformer.text.string_table import StringTable
from keras_transformer.trees import UNKNOWN_TAG, WORD, Tree, escape, linearize

_SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
_WORD_ID = len(_SPECIAL)
_FIRST_LABEL = _WORD_ID + 1
_NO_WORD = f"({UNKNOWN_TAG} {WORD})"
_CHARACTERS = "()[]{}"
_LEAF = r"\([^()\s]+\s+[^()\s]+\s*\)"


def tree_vocabulary(
    trees: Iterable[Tree], vocab_size: int | None = None, *, tagged: bool = False
) -> bytes:
    """Return the vocabulary of trees: two tokens for each label, and one for any word.

    Args:
        trees: Trees with all labels.
        vocab_size: The size of the vocabulary, if it shall have room that no token uses.
        tagged: Whether the source has a part-of-speech tag after each word; see `join_words`.

    Returns:
        The vocabulary, for `TreeTokenizer`.

    Raises:
        ValueError: If there is no tree, or more labels than fit.

    >>> from keras_transformer.trees import parse_tree
    >>> tree = parse_tree("(S (NP (PRP We)) (VP (VBD left)))")
    >>> TreeTokenizer(tree_vocabulary([tree])).id_to_piece(range(4, 11))
    ['XX', '(NP', ')NP', '(S', ')S', '(VP', ')VP']
    """
    labels: set[str] = set()
    for tree in trees:
        labels.update(token[1:] for token in linearize(tree) if token.startswith("("))
    if not labels:
        raise ValueError("A vocabulary of trees needs at least one tree, received none.")
    needed = _FIRST_LABEL + 2 * len(labels)
    if vocab_size is not None and needed > vocab_size:
        raise ValueError(
            f"A vocabulary of {len(labels)} labels needs {needed} tokens, received a size of "
            f"{vocab_size}. Raise it (model.target_vocab_size), or check the trees: the labels are "
            f"{' '.join(sorted(labels))[:200]}."
        )
    content = {"labels": sorted(labels), "tagged": tagged, "vocab_size": vocab_size or needed}
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


class TreeTokenizer(Tokenizer):
    """Tokenize constituency trees as typed brackets, with XX for each word (Section 6.3).

    The text of a tree is its bracketed notation. `tokenize` leaves the words and their tags out;
    `write` puts those of a sentence in again. The methods are those of `Tokenizer`.

    Args:
        model: A vocabulary such as `tree_vocabulary` returns.

    Attributes:
        model: The vocabulary, as bytes.
        vocab_size: Number of tokens in the vocabulary (V), including control tokens.
        labels: The labels of brackets.
        open_ids: The id of the token that opens a bracket, for each label.
        close_ids: The id of the token that closes it.
        word_id: The id of the token of words.

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
        labels = range(len(self.labels))
        self.word_id = _WORD_ID
        self.open_ids = [_FIRST_LABEL + 2 * i for i in labels]
        self.close_ids = [i + 1 for i in self.open_ids]
        self._table = StringTable(
            {f"({label}": i for label, i in zip(self.labels, self.open_ids, strict=True)}
        )

    def _read(self, model: bytes) -> list[str]:
        try:
            content = json.loads(model)
            labels, tagged, size = (content[name] for name in ("labels", "tagged", "vocab_size"))
            unused = size - _FIRST_LABEL - 2 * len(labels)
            is_right = unused >= 0 and labels and len({*labels}) == len(labels)
        except (KeyError, TypeError, ValueError):
            is_right = False
        if not is_right:
            raise ValueError(
                "a vocabulary of trees must be JSON with distinct labels, tagged and vocab_size, "
                f"received {model[:80]!r}. Read a file that was written by save."
            )
        self.labels: list[str] = labels
        self.tagged: bool = tagged
        brackets = [f"{bracket}{label}" for label in labels for bracket in "()"]
        return [*_SPECIAL, WORD, *brackets, *(f"<unused{i}>" for i in range(unused))]

    def tokenize(self, text: tf.Tensor, max_length: int | None = None) -> tf.RaggedTensor:
        # Words are not tokens of their own, so their lengths say nothing about the number of bytes.
        return self._tokenize(tf.convert_to_tensor(text, tf.string))[:, :max_length]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def _tokenize(self, text):
        text = tf.strings.regex_replace(text, _LEAF, f" {WORD} ")
        text = tf.strings.regex_replace(text, r"\(\s*", " (")
        tokens = tf.strings.split(tf.strings.regex_replace(text, r"\)", " ) "))
        first = tf.strings.substr(tokens.values, 0, 1)
        opens, closes = first == "(", first == ")"
        ids = tf.where(opens, self._table(tokens.values, UNK_ID), UNK_ID)
        # Within a depth, brackets open and close in turn: the one before is the one to close.
        change = tf.cast(opens, tf.int64) - tf.cast(closes, tf.int64)
        depth = tf.cumsum(change) - tf.cast(opens, tf.int64)
        key = depth + tokens.value_rowids() * (2 * tf.size(depth, tf.int64) + 1)
        order = tf.argsort(tf.where(opens | closes, key, tf.int64.max), stable=True)
        before = tf.concat([[UNK_ID], tf.gather(ids, order)[:-1]], axis=0)
        opened = tf.gather(before, tf.math.invert_permutation(order))
        closing = tf.where(opened == UNK_ID, UNK_ID, opened + 1)
        ids = tf.where(opens, ids, tf.where(closes, closing, _WORD_ID))
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
        for character in _CHARACTERS:
            text = tf.strings.regex_replace(text, re.escape(character), escape(character))
        leaves = tf.strings.split(text)
        if self.tagged:
            leaves = leaves.with_values(
                tf.strings.regex_replace(leaves.values, r"^(.+)/([^/]+)$", r"(\2 \1)")
            )
        is_tagged = tf.strings.regex_full_match(leaves.values, r"\(.*\)")
        untagged = tf.strings.join([f"({UNKNOWN_TAG} ", leaves.values, ")"])
        leaves = leaves.with_values(tf.where(is_tagged, leaves.values, untagged))
        trees = self._join(ids, leaves.to_tensor(_NO_WORD))
        found = tf.math.count_nonzero(ids == _WORD_ID, axis=1)
        left = tf.strings.join([" ", leaves.to_tensor("")])
        is_left = tf.sequence_mask(leaves.row_lengths()) & ~tf.sequence_mask(
            found, tf.shape(left, tf.int64)[1]
        )
        left = tf.strings.reduce_join(tf.where(is_left, left, ""), axis=1)
        root = tf.strings.regex_replace(trees, r"\)$", "")
        return tf.where(trees == "", "", tf.strings.join([root, left, ")"]))

    def _detokenize(self, ids: tf.Tensor) -> tf.Tensor:
        return self._join(ids, tf.fill([tf.shape(ids)[0], 0], ""))

    def _join(self, ids, leaves):
        """Return trees [B] of ids [B, T] with the leaves [B, W], or XX where there are too few."""
        ids = tf.where((ids >= 0) & (ids < self.vocab_size), ids, PAD_ID)
        is_word = ids == _WORD_ID
        places = tf.cumsum(tf.cast(is_word, tf.int32), axis=1, exclusive=True)
        leaves = tf.pad(leaves, [[0, 0], [0, 1]], constant_values=_NO_WORD)
        places = tf.minimum(places, tf.shape(leaves)[1] - 1)
        brackets = [""] * self.vocab_size
        for label, opens, closes in zip(self.labels, self.open_ids, self.close_ids, strict=True):
            brackets[opens], brackets[closes] = f" ({label}", ")"
        words = tf.strings.join([" ", tf.gather(leaves, places, batch_dims=1)])
        parts = tf.where(is_word, words, tf.gather(tf.constant(brackets), ids))
        return tf.strings.regex_replace(tf.strings.reduce_join(parts, axis=1), "^ ", "")

    def pieces(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(tf.constant(["", *self._pieces_by_id[PAD_ID + 1 :]]), ids)
