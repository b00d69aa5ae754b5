"""The text of a run: reading it, and training batches from it."""

import dataclasses
import logging
from collections.abc import Callable, Sequence

import numpy as np

from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.data import (
    EncodedPairs,
    TokenBatches,
    choose_widths,
    drop_merges,
    encode_pairs,
    read_pairs,
    read_tfds,
)
from keras_transformer.training.vocabularies import Tokenizers

log = logging.getLogger(__name__)

Pairs = Sequence[tuple[str, str]]
"""Source sentences and their translations."""


def read_text(data: DataConfig) -> tuple[Pairs, Pairs]:
    """Read the training text and the validation text, which is checked first.

    Args:
        data: Where the text is.

    Returns:
        The pairs to train on, and those to validate on.

    Raises:
        FileNotFoundError: If a file does not exist.
        ImportError, ConnectionError: See `read_tfds`.
        ValueError: If a file is damaged, or there is nothing to validate on.
    """
    validation = _read_split(data, "validation")
    if not any(source.strip() and target.strip() for source, target in validation):
        raise ValueError(
            "Validation text must have a pair of sentences that are not empty, received "
            f"{len(validation)} pairs without one in {data.validation_source or data.tfds}. Check "
            "the text."
        )
    return _read_split(data, "train"), validation


def _read_split(data: DataConfig, split: str) -> Pairs:
    options = dataclasses.asdict(data)
    if data.tfds is None:
        return read_pairs(options[f"{split}_source"], options[f"{split}_target"])
    languages = options["source_language"], options["target_language"]
    return read_tfds(data.tfds, options[f"{split}_split"], *languages)


def training_batches(
    config: ExperimentConfig, tokenizers: Tokenizers, pairs: Pairs, replicas: int
) -> TokenBatches:
    """Return the training text as token batches.

    Args:
        config: The experiment.
        tokenizers: Of source and target.
        pairs: The training text.
        replicas: Number of replicas that share each batch.

    Raises:
        ValueError: If no pair is left, or a pair does not fit the size of a batch.
    """
    training = config.training
    log.info("text to train on:")
    encoded = encode_pairs(pairs, *tokenizers, config.data.max_length)
    return TokenBatches(
        encoded,
        training.batch_tokens,
        num_replicas=replicas,
        seed=training.seed,
        steps_per_epoch=training.steps_per_epoch,
        vary=_subword_dropout(config, tokenizers, training.batch_tokens),
        widths=static_widths(config, encoded),
    )


def static_widths(config: ExperimentConfig, encoded: EncodedPairs) -> list[int] | None:
    """Return the widths of batches for XLA, if the configuration has static shapes.

    Args:
        config: The experiment.
        encoded: The text, for which the widths are chosen.
    """
    data, budget = config.data, config.training.batch_tokens
    if data.static_shapes is None:
        return None
    lengths = np.maximum(encoded.source_lengths, encoded.target_lengths)
    longest = min(data.max_length, budget) if data.subword_dropout else None
    widths = choose_widths(lengths, data.static_shapes, longest=longest)
    padded = 2 * np.asarray(widths)[np.searchsorted(widths, lengths)].sum()
    tokens = encoded.source_lengths.sum() + encoded.target_lengths.sum()
    log.info(
        "static shapes: %s; %.0f%% of the batches is padding",
        ", ".join(f"{budget // width} x {width}" for width in widths),
        100 * (1 - tokens / padded),
    )
    return widths


def _subword_dropout(
    config: ExperimentConfig, tokenizers: Tokenizers, batch_tokens: int
) -> Callable[[EncodedPairs, int], EncodedPairs] | None:
    """Return what segments the training text anew in each pass.

    No sentence becomes longer than a batch.
    """
    data, seed = config.data, config.training.seed
    if not data.subword_dropout:
        return None

    def vary(pairs, number):
        return drop_merges(
            pairs,
            tokenizers,
            data.subword_dropout,
            max_length=min(data.max_length, batch_tokens),
            seed=(seed, number),
        )

    return vary
