"""Validation after each epoch of a run."""

import functools
import logging
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from keras_transformer.config import DecodingConfig, ExperimentConfig
from keras_transformer.data import TokenBatches, encode_pairs
from keras_transformer.metrics import NegativeLogLikelihood, TokenAccuracy
from keras_transformer.training.directions import direction_scores, sample
from keras_transformer.training.logs import Logs
from keras_transformer.training.scores import output_scores
from keras_transformer.training.text import Pairs
from keras_transformer.training.vocabularies import Tokenizers
from keras_transformer.translation.translator import Translator

log = logging.getLogger(__name__)


class Validation(keras.callbacks.Callback):
    """Add the validation metrics of each epoch to its logs.

    These are `val_nll` and `val_accuracy`, per token of the references; the scores of greedy
    outputs, such as `val_bleu`; and `learning_rate`.

    Args:
        batches: The validation text as token batches.
        pairs: The validation text, for scores of outputs.
        translator: A greedy translator of the model that trains.
        scores: Returns the scores of outputs and pairs; by default `direction_scores`.

    Attributes:
        translations: The last outputs for the validation text.
    """

    def __init__(
        self,
        batches: TokenBatches,
        pairs: Pairs,
        translator: Translator,
        scores: Callable[[Sequence[str], Pairs], dict[str, float]] = direction_scores,
    ):
        super().__init__()
        self.scores = scores
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
        """Return `val_nll`, `val_accuracy`, and the scores of outputs."""
        self.nll.reset_state()
        self.accuracy.reset_state()
        for inputs, labels in self.dataset:
            self.update(inputs, labels)
        self.translations = self.translator([source for source, _ in self.pairs])
        return {
            "val_nll": float(self.nll.result()),
            "val_accuracy": float(self.accuracy.result()),
            **self.scores(self.translations, self.pairs),
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
    languages = config.data.validation_languages
    pairs = sample(pairs, config.training.validation_pairs, languages)
    encoded = encode_pairs(pairs, *tokenizers, config.data.max_length)
    longest = max(encoded.source_lengths.max(), encoded.target_lengths.max())
    return Validation(
        TokenBatches(encoded, max(share, int(longest)), shuffle=False),
        pairs,
        Translator(model, *tokenizers, _greedy(config)),
        functools.partial(output_scores, data=config.data),
    )


def _greedy(config: ExperimentConfig) -> DecodingConfig:
    # Trees are longer than their sentences, so that the limit is that of the final search.
    limits = {}
    if config.data.task == "parsing":
        names = ("extra_length", "length_factor", "max_length")
        limits = {name: getattr(config.decoding, name) for name in names}
    return DecodingConfig(beam_size=1, **limits)
