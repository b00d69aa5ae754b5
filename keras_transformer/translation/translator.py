"""From text to text: subwords, encoder, search and back, in one TensorFlow graph."""

import copy
from collections.abc import Sequence

import tensorflow as tf

from keras_transformer.translation.batching import translate_in_batches
from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, DecodingConfig
from keras_transformer.decoding import UNFILLED_SCORE, SearchResult, score_tokens
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer
from keras_transformer.translation.search import TokenSearch

_TEXT = tf.TensorSpec([None], tf.string, name="text")
_MOST_TOKENS = 4096
"""How many of a batch, padding included, are scored at a time."""


class Translator:
    """Translates strings with a trained model.

    Called, it translates any number of sentences. Its other methods are what the exported model
    does, from `text`, string [B], to tensors of B rows, each of which depends on its row of `text`
    alone. A text without subwords, such as "" or a space, has the translation "" of length 0 and
    score 0. Bytes that are not UTF-8 count as U+FFFD, and of a text of more than
    `decoding.max_source_length` subwords the first are translated.

    Args:
        model: a trained `Transformer`.
        tokenizer: its `SentencePieceTokenizer` or `WordPieceTokenizer`, for the source and, if
            alone, for the target.
        target_tokenizer: the target's, where the languages have separate vocabularies.
        decoding: the search, a `DecodingConfig`; by default the paper's beam of 4.
        compiled: whether XLA compiles the search: faster, most of all for a single sentence, after
            some seconds at the first use of each size of input.

    Raises:
        ValueError: a tokenizer's size is not that of the model's vocabulary.

    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a b c d e f g"], 270))
    >>> model = Transformer.from_preset("tiny", vocab_size=tokenizer.vocab_size, num_layers=1)
    >>> search = DecodingConfig(beam_size=1, extra_length=2)
    >>> translator = Translator(model, tokenizer, decoding=search)
    >>> len(translator(["a b", "c"]))
    2
    >>> sorted(translator.n_best(["a b", "c"]))
    ['scores', 'translations']
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        decoding: DecodingConfig | None = None,
        compiled: bool = False,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.decoding = DecodingConfig() if decoding is None else decoding
        sizes = model.config.vocab_size, model.config.target_size
        received = self.tokenizer.vocab_size, self.target_tokenizer.vocab_size
        if sizes != received:
            raise ValueError(
                "The tokenizers must have as many subwords as the model's vocabularies, "
                f"{sizes[0]} (source) and {sizes[1]} (target); received {received[0]} and "
                f"{received[1]}. Give the tokenizers that the model was trained with."
            )
        prefix = self.target_tokenizer.tokenize([self.decoding.prefix])[0].numpy().tolist()
        self._token_search = TokenSearch(model, self.decoding, prefix, compiled)

    @property
    def compiled(self) -> bool:
        """Whether XLA compiles the search."""
        return self._token_search.compiled

    def keep_kernels(self) -> "Translator":
        """Return a translator whose search computes its kernels once: see `TokenSearch`."""
        kept = copy.copy(self)
        kept._token_search = self._token_search.keep_kernels()
        return kept

    def __call__(
        self, sentences: Sequence[str], batch_size: int = 64, progress: bool = False
    ) -> list[str]:
        """Translate sentences, in their order, as `translate_in_batches` does.

        Args:
            sentences: any number of strings.
            batch_size: sentences, of similar length, that are translated at once.
            progress: whether to show a progress bar.
        """
        return translate_in_batches(self.translate, sentences, batch_size, progress)

    @tf.function(input_signature=[_TEXT], autograph=False)
    def translate(self, text: tf.Tensor) -> tf.Tensor:
        """Return the translations, string [B]."""
        # Greedy search is faster without scores; what has them anyway shares its graph.
        scores = self.decoding.beam_size > 1 or self.decoding.temperature is not None
        best = self._search_text(text, num_hypotheses=1, scores=scores)[1]
        return self.target_tokenizer.detokenize(best.ids[:, 0])

    @tf.function(input_signature=[_TEXT], autograph=False)
    def translate_with_scores(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the translations and what the search thinks of them.

        Returns:
            translation: string [B].
            score: float32 [B], log-probability / length penalty, at most 0.
            length: int32 [B], its subwords, eos included.
        """
        best = self._search_text(text, num_hypotheses=1)[1]
        return {
            "translation": self.target_tokenizer.detokenize(best.ids[:, 0]),
            "score": best.scores[:, 0],
            "length": best.lengths[:, 0],
        }

    @tf.function(input_signature=[_TEXT], autograph=False)
    def n_best(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the N = `decoding.num_hypotheses` best translations, best first.

        Two may be the same text in other subwords. Where there are fewer than N, the rest are ""
        with score -1e9.

        Returns:
            translations: string [B, N].
            scores: float32 [B, N].
        """
        n = self.decoding.num_hypotheses or self.decoding.beam_size
        found = self._search_text(text, num_hypotheses=n)[1]
        batch, length = tf.shape(found.ids)[0], tf.shape(found.ids)[2]
        translations = self.target_tokenizer.detokenize(tf.reshape(found.ids, [batch * n, length]))
        return {"translations": tf.reshape(translations, [-1, n]), "scores": found.scores}

    @tf.function(
        input_signature=[_TEXT, tf.TensorSpec([None], tf.string, name="translation")],
        autograph=False,
    )
    def score(self, text: tf.Tensor, translation: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return what the model thinks of given translations, string [B].

        Of a translation that is longer than any source and `extra_length`, the beginning counts.

        Returns:
            score: float32 [B], log-probability / length penalty, with eos and without the rules
                of the search.
            length: int32 [B], the translation's subwords, eos included.
        """
        # Packing refuses inputs of different sizes.
        text, translation = tf.unstack(tf.stack([text, translation]))
        longest = self.decoding.max_source_length + self.decoding.extra_length
        target, lengths = _encode(self.target_tokenizer, translation, longest)
        return {"score": self._score_ids(self.encode_text(text)[0], target), "length": lengths}

    @tf.function(input_signature=[_TEXT], autograph=False)
    def attend(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return how the decoder attended to the text while translating it.

        The heads of a layer share the work, and their mean shows all of it at a fraction of the
        size; `plots.sentence_attention` has them apart.

        Returns:
            source_tokens: string [B, S], the text's subwords and eos, then "".
            target_tokens: string [B, T], the translation's, likewise.
            attention: float32 [B, layers, T, S], each layer's cross-attention: what a target
                subword takes from each of the source, 1 in all; 0 where there is no subword.
        """
        source, best = self._search_text(text, num_hypotheses=1)
        target = best.ids[:, 0]
        _, weights = self._decode_whole(source, target)
        is_token = (target != PAD_ID)[:, tf.newaxis, :, tf.newaxis]
        weights = [tf.where(is_token, cross, 0.0) for _, cross in weights]
        return {
            "source_tokens": self.tokenizer.pieces(source),
            "target_tokens": self.target_tokenizer.pieces(target),
            "attention": tf.stack([tf.reduce_mean(heads, axis=1) for heads in weights], axis=1),
        }

    @tf.function(autograph=False)
    def _search_text(self, text, num_hypotheses, scores=True):
        """Return the ids [B, S] of a text, and the result of its search."""
        source, lengths = self.encode_text(text)
        found = self.search(source, lengths, num_hypotheses, scores)
        # An empty text has an empty translation.
        is_text = lengths[:, tf.newaxis] > 1
        nothing = tf.one_hot(0, num_hypotheses, on_value=0.0, off_value=UNFILLED_SCORE)
        return source, SearchResult(
            ids=tf.where(is_text[:, :, tf.newaxis], found.ids, PAD_ID),
            scores=tf.where(is_text, found.scores, nothing),
            lengths=tf.where(is_text, found.lengths, 0),
        )

    def _score_ids(self, source, target):
        """Return the scores [B] of ids [B, T] for ids [B, S], in parts: [B, T, V] may be large."""
        size = tf.maximum(tf.shape(source)[1], tf.shape(target)[1])
        rows = tf.maximum(_MOST_TOKENS // size, 1)

        def score_some(start, scores):
            part = slice(start, start + rows)
            logits, _ = self._decode_whole(source[part], target[part])
            log_probs = tf.nn.log_softmax(logits + self._token_search.penalties)
            found = score_tokens(log_probs, target[part], self.decoding.length_penalty)
            return start + rows, tf.concat([scores, found], axis=0)

        return tf.while_loop(
            lambda start, scores: start < tf.shape(target)[0],
            score_some,
            (0, tf.zeros([0])),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )[1]

    def _decode_whole(self, source, target):
        """Return logits [B, T, V] and attention weights for ids [B, S] and [B, T] with eos."""
        memory, memory_mask = self.model.encode(source, training=False)
        inputs = tf.pad(target[:, :-1], [[0, 0], [1, 0]], constant_values=BOS_ID)
        return self.model.decode(inputs, memory, memory_mask, training=False)

    def encode_text(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return ids [B, S], each row with eos and padding, and lengths [B] with eos, of `text`."""
        return _encode(self.tokenizer, text, self.decoding.max_source_length)

    def search(
        self,
        source: tf.Tensor,
        lengths: tf.Tensor,
        num_hypotheses: int = 1,
        scores: bool = True,
    ) -> SearchResult:
        """Return the best translations' ids for ids [B, S] of lengths [B], as `TokenSearch`."""
        return self._token_search(source, lengths, num_hypotheses, scores)


def _encode(tokenizer, text, max_length):
    """Return ids [B, T], each row with eos and padding, and lengths [B] with eos, of `text`."""
    ids = tokenizer.tokenize(text, max_length - 1)
    lengths = tf.cast(ids.row_lengths(), tf.int32)
    padded = tf.pad(ids.to_tensor(PAD_ID), [[0, 0], [0, 1]], constant_values=PAD_ID)
    is_end = tf.range(tf.shape(padded)[1]) == lengths[:, tf.newaxis]
    return tf.where(is_end, EOS_ID, padded), lengths + 1
