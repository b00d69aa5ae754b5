"""From a source's ids to its translations' ids: encoder and search, compiled or not."""

import copy
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from keras_transformer.translation.compiled_search import CompiledSearch
from keras_transformer.config import BOS_ID, PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.decoding import SearchResult, beam_search, make_rules, sample_search
from keras_transformer.model import Transformer
from keras_transformer.translation.model_step import ModelStep, step_kernels

_MULTIPLIER = 6364136223846793005  # Knuth's, of 64 bits: sentences hardly share a sum of powers.


class TokenSearch:
    """Finds the best translations of sentences that are ids already.

    Args:
        model: a trained `Transformer`.
        decoding: which search, and its options.
        prefix: ids that every translation begins with.
        compiled: whether XLA compiles the search.

    Call arguments:
        source: int [B, S], each row with eos and padding.
        lengths: int32 [B], at least 1, of the sources, eos included. What follows is padding.
        num_hypotheses: N, how many to return.
        scores: whether to score them. Greedy search needs none to find its way.

    Returns:
        A `SearchResult` of N translations for each source.

    >>> model = Transformer.from_preset("tiny", vocab_size=100, num_layers=1)
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
    ):
        self.model = model
        self.decoding = decoding
        self.compiled = compiled
        self.penalties = np.zeros(model.config.target_size, "float32")
        # The search may write everything but padding, bos and the unknown, which are no text.
        self.penalties[[PAD_ID, UNK_ID, BOS_ID]] = -1e9
        self._rules = make_rules(decoding, prefix)
        self._compiled = {}
        self._kernels = None

    def keep_kernels(self) -> "TokenSearch":
        """Return one that computes `step_kernels` once, and not in every search.

        It is for an export, as its copies of the weights do not change when the model is trained.
        They take memory, and save a tenth of the time of a compiled search for one sentence.
        """
        kept = copy.copy(self)
        kept._compiled = {}
        kept._kernels = tf.nest.map_structure(_keep, step_kernels(self.model))
        return kept

    def __call__(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        num_hypotheses: int = 1,
        scores: bool = True,
    ) -> SearchResult:
        # The paper's limit counts subwords, and `lengths` counts eos on both sides.
        limits = lengths + self.decoding.extra_length
        if self.decoding.max_length is not None:
            limits = tf.minimum(limits, self.decoding.max_length)
        if not self.compiled:
            options = num_hypotheses, scores

            def search_alone():
                # With `tf.ensure_shape` TensorFlow's optimiser would take the other branch to have
                # one row as well, and compute wrong constants.
                without_padding = tf.reshape(source[0, : lengths[0]], [1, -1])
                return self._search(without_padding, limits[:1], *options)

            return tf.cond(
                tf.shape(source)[0] == 1,
                search_alone,
                lambda: self._search(source, limits, *options),
            )
        key = num_hypotheses, scores
        if key not in self._compiled:
            self._compiled[key] = CompiledSearch(
                lambda source, limits, sizes: self._search(source, limits, *key, sizes),
                self.decoding.max_source_length,
                self.decoding.extra_length,
            )
        return self._compiled[key](source, limits)

    def _search(self, source, limits, num_hypotheses, scores, sizes=None):
        options = self.decoding
        is_sampled = options.temperature is not None
        step = ModelStep(
            self.model,
            source,
            num_hypotheses if is_sampled else options.beam_size,
            # Over a batch of 0 the maximum is negative.
            max_length=sizes[-1] if sizes else tf.maximum(tf.reduce_max(limits), 0),
            logit_bias=self.penalties,
            sizes=sizes,
            kernels=self._kernels,
        )
        given = {
            "max_lengths": limits,
            "length_penalty": options.length_penalty,
            "rules": self._rules,
            "stages": step.stages,
            "select": step.select,
        }
        if is_sampled:
            return sample_search(
                step,
                step.initial_state(),
                keys=_keys(source),
                seed=options.seed,
                num_samples=num_hypotheses,
                temperature=options.temperature,
                top_k=options.top_k,
                top_p=options.top_p,
                **given,
            )
        return beam_search(
            step,
            step.initial_state(),
            beam_size=options.beam_size,
            num_hypotheses=num_hypotheses,
            scores=scores,
            **given,
        )


def _keep(kernel):
    return None if kernel is None else tf.Variable(kernel, trainable=False, name="kept_kernel")


def _keys(source):
    """Return a number for each sentence, int64 [B], from its ids [B, S] whatever their padding."""
    powers = tf.math.cumprod(tf.fill([tf.shape(source)[1]], tf.constant(_MULTIPLIER, tf.int64)))
    return tf.reduce_sum(tf.cast(source, tf.int64) * powers, axis=1)  # the id of padding is 0
