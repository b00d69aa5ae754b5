"""What a translator tells of its model: scores, attention, likely tokens and word alignments."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from keras_transformer.config import PAD_ID, DecodingConfig
from keras_transformer.decoding import score_tokens
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer, TreeTokenizer
from keras_transformer.translation.alignment import (
    Alignments,
    align_words,
    attended_tokens,
    check_head,
    head_names,
    split_words,
)
from keras_transformer.translation.batching import list_of_strings
from keras_transformer.translation.graph_method import HOST, TEXT, graph_method
from keras_transformer.translation.search import TokenSearch, encode
from keras_transformer.translation.teacher_forcing import (
    decode_whole,
    in_parts,
    inspect_ids,
    mean_cross_attention,
)

_IDS = tf.TensorSpec([None, None], tf.int32)


class Inspection:
    """The methods of a `Translator` that run its model on texts and their known translations."""

    model: Transformer
    tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    decoding: DecodingConfig
    encode_text: Any
    _token_search: TokenSearch
    _search_text: Any
    _languages: Any

    @graph_method(TEXT, tf.TensorSpec([None], tf.string, name="translation"))
    def score(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the scores of given translations.

        Each translation is split into tokens first. A search may find the same text in other
        tokens, which have another score; `score_ids` scores the tokens that it found. A
        translation longer than any that the search could find is cut off.

        Args:
            text: string [B].
            translation: string [B].

        Returns:
            A dictionary:
            - `score`: float32 [B], log-probability / length penalty, including eos and without the
              rules of the search.
            - `length`: int32 [B], the number of tokens of the translation, including eos.
        """
        # `tf.stack` fails on inputs of different lengths.
        with tf.device(HOST):
            text, translation = tf.unstack(tf.stack([text, translation]))
            longest = self._token_search.longest(self.decoding.max_source_length)
            languages = self._languages(text, "target_language")
            target, lengths = encode(self.target_tokenizer, translation, longest, languages)
        return {"score": self.score_ids(self.encode_text(text)[0], target), "length": lengths}

    @graph_method(_IDS, _IDS)
    def score_ids(self, source: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Return the scores of translations that are already ids, float32 [B].

        Args:
            source: int32 [B, S], each row with eos and padding; see `encode_text`.
            target: int32 [B, T], each row with eos, unless it is unfinished, and padding, as in the
                `ids` that `search` returns.
        """

        def score_some(source, target):
            logits, _ = decode_whole(self.model, source, target)
            log_probs = self._token_search.log_probs(logits)
            if self.tokenizer.languages:  # The language of a translation has no cost.
                log_probs = tf.concat([tf.zeros_like(log_probs[:, :1]), log_probs[:, 1:]], axis=1)
            alpha, style = self.decoding.length_penalty, self.decoding.style
            return score_tokens(log_probs, target, alpha, style=style)

        return in_parts(score_some, source, target, tf.zeros([0]), self.model.config.target_size)

    @graph_method(TEXT)
    def attention(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the attention of the decoder to the text while translating it.

        For each layer, it is the mean over the heads; `inspect` keeps them apart.

        Args:
            text: string [B].

        Returns:
            A dictionary:
            - `source_tokens`: string [B, S], the tokens of the text with eos, then "".
            - `target_tokens`: string [B, T], the tokens of the translation, likewise.
            - `attention`: float32 [B, layers, T, S], the cross-attention of each layer. A row sums
              to 1, or is 0 after the end of the translation.
        """
        source, best = self._search_text(text, num_hypotheses=1)
        target = best.ids[:, 0]
        weights = mean_cross_attention(self.model, source, target)
        return {**self._pieces(source, target), "attention": weights}

    @graph_method(TEXT)
    def inspect(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the attention of every head, and the likeliest tokens at each step.

        The model reads the text and its translation once more. A row of weights sums to 1, or is 0
        for padding. Probabilities are those that scores add up, before the rules of the search;
        that of the language of a translation is 1.

        Args:
            text: string [B].

        Returns:
            A dictionary:
            - `source_tokens`: string [B, S], the tokens of the text with eos, then "".
            - `target_tokens`: string [B, T], the tokens of the translation, likewise.
            - `encoder_attention`: float32 [B, layers, H, S, S], of the text to itself.
            - `decoder_attention`: float32 [B, layers, H, T, T], of each target token to bos (key 0)
              and to the target tokens before it (key i is target token i - 1).
            - `cross_attention`: float32 [B, layers, H, T, S], of each target token to the text.
            - `probabilities`: float32 [B, T], of each target token after those before it.
            - `candidates`: string [B, T, 5], the likeliest tokens in its place, likeliest first.
            - `candidate_probabilities`: float32 [B, T, 5].
        """
        source, best = self._search_text(text, num_hypotheses=1)
        target = best.ids[:, 0]
        log_probs = self._token_search.log_probs
        found = inspect_ids(self.model, source, target, log_probs, self.decoding)
        if self.tokenizer.languages:  # As in `score_ids`.
            is_text = tf.cast(target[:, :1] != PAD_ID, tf.float32)
            found["probabilities"] = tf.concat([is_text, found["probabilities"][:, 1:]], axis=1)
        with tf.device(HOST):
            candidates = self.target_tokenizer.pieces(found["candidates"])
        return {**self._pieces(source, target), **found, "candidates": candidates}

    def align(
        self, sources: Iterable[str], translations: Iterable[str], head: str | None = None
    ) -> Alignments:
        """Return links between the words of texts and of their translations.

        A word of a translation is linked to the words of the text that its tokens attend to most.
        Words are separated by white space. Languages and their tags have no links, and neither do
        words beyond the limits of the search. Few attention heads align words well. By default, the
        head is chosen whose links, read as a dictionary, predict the translations best.

        Args:
            sources: Any number of texts.
            translations: A translation of each, of this model or any other.
            head: The attention head as layer.head.step, such as the one that was chosen for other
                text: "2.1.input" is the first head of the second layer at the step that reads a
                token of the translation, and "4.mean.output" the mean over the heads of the fourth
                layer at the step that predicts it. By default, one is chosen on the first 500
                pairs.

        Returns:
            The `links` of each pair, as numbers of words from 0, and the `head`.

        Raises:
            TypeError: If an argument is a single string, or holds anything but strings.
            ValueError: If the numbers of texts differ, the model has no such head, it is not given
                for fewer than 100 pairs, the translations are trees, or a model of many languages
                has no default ones.

        Example:

        ```python
        found = translator.align(["A dog runs."], ["Ein Hund rennt."], head="2.1.input")
        found.links  # [[(0, 0), (1, 1), (2, 2)]]
        ```
        """
        sources = list_of_strings(sources, "sources")
        translations = list_of_strings(translations, "translations")
        if len(sources) != len(translations):
            raise ValueError(
                "There must be a translation for each source, received "
                f"{len(sources)} sources and {len(translations)} translations."
            )
        if isinstance(self.target_tokenizer, TreeTokenizer):
            raise ValueError("A parser cannot align: its trees have the words of the text.")
        names = head_names(self.model.config)
        both = zip(sources, translations, strict=True)
        check_head(head, names, [source for source, text in both if text.split()])
        longest = self.decoding.max_source_length
        source, target = (
            self._languages(tf.constant(""), f"{side}_language") for side in ("source", "target")
        )
        last = self.tokenizer.language_comes_last
        target_longest = self._token_search.longest(longest)
        pairs = (
            split_words(self.tokenizer, sources, longest, source, last),
            split_words(self.target_tokenizer, translations, target_longest, target),
        )
        return align_words(self._attended, *pairs, names, head)

    @graph_method(_IDS, _IDS)
    def _attended(self, source, target):
        return attended_tokens(self.model, source, target)

    def _pieces(self, source, target):
        with tf.device(HOST):
            return {
                "source_tokens": self.tokenizer.pieces(source),
                "target_tokens": self.target_tokenizer.pieces(target),
            }
