"""Decoding that returns only well-formed trees over exactly the words of each sentence."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.config import EOS_ID
from keras_transformer.decoding.search import BAN, State, Step, StepAround, with_shape_of

_NOTHING, _TAG, _END, _FIRST_WORD = range(4)
"""The actions of tokens. Those of words follow in order, then those that open brackets, for each
label, then those that close."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeTokens:
    """The ids of the tokens of linearized trees, such as `(S (NP XX1 )NP (VP XX2 )VP )S`.

    Attributes:
        opens: For each label, the id of the token that opens its bracket.
        closes: For each label, in the same order, the id of the token that closes its bracket.
        words: The ids of the tokens that stand for the words of a sentence, in their order. After
            the last one, they start again; one id stands for any word.
        tags: The ids of the tokens of parts of speech, if one of them follows each word.
        eos_id: The id that ends a sequence.

    Raises:
        ValueError: If the numbers of ids of opening and closing tokens differ or are 0, there is
            no token for words, or an id occurs twice.
    """

    opens: Sequence[int]
    closes: Sequence[int]
    words: Sequence[int]
    tags: Sequence[int] = ()
    eos_id: int = EOS_ID

    def __post_init__(self) -> None:
        if len(self.opens) != len(self.closes) or not self.opens:
            raise ValueError(
                "opens and closes must have one id for each label, received "
                f"{len(self.opens)} and {len(self.closes)} ids. List labels in the same order."
            )
        if not self.words:
            raise ValueError(
                "words must have the id of at least one token, received an empty list."
            )
        ids = [*self.opens, *self.closes, *self.words, *self.tags, self.eos_id]
        repeated = sorted({token for token in ids if ids.count(token) > 1})
        if repeated:
            raise ValueError(f"each token must have its own id, received {repeated} repeatedly.")

    @property
    def tokens_per_word(self) -> int:
        """The number of tokens of a word: itself, and its tag if it has one."""
        return 2 if self.tags else 1

    def shortest(self, num_words: Any) -> Any:
        """Return the number of tokens of the shortest tree over some words, eos included.

        Args:
            num_words: The number of words, an integer or a tensor of integers.

        >>> TreeTokens(opens=[4], closes=[5], words=[6]).shortest(num_words=10)
        13
        """
        return self.tokens_per_word * num_words + 3  # A bracket takes two, and eos one.


class _Trees(NamedTuple):
    """The unfinished tree of each of the N beams of B sentences.

    Attributes:
        labels: int32 [B, N, D], the labels of the open brackets, then anything.
        depth: int32 [B, N], the number of open brackets.
        words: int32 [B, N], the number of words that are left.
        word: int32 [B, N], the number of the next word.
        after_word: bool [B, N], whether the last token is a word.
        opened: int32 [B, N], the number of brackets that were opened last, without another token.
        spare: int32 [B, N], the number of tokens left before the limit beyond those that the tree
            needs: its words and tags, a token for each open bracket to close it, and eos.
    """

    labels: tf.Tensor
    depth: tf.Tensor
    words: tf.Tensor
    word: tf.Tensor
    after_word: tf.Tensor
    opened: tf.Tensor
    spare: tf.Tensor


class TreeStep(StepAround):
    """Bans all tokens that do not lead to a tree: a `decoding.Step` around another one.

    Each result is a tree over all words of its sentence, followed by eos, within the maximum
    length: the first token opens a bracket; words come in their order, each followed by a tag if
    there are tags; only the innermost bracket can be closed, if it holds a word; the root is closed
    after the last word. No search can reach a state where every token is banned, unless other rules
    ban tokens too, such as `no_repeat_ngram`.

    Args:
        step: Returns the logits of the next token, with a static V.
        tokens: The ids of brackets, words and eos. All others are banned.
        num_words: int32 [B], the number of words of each sentence. Without words, there is only
            eos.
        max_lengths: int32 [B], the maximum number of tokens of each tree, eos included. It must be
            at least `tokens.shortest(num_words)`. The same as those of the search.
        beam_size: N, the number of beams or samples of the search.
        max_depth: The most brackets around a word.
        max_opened: Maximum number of consecutive opening brackets.

    Call arguments:
        ids, parents, position, state: See `decoding.Step`; the state comes from `initial_state`.

    Returns:
        The logits float32 [B * N, V], with bans, and the state.

    Raises:
        ValueError: If `beam_size`, `max_depth` or `max_opened` is less than 1.

    >>> from keras_transformer.decoding import greedy_search
    >>> tokens = TreeTokens(opens=[4, 5], closes=[6, 7], words=[8])
    >>> logits = tf.constant([[0.0, 0, 0, 0, 3, 2, 0, 0, 1]])  # V 9: prefers to open 4, then 5
    >>> step = lambda ids, parents, position, state: (logits, state)
    >>> trees = TreeStep(step, tokens, num_words=[2], max_lengths=[9])
    >>> greedy_search(trees, trees.initial_state(()), max_lengths=[9]).ids.numpy().tolist()
    [[[4, 4, 4, 8, 8, 6, 6, 6, 3]]]
    """

    def __init__(
        self,
        step: Step,
        tokens: TreeTokens,
        *,
        num_words: tf.Tensor,
        max_lengths: tf.Tensor,
        beam_size: int = 1,
        max_depth: int = 64,
        max_opened: int = 8,
    ):
        sizes = {"beam_size": beam_size, "max_depth": max_depth, "max_opened": max_opened}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, received {size}.")
        self.step = step
        self.tokens = tokens
        self.num_words = tf.convert_to_tensor(num_words, tf.int32)
        self.max_lengths = tf.convert_to_tensor(max_lengths, tf.int32)
        self.beam_size = beam_size
        self.max_depth = max_depth
        self.max_opened = max_opened
        self.num_labels = len(tokens.opens)
        self._levels = tf.range(max_depth)
        self._first_label = _FIRST_WORD + len(tokens.words)

    def initial_state(self, state: State) -> State:
        """Return the state before the first token, given the one of the step inside."""
        words = tf.repeat(self.num_words[:, tf.newaxis], self.beam_size, axis=1)
        zeros = tf.zeros_like(words)
        trees = _Trees(
            labels=tf.repeat(zeros[:, :, tf.newaxis], self.max_depth, axis=2),
            depth=zeros,
            words=words,
            word=zeros,
            after_word=zeros > 0,
            opened=zeros,
            spare=self.max_lengths[:, tf.newaxis] - self.tokens.tokens_per_word * words - 1,
        )
        return state, trees

    def __call__(
        self, ids: tf.Tensor, parents: tf.Tensor, position: tf.Tensor, state: State
    ) -> tuple[tf.Tensor, State]:
        """Return the logits of the next token, with bans, and the state; see `Step`."""
        inner, trees = state
        logits, inner = self.step(ids, parents, position, inner)
        actions = self._actions(logits.shape[1])
        trees = self._continued(trees, parents)
        action = tf.reshape(tf.gather(actions, ids), [-1, self.beam_size])
        trees = self._extend(trees, with_shape_of(trees.depth, action))
        # There are few actions, so the bans of all tokens are gathered from those.
        bans = tf.reshape(self._bans(trees), [-1, self._first_label + 2 * self.num_labels])
        return logits + tf.gather(bans, actions, axis=1), (inner, trees)

    def _actions(self, vocab_size: int | None) -> np.ndarray:
        """Return the action of each token, int32 [V]."""
        if vocab_size is None:
            raise ValueError(
                "the last axis of the logits that step returns, the vocabulary, must have a static "
                "size, received None. Set it with tf.ensure_shape."
            )
        actions = np.full(vocab_size, _NOTHING, np.int32)
        actions[[*self.tokens.tags]] = _TAG
        actions[self.tokens.eos_id] = _END
        others = [*self.tokens.words, *self.tokens.opens, *self.tokens.closes]
        actions[others] = _FIRST_WORD + np.arange(len(others))
        return actions

    def _extend(self, trees: _Trees, action: tf.Tensor) -> _Trees:
        """Return the trees after one more action [B, N] each.

        Dropped beams may receive any token, so all counters are clipped.
        """
        label = action - self._first_label
        is_word = (action >= _FIRST_WORD) & (label < 0)
        opens = (label >= 0) & (label < self.num_labels)
        change = tf.cast(opens, tf.int32) - tf.cast(label >= self.num_labels, tf.int32)
        is_next = self._levels == trees.depth[:, :, tf.newaxis]
        return _Trees(
            # What is written above the open brackets has no effect.
            labels=tf.where(is_next, label[:, :, tf.newaxis], trees.labels),
            depth=tf.clip_by_value(trees.depth + change, 0, self.max_depth),
            words=tf.maximum(trees.words - tf.cast(is_word, tf.int32), 0),
            word=(trees.word + tf.cast(is_word, tf.int32)) % len(self.tokens.words),
            after_word=is_word,
            opened=tf.where(opens, trees.opened + 1, 0),
            # A bracket takes two tokens. All other actions are those that the tree needs.
            spare=trees.spare - 2 * tf.cast(opens, tf.int32),
        )

    def _bans(self, trees: _Trees) -> tf.Tensor:
        """Return what each action adds to the logits of its tokens, float32 [B, N, actions]."""
        depth, opened = trees.depth, trees.opened
        is_inside, words_left = depth > 0, trees.words > 0
        needs_tag = trees.after_word & bool(self.tokens.tags)
        # The root takes two spare tokens too, but there is no tree without it.
        fits = (trees.spare >= 2) & (depth < self.max_depth) & (opened < self.max_opened)
        may_open = ~needs_tag & words_left & (fits | ~is_inside)
        # A bracket that was not opened last holds a word.
        may_close = ~needs_tag & is_inside & (opened == 0) & ((depth > 1) | ~words_left)
        innermost = tf.where(self._levels == depth[:, :, tf.newaxis] - 1, trees.labels, -1)
        innermost = tf.where(may_close, tf.reduce_max(innermost, axis=2), -1)
        single = tf.stack([tf.zeros_like(is_inside), needs_tag, ~is_inside & ~words_left], axis=2)
        may_write = ~needs_tag & is_inside & words_left
        is_next = tf.range(len(self.tokens.words)) == trees.word[:, :, tf.newaxis]
        word = may_write[:, :, tf.newaxis] & is_next
        labels = tf.range(self.num_labels)
        opening = may_open[:, :, tf.newaxis] & (labels >= 0)
        closing = labels == innermost[:, :, tf.newaxis]
        return tf.where(tf.concat([single, word, opening, closing], axis=2), 0.0, BAN)
