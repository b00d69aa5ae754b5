"""From text to ids, and from these to the ids of translations: encoder and search in one graph."""

import copy
import functools
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.config import EOS_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding import (
    SearchResult,
    TreeStep,
    TreeTokens,
    beam_search,
    make_rules,
    sample_search,
)
from keras_transformer.decoding.kept_tokens import KeptTokensStep
from keras_transformer.decoding.styles import get_style
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer, TreeTokenizer
from keras_transformer.translation.cached_step import check_decoder
from keras_transformer.translation.compiled_search import CompiledSearch, Needs
from keras_transformer.translation.model_step import ModelStep, prepare_weights

_MULTIPLIER = 6364136223846793005
"""Knuth's 64-bit multiplier; sums of its powers rarely collide."""


def encode(
    tokenizer: Tokenizer,
    text: tf.Tensor,
    max_length: int,
    languages: tf.Tensor | None = None,
    language_comes_last: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return ids int32 [B, T] with eos and padding, and lengths int32 [B] including eos.

    Args:
        tokenizer: The tokenizer.
        text: string [B].
        max_length: The most tokens of a text, eos included; the rest is cut off.
        languages: int32 [B], the id of the language of each text, which is its first token.
        language_comes_last: Whether the language follows eos instead.
    """
    ids = tokenizer.tokenize(text, max_length - 1 - (languages is not None))
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    ends = [tf.fill(tf.shape(lengths), EOS_ID)]
    padded = ids.to_tensor(PAD_ID)
    if languages is not None and language_comes_last:
        ends.append(languages)
    elif languages is not None:
        padded, lengths = tf.concat([languages[:, tf.newaxis], padded], axis=1), lengths + 1
    padded = tf.pad(padded, [[0, 0], [0, len(ends)]], constant_values=PAD_ID)
    places = tf.range(tf.shape(padded)[1])
    for end in ends:
        is_end = places == lengths[:, tf.newaxis]
        padded, lengths = tf.where(is_end, end[:, tf.newaxis], padded), lengths + 1
    return padded, lengths


def tree_tokens(tokenizer: Tokenizer) -> TreeTokens | None:
    """Return the tokens of a tokenizer's trees, or None if its texts are no trees."""
    if not isinstance(tokenizer, TreeTokenizer):
        return None
    return TreeTokens(
        opens=tokenizer.open_ids,
        closes=tokenizer.close_ids,
        words=tokenizer.word_ids,
        tags=tokenizer.tag_ids,
    )


class TokenSearch:
    """Finds the best translations of sentences that are already ids.

    Args:
        model: A trained `Transformer`.
        decoding: The search and its options.
        prefix: The ids that every translation starts with.
        compiled: Whether XLA compiles the search.
        device: The device that it is compiled for, "cpu" or "gpu"; by default a GPU if TensorFlow
            sees one.
        tree_tokens: The tokens of trees, if the results are to be trees over the words of the
            sources; see `decoding.TreeStep`.
        kept_tokens: The K tokens whose numbers a call may state.

    Call arguments:
        source: int [B, S], each row with eos and padding.
        lengths: int32 [B], at least 1: the number of tokens of each source, including eos.
        num_hypotheses: N, the number of translations to return for each source.
        scores: Whether to compute scores. Greedy search is faster without them.
        num_words: int32 [B], the number of words of each source, at most max(lengths - 1, 1). Only
            trees need it.
        first_tokens: int32 [B], the token that each translation begins with, at no cost: its
            language in a model of many. By default, the search chooses it.
        kept: int32 [B, 2, K], how often each of `kept_tokens` occurs in a translation, at least and
            at most; see `KeptTokensStep`. A translation has fewer than `lengths` of them.

    Raises:
        ValueError: If trees are to have a prefix, or an option that bans tokens, a device is
            unknown or given without `compiled`, or the model overrides what `ModelStep` refuses.

    Returns:
        A `SearchResult` with N translations of each source.

    >>> model = Transformer.from_size("tiny", vocab_size=100, num_layers=1)
    >>> search = TokenSearch(model, DecodingConfig(beam_size=2, extra_length=4))
    >>> tuple(search(tf.constant([[5, 6, 3]]), tf.constant([3]), num_hypotheses=2).ids.shape[:2])
    (1, 2)
    """

    def __init__(
        self,
        model: Transformer,
        decoding: DecodingConfig,
        prefix: Sequence[int] = (),
        compiled: bool = False,
        tree_tokens: TreeTokens | None = None,
        device: str | None = None,
        kept_tokens: Sequence[int] = (),
    ):
        if tree_tokens is not None and (given := decoding.not_for_trees()):
            raise ValueError(
                "Trees follow their own rules, which no other rule may contradict; received "
                f"{', '.join(given)}. Leave it out."
            )
        check_decoder(model.decoder, model)
        self.model = model
        self._tree_tokens = tree_tokens
        self._kept_tokens = tuple(kept_tokens)
        self.decoding = decoding
        self.compiled = compiled
        self.device = _device(device, compiled)
        excluded = np.zeros(model.config.target_size, "float32")
        excluded[decoding.excluded_ids] = -1e9
        self._logit_bias = excluded if decoding.renormalize else None
        self._rules = make_rules(decoding, prefix)
        has_beams = decoding.beam_size > 1 and decoding.temperature is None
        rules_come_last = has_beams and get_style(decoding.style).rules_on_log_probs
        if self._rules and rules_come_last:
            self._step_bias, self._excluded = None, excluded
            if decoding.renormalize:
                self._rules.append(lambda logits, history, position: tf.nn.log_softmax(logits))
        else:
            self._step_bias = self._logit_bias
            self._excluded = None if decoding.renormalize else excluded
        self._compiled: dict[tuple, CompiledSearch] = {}
        self._prepared = None

    def with_prepared_weights(self) -> "TokenSearch":
        """Return a search that prepares the weights once, instead of in every call.

        It is for exports: further training of the model has no effect on the copies. They take
        memory, and save a tenth of the time of a compiled search for a single sentence.
        """
        search = copy.copy(self)
        search._compiled = {}

        def variable(weight):
            return None if weight is None else tf.Variable(weight, trainable=False, name="prepared")

        search._prepared = tf.nest.map_structure(variable, prepare_weights(self.model))
        return search

    def __call__(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        num_hypotheses: int = 1,
        scores: bool = True,
        num_words: tf.Tensor | None = None,
        first_tokens: tf.Tensor | None = None,
        kept: tf.Tensor | None = None,
    ) -> SearchResult:
        source_lengths = lengths
        # The paper's limit counts tokens without eos, and `lengths` includes it on both sides.
        if self.decoding.length_factor != 1:
            product = self.decoding.length_factor * tf.cast(lengths, tf.float32)
            lengths = tf.cast(product, tf.int32)  # Rounded up, in operations of every server.
            lengths += tf.cast(tf.cast(lengths, tf.float32) < product, tf.int32)
        max_lengths = lengths + self.decoding.extra_length
        if self.decoding.max_length is not None:
            max_lengths = tf.minimum(max_lengths, self.decoding.max_length)
        if self._tree_tokens is None:
            num_words = None
        else:
            num_words = tf.zeros_like(lengths) if num_words is None else num_words
            max_lengths = tf.maximum(max_lengths, self._tree_tokens.shortest(num_words))
        if kept is not None:
            max_lengths = tf.maximum(max_lengths, tf.reduce_sum(kept[:, 0], axis=1) + 1)
        given = (() if each is None else each for each in (num_words, kept, first_tokens))
        needs = Needs(max_lengths, *given)
        options = {"num_hypotheses": num_hypotheses, "scores": scores}
        if self.compiled:
            return self._search_compiled(source, needs, **options)

        def search_single_sentence():
            # With `tf.ensure_shape`, TensorFlow's optimizer would infer a single row in the other
            # branch too, and compute wrong constants.
            row = tf.reshape(source[0, : source_lengths[0]], [1, -1])
            needed = tf.nest.map_structure(lambda each: each[:1], needs)
            return self._search(row, needed, single_sentence=True, **options)

        return tf.cond(
            tf.shape(source)[0] == 1,
            search_single_sentence,
            lambda: self._search(source, needs, **options),
        )

    def _search_compiled(self, source, needs, **options):
        """Return the result of `_search` in a graph that XLA compiles."""
        specs = tf.nest.map_structure(
            lambda each: tf.TensorSpec([None, *each.shape[1:]], tf.int32), needs
        )
        key = *options.values(), specs, self.model.kernel_version
        if key not in self._compiled:
            self._compiled[key] = CompiledSearch(
                functools.partial(self._search, **options),
                self.decoding.max_source_length,
                self.longest,
                self.device,
                specs,
            )
        return self._compiled[key](source, needs)

    def log_probs(self, logits: tf.Tensor) -> tf.Tensor:
        """Return the log-probabilities [..., V] that scores add up, for logits of the model."""
        return tf.nn.log_softmax(logits if self._logit_bias is None else logits + self._logit_bias)

    def longest(self, source_length: int) -> int:
        """Return the most tokens of a translation for the length of its source, both with eos."""
        longest = self.decoding.longest(source_length)
        if self._tree_tokens is not None:
            return max(longest, self._tree_tokens.shortest(source_length))
        return max(longest, source_length) if self._kept_tokens else longest

    def _search(
        self,
        source,
        needs,
        stage_lengths=None,
        *,
        num_hypotheses,
        scores,
        single_sentence=False,
    ):
        """Return the result for sources [B, S] and their `Needs`; see `Stages` for the lengths."""
        given = (None if isinstance(each, tuple) else each for each in needs)
        max_lengths, num_words, kept, first_tokens = given
        is_sampled = self.decoding.temperature is not None
        beam_size = num_hypotheses if is_sampled else self.decoding.beam_size
        step = ModelStep(
            self.model,
            source,
            beam_size,
            # The maximum of no numbers is negative.
            stage_lengths[-1] if stage_lengths else tf.maximum(tf.reduce_max(max_lengths), 0),
            logit_bias=self._step_bias,
            stage_lengths=stage_lengths,
            single_sentence=single_sentence,
            prepared=self._prepared,
            device=self.device,
            first_tokens=first_tokens,
        )
        state, stages, select = step.initial_state(), step.stages, step.select
        limits = {"max_lengths": max_lengths, "beam_size": beam_size}
        counting = None
        if kept is not None:
            counting = KeptTokensStep(step, self._kept_tokens, counts=kept, **limits)
        elif num_words is not None:
            counting = TreeStep(step, self._tree_tokens, num_words=num_words, **limits)
        if counting is not None:
            step, state = counting, counting.initial_state(state)
            stages, select = counting.stages(stages), counting.select(select)
        options = {
            "max_lengths": max_lengths,
            "length_penalty": self.decoding.length_penalty,
            "rules": self._rules,
            "excluded": self._excluded,
            "style": self.decoding.style,
            "device": self.device,
            "stages": stages,
            "select": select,
        }
        if is_sampled:
            return self._sample(step, state, source, num_hypotheses, options)
        return beam_search(
            step,
            state,
            beam_size=beam_size,
            num_hypotheses=num_hypotheses,
            scores=scores,
            single_sentence=single_sentence,
            **options,
        )

    def _sample(self, step, state, source, num_samples, options):
        return sample_search(
            step,
            state,
            keys=_keys(source),
            seed=self.decoding.seed,
            num_samples=num_samples,
            temperature=self.decoding.temperature,
            top_k=self.decoding.top_k,
            top_p=self.decoding.top_p,
            **options,
        )


def _device(device, compiled):
    """Return the device that operations are chosen for."""
    if device not in (None, "cpu", "gpu") or (device == "gpu" and not compiled):
        raise ValueError(
            f"device must be 'cpu' or, for a compiled search, 'gpu'; received {device!r} and "
            f"compiled={compiled}. Leave it out, or set compiled=True."
        )
    has_gpu = compiled and device is None and tf.config.get_visible_devices("GPU")
    return "gpu" if has_gpu else device or "cpu"


def _keys(source):
    """Return a number for each sentence, int64 [B], from its ids [B, S] without padding."""
    powers = tf.math.cumprod(tf.fill([tf.shape(source)[1]], tf.constant(_MULTIPLIER, tf.int64)))
    return tf.reduce_sum(tf.cast(source, tf.int64) * powers, axis=1)  # The id of padding is 0.
