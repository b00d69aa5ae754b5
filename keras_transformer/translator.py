"""From text to text: subwords, encoder, search and back, in one TensorFlow graph."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from tqdm import tqdm

from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID, DecodingConfig
from keras_transformer.decoding import SearchResult, beam_search
from keras_transformer.model import Transformer
from keras_transformer.text import SentencePieceTokenizer


class Translator:
    """Translates strings with a trained model.

    Args:
        model: a trained `Transformer`.
        tokenizer: its `SentencePieceTokenizer`, for the source and, if alone, for the target.
        target_tokenizer: the target's, where the languages have separate vocabularies.
        decoding: the search, a `DecodingConfig`; by default the paper's beam of 4.

    Raises:
        ValueError: a tokenizer's size is not that of the model's vocabulary.

    >>> from keras_transformer.text import train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a b c d e f g"], 270))
    >>> model = Transformer.from_preset("tiny", vocab_size=tokenizer.vocab_size, num_layers=1)
    >>> search = DecodingConfig(beam_size=1, extra_length=2)
    >>> translator = Translator(model, tokenizer, decoding=search)
    >>> len(translator(["a b", "c"]))
    2
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: SentencePieceTokenizer,
        target_tokenizer: SentencePieceTokenizer | None = None,
        decoding: DecodingConfig | None = None,
    ):
        self.model = model
        self.tokenizer = tokenizer
        self.target_tokenizer = tokenizer if target_tokenizer is None else target_tokenizer
        self.decoding = DecodingConfig() if decoding is None else decoding
        sizes = model.config.vocab_size, model.config.target_vocab_size or model.config.vocab_size
        received = self.tokenizer.vocab_size, self.target_tokenizer.vocab_size
        if sizes != received:
            raise ValueError(
                "The tokenizers must have as many subwords as the model's vocabularies, "
                f"{sizes[0]} (source) and {sizes[1]} (target); received {received[0]} and "
                f"{received[1]}. Give the tokenizers that the model was trained with."
            )
        self._penalties = np.zeros(sizes[1], "float32")
        # The search may write everything but padding, bos and the unknown, which are no text.
        self._penalties[[PAD_ID, UNK_ID, BOS_ID]] = -1e9
        self._translate = tf.function(
            self.translate,
            input_signature=[tf.TensorSpec([None], tf.string, name="text")],
            autograph=False,
        )

    def __call__(
        self, sentences: Sequence[str], batch_size: int = 64, progress: bool = False
    ) -> list[str]:
        """Translate sentences, in their order.

        Args:
            sentences: any number of strings.
            batch_size: sentences, of similar length, that are translated at once.
            progress: whether to show a progress bar.
        """
        return translate_in_batches(self._translate, sentences, batch_size, progress)

    def translate(self, text: tf.Tensor) -> tf.Tensor:
        """Return the translations, string [B], of `text`, string [B], as ops of one graph."""
        source, lengths = self.encode_text(text)
        best = self.search(source, lengths).ids[:, 0]
        # Nothing to translate has nothing as its translation.
        return tf.where(lengths > 1, self.target_tokenizer.detokenize(best), "")

    def attention(self, sentence: str) -> tuple[list[str], list[str], np.ndarray]:
        """Return how the decoder attended to a sentence while translating it (Figures 3 to 5).

        Returns:
            The subwords of the sentence (S), those of its translation (T), and the weights of
            cross-attention, float32 [layers, H, T, S].
        """
        source, lengths = self.encode_text(tf.constant([sentence]))
        target = self.search(source, lengths).ids[:, 0]
        memory, memory_mask = self.model.encode(source, training=False)
        inputs = tf.concat([[[BOS_ID]], target[:, :-1]], axis=1)
        heads = self.model.decoder.project_memory(memory)
        weights = self.model.decode(inputs, heads, memory_mask, training=False)[2]
        return (
            self.tokenizer.id_to_piece(source[0].numpy()),
            self.target_tokenizer.id_to_piece(target[0].numpy()),
            np.stack([cross[0] for _, cross in weights]),
        )

    def encode_text(self, text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return ids [B, S], each row with eos and padding, and lengths [B] with eos, of `text`."""
        ids = self.tokenizer.tokenize(text)[:, : self.decoding.max_source_length - 1]
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        source = tf.pad(ids.to_tensor(PAD_ID), [[0, 0], [0, 1]], constant_values=PAD_ID)
        is_end = tf.range(tf.shape(source)[1]) == lengths[:, tf.newaxis]
        return tf.where(is_end, EOS_ID, source), lengths + 1

    def search(self, source: tf.Tensor, lengths: tf.Tensor) -> SearchResult:
        """Return the best translation's ids for source ids [B, S] of the given lengths [B]."""
        decoder, beam_size = self.model.decoder, self.decoding.beam_size
        memory, memory_mask = self.model.encode(source, training=False)
        memory_heads = decoder.project_memory(memory)

        def step(ids, position, cache):
            logits, cache, _ = self.model.decode(
                ids[:, tf.newaxis], memory_heads, memory_mask, cache, position, training=False
            )
            return tf.nn.log_softmax(logits[:, 0] + self._penalties), cache

        return beam_search(
            step,
            decoder.empty_cache(tf.shape(source)[0] * beam_size),
            # The paper's limit counts subwords, and `lengths` counts eos on both sides.
            max_lengths=lengths + self.decoding.extra_length,
            beam_size=beam_size,
            length_penalty=self.decoding.length_penalty,
        )


def translate_in_batches(
    translate: Callable[[tf.Tensor], tf.Tensor],
    sentences: Sequence[str],
    batch_size: int = 64,
    progress: bool = False,
) -> list[str]:
    """Translate any number of sentences in batches of similar length, and restore their order.

    Args:
        translate: from string [B] to string [B].
        sentences: what to translate.
        batch_size: sentences that are translated at once.
        progress: whether to show a progress bar.

    Raises:
        TypeError: `sentences` is a single string.
        ValueError: `batch_size` is less than 1.

    >>> translate_in_batches(tf.strings.upper, ["a", "bcd", "ef"], batch_size=2)
    ['A', 'BCD', 'EF']
    """
    if isinstance(sentences, str | bytes):
        raise TypeError(
            "sentences must be a list of strings, received a single one. Put it into a list."
        )
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, received {batch_size}. Try 64.")
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    translations = [""] * len(sentences)
    with tqdm(total=len(sentences), unit=" sentences", disable=not progress) as bar:
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            # Half a surrogate pair, as in a wrongly decoded file name, has no UTF-8 of its own.
            texts = [sentences[i].encode("utf-8", "surrogatepass") for i in batch]
            outputs = translate(tf.constant(texts))
            for i, output in zip(batch, outputs.numpy(), strict=True):
                translations[i] = output.decode("utf-8")
            bar.update(len(batch))
    return translations
