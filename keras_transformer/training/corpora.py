"""The text of a run: the files or the data set where it is, and its sentence pairs."""

import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.config.data import CorpusConfig, as_list
from keras_transformer.data import read_pairs, read_tfds
from keras_transformer.data.encoding import Map
from keras_transformer.data.languages import tag_sources
from keras_transformer.data.sources import (
    Corpus,
    check_rereadable,
    existing_file,
    stream_pairs,
)
from keras_transformer.data.tfds import stream_tfds, tfds_version
from keras_transformer.data.trees import stream_trees, tree_files, tree_pair

Pairs = Sequence[tuple[str, str]]
"""Source sentences and their translations."""


def read_validation(data: DataConfig) -> Pairs:
    """Read the validation text. With `data.validation_languages`, the sources have tags.

    Raises:
        FileNotFoundError: If a file does not exist.
        ImportError, ConnectionError: See `read_tfds`.
        ValueError: If a file is damaged or a pipe, or one has nothing to validate on.
    """
    if data.tfds is not None:
        pairs = read_tfds(data.tfds, data.validation_split, *_languages(data))
        parts = [_usable(pairs, data.tfds)]
    else:
        files = _files(data.validation_source, data.validation_target)
        check_rereadable(*chain.from_iterable(files))
        parts = [_usable(_read(data, paths), paths[0]) for paths in files]
    if data.validation_languages:
        tagged = zip(parts, data.validation_languages, strict=True)
        parts = [list(tag_sources(part, language)) for part, language in tagged]
    return list(chain.from_iterable(parts))


def _read(data: DataConfig, paths: Sequence[str]) -> Pairs:
    if data.task == "parsing":
        return list(_tree_pairs(data, paths[0]))
    return read_pairs(*paths)


def _tree_pairs(data: DataConfig, path: str) -> Iterator[tuple[str, str]]:
    tagged = data.word_tags == "source"
    return (tree_pair(tree, tagged=tagged) for tree in stream_trees(path))


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


@dataclasses.dataclass(frozen=True)
class TrainingText:
    """The training text of a run, which is read again each time and never held as a whole."""

    corpora: list[Corpus]
    """Its sentence pairs."""
    facts: Mapping[str, Any]
    """What identifies it; see `text_facts`."""
    folder: Path
    """The directory of encoded text and its vocabularies: the run's own, or the cache."""
    mapped: Map = map
    """Applies a function to parts of the text."""


def training_text(config: ExperimentConfig, directory: Path, mapped: Map = map) -> TrainingText:
    """Find the training text of a run, without reading it.

    Raises:
        FileNotFoundError, ImportError, ValueError: See `text_facts`.
    """
    data = config.data
    folder = directory / "text" if data.cache is None else Path(data.cache)
    return TrainingText(training_corpora(data), text_facts(data), folder, mapped)


def training_corpora(data: DataConfig) -> list[Corpus]:
    """Return the training text by corpus, without reading it.

    Raises:
        ValueError: If a file is a pipe.
    """
    corpora = []
    for corpus in data.training_corpora:
        paths = _paths(corpus)
        name, pairs = " and ".join(paths), functools.partial(stream_pairs, *paths)
        check_rereadable(*(paths if data.tfds is None else ()))
        if data.tfds is not None:
            name = f"{data.tfds} {data.train_split}"
            pairs = functools.partial(stream_tfds, data.tfds, data.train_split, *_languages(data))
        elif data.task == "parsing":
            pairs = functools.partial(_tree_pairs, data, *paths)
        tag = corpus.full_tag
        label = tag or corpus.direction
        corpora.append(Corpus(f"{name} ({label})" if label else name, pairs, tag, corpus.direction))
    return corpora


def _paths(corpus: CorpusConfig) -> list[str]:
    return [path for path in (corpus.source, corpus.target) if path is not None]


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
    # Text without tags keeps the names of earlier versions.
    corpora, tags = data.training_corpora, dict[str, Any]()
    for name, values in (
        ("train_languages", [corpus.language for corpus in corpora]),
        ("tags", [corpus.tag for corpus in corpora]),
    ):
        if any(values):
            tags[name] = values
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

    files: Sequence[Sequence[Any]] = [_paths(corpus) for corpus in corpora]
    if data.task == "parsing":
        files = [tree_files(path) for [path] in files]
        tags["word_tags"] = data.word_tags
    return {"files": [[facts(path) for path in paths] for paths in files], **tags}


def text_files(data: DataConfig) -> list[Path]:
    """Return the files of the training and the validation text; none for a TFDS dataset.

    Raises:
        FileNotFoundError: If a file does not exist.
    """
    corpora = [] if data.tfds is not None else data.training_corpora
    options = (
        [corpus.source for corpus in corpora],
        [corpus.target for corpus in corpora if corpus.target is not None],
        data.validation_source,
        data.validation_target,
    )
    paths = [existing_file(path) for option in options for path in as_list(option)]
    if data.task == "parsing":
        return [file for path in paths for file in tree_files(path)]
    return paths
