"""The text of a run: where it is, its encoded files, and training batches from it."""

import dataclasses
import functools
import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.config.data import as_list
from keras_transformer.data import (
    EncodedPairs,
    SubwordDropout,
    TokenBatches,
    WordDropout,
    read_pairs,
    read_tfds,
    read_trees,
)
from keras_transformer.data.batching import choose_widths, rows_per_batch
from keras_transformer.data.cleaning import CleaningRules
from keras_transformer.data.encoded_files import Corpus, digest, encode_to_files, is_encoded_text
from keras_transformer.data.languages import tag_sources, temperature_weights
from keras_transformer.data.sources import existing_file, stream_pairs
from keras_transformer.data.tfds import stream_tfds, tfds_version
from keras_transformer.data.trees import stream_tree_pairs, tree_files, tree_pair
from keras_transformer.text import SentencePieceTokenizer, Tokenizer, WordTokenizer

log = logging.getLogger(__name__)

Pairs = Sequence[tuple[str, str]]
"""Source sentences and their translations."""


def read_validation(data: DataConfig) -> Pairs:
    """Read the validation text.

    Args:
        data: Where the text is.

    Returns:
        The pairs of all files. With `data.validation_languages`, the sources have tags.

    Raises:
        FileNotFoundError: If a file does not exist.
        ImportError, ConnectionError: See `read_tfds`.
        ValueError: If a file is damaged, or one has nothing to validate on.
    """
    if data.tfds is not None:
        pairs = read_tfds(data.tfds, data.validation_split, *_languages(data))
        parts = [_usable(pairs, data.tfds)]
    else:
        files = _files(data.validation_source, data.validation_target)
        parts = [_usable(_read(data, paths), paths[0]) for paths in files]
    if data.validation_languages:
        tagged = zip(parts, data.validation_languages, strict=True)
        parts = [list(tag_sources(part, language)) for part, language in tagged]
    return list(chain.from_iterable(parts))


def _read(data: DataConfig, paths: Sequence[str]) -> Pairs:
    if data.task == "parsing":
        return [tree_pair(tree, tagged=data.word_tags == "source") for tree in read_trees(paths[0])]
    return read_pairs(*paths)


def _usable(validation: Pairs, name: str) -> Pairs:
    if not any(source.strip() and target.strip() for source, target in validation):
        raise ValueError(
            "Validation text must have a pair of sentences that are not empty, received "
            f"{len(validation)} pairs without one in {name}. Check the text."
        )
    return validation


def _languages(data: DataConfig) -> tuple[str, str]:
    assert data.source_language is not None and data.target_language is not None
    return data.source_language, data.target_language


def training_corpora(data: DataConfig) -> list[Corpus]:
    """Return the training text, without tags.

    It is read anew each time and never held as a whole.
    """
    if data.tfds is not None:
        arguments = data.tfds, data.train_split, *_languages(data)
        name = f"{data.tfds} {data.train_split}"
        return [Corpus(name, functools.partial(stream_tfds, *arguments))]
    read = stream_pairs
    if data.task == "parsing":
        read = functools.partial(stream_tree_pairs, tagged=data.word_tags == "source")
    return [
        Corpus(" and ".join(paths), functools.partial(read, *paths))
        for paths in _files(data.train_source, data.train_target)
    ]


def _tagged(corpora: list[Corpus], languages: Sequence[str]) -> list[Corpus]:
    """Return corpora with tags in front of their sources, if they have target languages."""

    def tagged(corpus: Corpus, language: str) -> Iterator[tuple[str, str]]:
        return tag_sources(corpus.pairs(), language)

    if not languages:
        return corpora
    return [
        Corpus(f"{corpus.name} ({language})", functools.partial(tagged, corpus, language))
        for corpus, language in zip(corpora, languages, strict=True)
    ]


def _files(*sides: str | list[str] | None) -> list[tuple[str, ...]]:
    """Return the one or two files of each corpus."""
    return list(zip(*filter(None, map(as_list, sides)), strict=True))


def text_facts(data: DataConfig) -> dict[str, Any]:
    """Return what identifies the training text without reading it.

    Of a file, it is the path, the size and the time of its last change, and its target language if
    it has one; of a TFDS dataset, its version, split and languages.

    Raises:
        FileNotFoundError: If a file does not exist.
        ImportError, ValueError: If a TFDS dataset is not known.
    """
    # The names of text without tags stay those of earlier versions.
    tags: dict[str, Any] = {}
    if data.train_languages:
        tags["train_languages"] = data.train_languages
    if data.tfds is not None:
        return {
            "tfds": tfds_version(data.tfds),
            "split": data.train_split,
            "languages": _languages(data),
            **tags,
        }

    def facts(path: str | os.PathLike) -> list[Any]:
        status = existing_file(path).stat()
        return [os.path.realpath(path), status.st_size, status.st_mtime_ns]

    files: Sequence[Sequence[Any]] = _files(data.train_source, data.train_target)
    if data.task == "parsing":
        files = [tree_files(path) for [path] in files]
        tags["word_tags"] = data.word_tags
    return {"files": [[facts(path) for path in paths] for paths in files], **tags}


def text_directory(config: ExperimentConfig, directory: Path) -> Path:
    """Return the directory of encoded text and its vocabularies: the run's own, or the cache."""
    return directory / "text" if config.data.cache is None else Path(config.data.cache)


def cleaning_rules(data: DataConfig) -> CleaningRules:
    """Return which training pairs to drop."""
    return CleaningRules(
        max_length=data.max_length,
        max_length_ratio=data.max_length_ratio,
        drop_duplicates=data.drop_duplicates,
    )


def encode_text(
    config: ExperimentConfig, tokenizers: tuple[Tokenizer, Tokenizer], directory: Path
) -> tuple[EncodedPairs, list[dict[str, Any]]]:
    """Encode the training text, or use the files of an earlier time.

    A run's own directory keeps no encoded text of other files, vocabularies or rules.

    Args:
        config: The experiment.
        tokenizers: Of source and target.
        directory: The run directory.

    Returns:
        The encoded text, and a report on each corpus; see `encode_to_files`.

    Raises:
        ValueError: If no pair is left, or a file is damaged.
    """
    data = config.data
    rules = cleaning_rules(data)
    facts = {
        "text": text_facts(data),
        "vocabularies": [hashlib.sha256(each.model).hexdigest() for each in tokenizers],
        "subwords": [type(each).__name__ for each in tokenizers],
        "rules": dataclasses.asdict(rules),
    }
    folder = text_directory(config, directory) / digest(facts)
    if data.cache is None:
        for path in folder.parent.glob("*"):
            if path != folder and is_encoded_text(path):
                shutil.rmtree(path, ignore_errors=True)
            elif path.name.startswith("writing-"):  # Of a process that was killed.
                path.unlink(missing_ok=True)
    corpora = _tagged(training_corpora(data), data.train_languages)
    return encode_to_files(corpora, tokenizers, rules, folder)


def training_batches(
    config: ExperimentConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    directory: Path,
    replicas: int,
) -> TokenBatches:
    """Return the training text as token batches.

    Args:
        config: The experiment.
        tokenizers: Of source and target.
        directory: The run directory.
        replicas: Number of replicas that share each batch.

    Raises:
        ValueError: If no pair is left, or a pair does not fit the size of a batch.
    """
    log.info("text to train on:")
    return token_batches(config, tokenizers, *encode_text(config, tokenizers, directory), replicas)


def token_batches(
    config: ExperimentConfig,
    tokenizers: tuple[Tokenizer, Tokenizer],
    pairs: EncodedPairs,
    reports: Sequence[Mapping[str, Any]],
    replicas: int = 1,
) -> TokenBatches:
    """Return encoded text as token batches.

    Args:
        config: The experiment.
        tokenizers: Of source and target.
        pairs: The text that `encode_text` returned.
        reports: Its reports on each corpus.
        replicas: Number of replicas that share each batch.

    Raises:
        ValueError: If a pair does not fit the size of a batch.
    """
    data, training = config.data, config.training
    kept = [report["kept"] for report in reports]
    weights = data.train_weights or temperature_weights(kept, data.temperature)
    if data.temperature != 1:
        mixture = (f"{w:.2f} of {each['name']}" for w, each in zip(weights, reports, strict=True))
        log.info("times that a pass has each pair: %s", ", ".join(mixture))
    vary = _subword_dropout(config, tokenizers, pairs)
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

    Args:
        config: The experiment.
        encoded: The text, for which the widths are chosen.
        growth: How many times as long the text becomes by subword dropout.
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
    if lengths.max() <= budget < widths[-1]:  # It is rounded up.
        widths[-1] = budget
    padded = 2 * np.asarray(widths)[np.searchsorted(widths, lengths)].sum()
    tokens = growth * (encoded.source_lengths.sum() + encoded.target_lengths.sum())
    log.info(
        "static shapes: %s; %.0f%% of the batches is padding",
        ", ".join(f"{rows_per_batch(budget, width, True)} x {width}" for width in widths),
        100 * (1 - tokens / padded),
    )
    return widths


def _subword_dropout(
    config: ExperimentConfig, tokenizers: tuple[Tokenizer, Tokenizer], pairs: EncodedPairs
) -> SubwordDropout | WordDropout | None:
    """Return what varies the tokens of each pass, if the configuration asks for it.

    No sentence becomes longer than a batch.
    """
    data, training = config.data, config.training
    source, target = tokenizers
    if not data.subword_dropout:
        return None
    if isinstance(source, WordTokenizer):
        return WordDropout(pairs, source, data.subword_dropout, seed=training.seed)
    assert isinstance(source, SentencePieceTokenizer)  # Of `DataConfig.subwords`, which is "bpe".
    return SubwordDropout(
        pairs,
        (source, target if isinstance(target, SentencePieceTokenizer) else None),
        data.subword_dropout,
        max_length=min(data.max_length, training.batch_tokens),
        seed=training.seed,
    )
