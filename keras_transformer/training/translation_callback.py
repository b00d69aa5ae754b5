"""Watch translations while a model trains."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_transformer.config import DecodingConfig
from keras_transformer.evaluation import score
from keras_transformer.text import Tokenizer
from keras_transformer.translation.translator import Translator


class TranslationCallback(keras.callbacks.Callback):
    """Add the BLEU of greedy translations to the logs of each epoch, and print samples.

    Logs get `val_bleu`, sacreBLEU's, for other callbacks such as `keras.callbacks.EarlyStopping`.
    Put it before those.

    Args:
        pairs: Sentences and their reference translations, which the model does not train on.
        tokenizer: The tokenizer of the model.
        target_tokenizer: The tokenizer of the target, if the languages have separate vocabularies.
        samples: The number of translations to print after each epoch.

    Raises:
        ValueError: If there are no pairs.

    >>> from keras_transformer import Transformer
    >>> from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece
    >>> tokenizer = SentencePieceTokenizer(train_sentencepiece(["a dog", "a cat"], vocab_size=269))
    >>> watch = TranslationCallback([("a dog", "a cat")], tokenizer, samples=1)
    >>> model = Transformer.from_size("tiny", vocab_size=269, num_layers=1)
    >>> watch.set_model(model)  # As `model.fit(batches, callbacks=[watch])` does.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        *,
        samples: int = 2,
    ):
        super().__init__()
        if not pairs:
            raise ValueError(
                "pairs must have at least one sentence pair, received none. Hold some back from "
                "training."
            )
        self.sources, self.references = map(list, zip(*pairs, strict=True))
        self.tokenizers = tokenizer, target_tokenizer
        self.samples = samples

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self.translator = Translator(self.model, *self.tokenizers, DecodingConfig(beam_size=1))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        translations = self.translator(self.sources)
        bleu = score(translations, self.references).bleu
        if logs is not None:
            logs["val_bleu"] = bleu
        print(f"\nEpoch {epoch + 1}: validation BLEU (greedy) {bleu:.1f}")
        shown = slice(self.samples)
        for source, translation in zip(self.sources[shown], translations[shown], strict=True):
            print(f"  {source}\n  -> {translation}")
