"""Validation after each epoch of a run."""

import logging

import keras
import tensorflow as tf

from keras_transformer.config import DecodingConfig, ExperimentConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.evaluation import score
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.training.logs import Logs
from keras_transformer.training.text import Pairs
from keras_transformer.training.vocabularies import Tokenizers
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)


class Validation(keras.callbacks.Callback):
    """Add the validation metrics of each epoch to its logs.

    These are `val_nll` and `val_accuracy`, per token of the reference translations; `val_bleu` of
    greedy translations; and `learning_rate`.

    Args:
        batches: The validation text as token batches.
        pairs: The validation text, for BLEU.
        translator: A greedy translator of the model that trains.

    Attributes:
        translations: The last translations of the validation text.
    """

    def __init__(
        self,
        batches: TokenBatches,
        pairs: Pairs,
        translator: Translator,
    ):
        super().__init__()
        self.dataset = batches.dataset()
        self.pairs = pairs
        self.translator = translator
        self.nll = NegativeLogLikelihood()
        self.accuracy = TokenAccuracy()
        self.update = tf.function(self._update, reduce_retracing=True)
        self.translations: list[str] = []

    def _update(self, inputs, labels):
        logits = self.translator.model(inputs, training=False)
        self.nll.update_state(labels, logits)
        self.accuracy.update_state(labels, logits)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        learning_rate = float(self.model.optimizer.learning_rate)
        values = {"learning_rate": learning_rate, **self.measure()}
        if logs is not None:
            logs.update(values)

    def measure(self) -> dict[str, float]:
        """Return `val_nll`, `val_accuracy` and `val_bleu` of the current weights."""
        self.nll.reset_state()
        self.accuracy.reset_state()
        for inputs, labels in self.dataset:
            self.update(inputs, labels)
        self.translations = self.translator([source for source, _ in self.pairs])
        return {
            "val_nll": float(self.nll.result()),
            "val_accuracy": float(self.accuracy.result()),
            "val_bleu": score(self.translations, [target for _, target in self.pairs]).bleu,
        }


def greedy_validation(
    config: ExperimentConfig,
    model: keras.Model,
    tokenizers: Tokenizers,
    pairs: Pairs,
    share: int,
) -> Validation:
    """Return the validation of a run, which is on one device.

    Args:
        config: The experiment.
        model: The model that trains.
        tokenizers: Of source and target.
        pairs: The validation text, of which `training.validation_pairs` are used.
        share: A replica's share of the tokens of a training batch, the size of the batches here.
    """
    log.info("text to validate on:")
    pairs = evenly_spaced(pairs, config.training.validation_pairs)
    encoded = encode_pairs(pairs, *tokenizers, config.data.max_length)
    longest = max(encoded.source_lengths.max(), encoded.target_lengths.max())
    return Validation(
        TokenBatches(encoded, max(share, int(longest)), shuffle=False),
        pairs,
        Translator(model, *tokenizers, DecodingConfig(beam_size=1)),
    )


def evenly_spaced(pairs: Pairs, count: int | None) -> Pairs:
    """Return the given number of pairs, or all, at equal distances.

    Pairs with an empty side don't count, unless all pairs are returned.

    >>> evenly_spaced([("a", "1"), ("b", "2"), ("", ""), ("c", "3"), ("d", "4")], 2)
    [('a', '1'), ('c', '3')]
    """
    if count is None or count >= len(pairs):
        return pairs
    full = [pair for pair in pairs if all(side.strip() for side in pair)]
    count = min(count, len(full))
    return [full[number * len(full) // count] for number in range(count)]
