"""Validation after each epoch: the likelihood of the references, and scores of greedy outputs."""

import logging
import math
import statistics
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.config import DataConfig, DecodingConfig, ExperimentConfig
from keras_transformer.config.data import language_tag
from keras_transformer.data import EncodedPairs, TokenBatches, encode_pairs
from keras_transformer.data.languages import without_tag
from keras_transformer.evaluation import bleu_interval, score, score_brackets
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.text import Tokenizer
from keras_transformer.training.corpora import Pairs
from keras_transformer.training.vocabularies import Tokenizers, run_languages
from keras_transformer.translation.languages import language_columns
from keras_transformer.translation.translator import Translator
from keras_transformer.trees import parse_tree

log = logging.getLogger(__name__)

SELECTING = {"translation": "val_bleu", "parsing": "val_f1"}
"""For each task, the score that selects the best epoch."""

NAMES = {"nll": "NLL", "bleu": "BLEU", "f1": "F1", "chrf": "chrF"}
"""How scores are called in messages."""


class Validation(keras.callbacks.Callback):
    """Add the validation metrics of each epoch to its logs.

    These are `val_nll` and `val_accuracy`, per token of the references; the scores of greedy
    outputs, such as `val_bleu`; and `learning_rate`.

    Args:
        batches: The validation text as token batches.
        pairs: The validation text, for scores of outputs.
        translator: A greedy translator of the model that trains.
        data: The data section of the run, for the kind of these scores.
        share: The share that the pairs are of the whole validation text. Below 1, the logs get
            `val_noise`: the BLEU of the whole text is within plus or minus this with 95%
            confidence.

    Attributes:
        translations: The last outputs for the validation text.
    """

    def __init__(
        self,
        batches: TokenBatches,
        pairs: Pairs,
        translator: Translator,
        data: DataConfig,
        share: float = 1.0,
    ):
        super().__init__()
        self.share = share
        self.dataset = batches.dataset()
        self.pairs = pairs
        self.data = data
        plain, self._languages = _without_directions(pairs, data)
        self._sources = [source for source, _ in plain]
        self.translator = translator
        self.nll = NegativeLogLikelihood()
        self.accuracy = TokenAccuracy()
        self.update = tf.function(self._update, reduce_retracing=True)
        self.translations: list[str] = []

    def _update(self, inputs, labels):
        logits = self.translator.model(inputs, training=False)
        self.nll.update_state(labels, logits)
        self.accuracy.update_state(labels, logits)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        learning_rate = float(self.model.optimizer.learning_rate)
        values = {"learning_rate": learning_rate, **self.measure()}
        if self.share < 1 and self.data.task == "translation":
            values["val_noise"] = subset_noise(self.translations, self.pairs, self.data, self.share)
        if logs is not None:
            logs.update(values)

    def measure(self) -> dict[str, float]:
        """Return `val_nll`, `val_accuracy`, and the scores of outputs."""
        self.nll.reset_state()
        self.accuracy.reset_state()
        for inputs, labels in self.dataset:
            self.update(inputs, labels)
        self.translations = self.translator(self._sources, **self._languages)
        return {
            "val_nll": float(self.nll.result()),
            "val_accuracy": float(self.accuracy.result()),
            **output_scores(self.translations, self.pairs, self.data),
        }


def greedy_validation(
    config: ExperimentConfig, model: keras.Model, tokenizers: Tokenizers, pairs: Pairs, share: int
) -> Validation:
    """Return the validation of a run, which is on one device and on `training.validation_pairs`.

    Its batches have a replica's share of the tokens of a training batch.
    """
    names = ["source_language", "target_language"]
    if config.data.task == "parsing":
        # Trees are longer than their sentences, so the final search sets the limit.
        names += ["extra_length", "length_factor", "max_length"]
    options = {name: getattr(config.decoding, name) for name in names}
    if config.data.directions:
        first = config.data.directions[config.data.validation_languages[0]]
        options["source_language"], options["target_language"] = first
    translator = Translator(model, *tokenizers, DecodingConfig(beam_size=1, **options))
    some, encoded = validation_sample(config, tokenizers, pairs)
    return Validation(
        token_batches(encoded, share), some, translator, config.data, len(some) / len(pairs)
    )


def token_batches(encoded: EncodedPairs, size: int) -> TokenBatches:
    """Return batches to validate on, of the given size or of that of the longest sentence."""
    longest = max(encoded.source_lengths.max(), encoded.target_lengths.max())
    return TokenBatches(encoded, max(size, int(longest)), shuffle=False)


def validation_sample(
    config: ExperimentConfig, tokenizers: Tokenizers, pairs: Pairs
) -> tuple[Pairs, EncodedPairs]:
    """Return the pairs that epochs are validated on, and the same encoded."""
    log.info("text to validate on:")
    pairs = sample(pairs, config.training.validation_pairs, config.data.validation_languages)
    return pairs, encode_validation(config, tokenizers, pairs)


def encode_validation(
    config: ExperimentConfig, tokenizers: Tokenizers, pairs: Pairs
) -> EncodedPairs:
    """Return the validation text, or a part of it, encoded."""
    languages: Sequence[str | Sequence[str]] = next(iter(run_languages(config, tokenizers[0])), ())
    pairs, named = _without_directions(pairs, config.data)
    if named:
        languages = language_columns(named, {}, tokenizers[0], len(pairs))
    return encode_pairs(pairs, *tokenizers, config.data.max_length, languages)


def _without_directions(pairs: Pairs, data: DataConfig) -> tuple[Pairs, dict[str, Any]]:
    """Return pairs without tags of two languages, which no vocabulary has, and these languages.

    The languages are arguments of a `Translator`; none for text of a single direction.
    """
    if not (directions := data.directions):
        return pairs, {}
    found = [data.validation_languages[0]] * len(pairs)
    for name, places in _places(pairs, data.validation_languages).items():
        for i in places:
            found[i] = name
    plain = [(without_tag(source), target) for source, target in pairs]
    sources, targets = (
        list(side) for side in zip(*(directions[name] for name in found), strict=True)
    )
    return plain, {"source_language": sources, "target_language": targets}


def sample(pairs: Pairs, count: int | None, languages: Sequence[str] = ()) -> Pairs:
    """Return the given number of pairs, or all, at equal distances.

    With languages, each has an equal share, rounded up, or all of its pairs if it has fewer. Pairs
    with an empty side don't count, unless all pairs are returned.

    >>> sample([("a", "1"), ("b", "2"), ("", ""), ("c", "3"), ("d", "4")], 2)
    [('a', '1'), ('c', '3')]
    """
    if count is None:
        return pairs
    groups = [pairs]
    if languages:
        groups = [[pairs[i] for i in places] for places in _places(pairs, languages).values()]
    share = -(-count // len(groups))
    return [pair for group in groups for pair in _evenly_spaced(group, share)]


def _evenly_spaced(pairs: Pairs, count: int) -> Pairs:
    if count >= len(pairs):
        return pairs
    full = [pair for pair in pairs if all(side.strip() for side in pair)]
    count = min(count, len(full))
    return [full[number * len(full) // count] for number in range(count)]


def output_scores(outputs: Sequence[str], pairs: Pairs, data: DataConfig) -> dict[str, float]:
    """Return the scores of outputs for validation sources; the one that selects comes first.

    For translations these are `direction_scores`. For trees, they are `val_f1` and
    `val_complete_match` of `score_brackets`.

    >>> data = DataConfig(task="parsing", train_source="a.mrg", validation_source="b.mrg")
    >>> pairs = [("We left", "(S (NP (PRP We)) (VP (VBD left)))")]
    >>> output_scores(["(S (NP (XX We)) (NP (XX left)))"], pairs, data)["val_f1"]
    66.66666666666667
    """
    if data.task == "translation":
        return direction_scores(outputs, pairs, data.validation_languages)
    references = [parse_tree(tree) for _, tree in pairs]
    found = score_brackets([parse_tree(output) for output in outputs], references)
    return {"val_f1": found.f1, "val_complete_match": found.complete_match}


def direction_scores(
    translations: Sequence[str], pairs: Pairs, languages: Sequence[str] = ()
) -> dict[str, float]:
    """Return `val_bleu`, `val_chrf`, and with languages the BLEU of each, such as `val_bleu_de`.

    With languages, whose tags the sources have, `val_bleu` and `val_chrf` are the means of theirs,
    whatever their numbers of sentences. Pairs with an empty source, which has no tag, don't count.

    >>> pairs = [(">>de<< a dog here", "ein Hund ist hier"), (">>fr<< a cat", "un chat est ici")]
    >>> scores = direction_scores(["ein Hund ist hier", "der Hund"], pairs, ["de", "fr"])
    >>> {name: round(bleu) for name, bleu in scores.items()}
    {'val_bleu': 50, 'val_chrf': 53, 'val_bleu_de': 100, 'val_bleu_fr': 0}
    """
    groups = _groups(translations, pairs, languages)
    scores = {language: score(*group) for language, group in groups.items()}
    return {
        "val_bleu": statistics.fmean(each.bleu for each in scores.values()),
        "val_chrf": statistics.fmean(each.chrf for each in scores.values()),
        **{f"val_bleu_{language}": scores[language].bleu for language in languages},
    }


def subset_noise(
    translations: Sequence[str], pairs: Pairs, data: DataConfig, share: float
) -> float:
    """Return how far `val_bleu` of a part of a text is from that of the whole, with 95% confidence.

    The part is evenly spaced. Sentences are resampled, independently for each language.
    """
    groups = _groups(translations, pairs, data.validation_languages).values()
    widths = [bleu_interval(*group) for group in groups]
    return math.sqrt(1 - share) * math.hypot(*widths) / len(widths)


def _groups(
    translations: Sequence[str], pairs: Pairs, languages: Sequence[str]
) -> dict[str, tuple[list[str], list[str]]]:
    """Return the translations and the references of each language, or of all under ""."""
    places = _places(pairs, languages) if languages else {"": range(len(pairs))}
    return {
        language: ([translations[i] for i in of], [pairs[i][1] for i in of])
        for language, of in places.items()
    }


def _places(pairs: Pairs, languages: Sequence[str]) -> dict[str, Sequence[int]]:
    """Return where the pairs of each language are."""
    return {
        language: [
            i for i, (source, _) in enumerate(pairs) if source.startswith(language_tag(language))
        ]
        for language in dict.fromkeys(languages)
    }


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
                "pairs must have at least one sentence pair, received an empty list. Hold some "
                "back from training."
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
