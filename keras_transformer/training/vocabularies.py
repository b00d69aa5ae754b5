"""The vocabularies of a training run: their files, and how they are trained."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from keras_transformer.config import DataConfig, ExperimentConfig
from keras_transformer.config.data import language_tag
from keras_transformer.config.filters import chosen_filters
from keras_transformer.data.augmentation import with_cases
from keras_transformer.data.encoded_files import digest, locked
from keras_transformer.data.filters import TextFilters
from keras_transformer.text import (
    SentencePieceTokenizer,
    Tokenizer,
    TreeTokenizer,
    WordPieceTokenizer,
    WordTokenizer,
    train_sentencepiece,
    train_word_piece,
    train_words,
)
from keras_transformer.text.files import find_vocabularies, read_tokenizers
from keras_transformer.text.symbols import choose_symbols, stands_for_symbols
from keras_transformer.text.tree_tokenizer import tree_vocabulary
from keras_transformer.training.corpora import TrainingText, read_validation
from keras_transformer.translation.languages import language_columns, with_languages
from keras_transformer.translation.saved import SavedTranslator
from keras_transformer.trees import parse_tree
from keras_transformer.utils.checksums import check_files
from keras_transformer.utils.progress import progress

log = logging.getLogger(__name__)

_LOGGED_SYMBOLS = 10

Tokenizers = tuple[Tokenizer, Tokenizer]
"""Of source and target; the same object twice if they share a vocabulary."""


def run_tokenizers(
    config: ExperimentConfig,
    directory: Path,
    text: TrainingText,
    trained: SavedTranslator | None = None,
) -> Tokenizers:
    """Read the vocabularies of a run, and train those that there are not yet.

    A vocabulary that is trained is kept with the encoded text, so that a run that starts again
    finds it there.

    Args:
        config, directory, text: The run.
        trained: A model whose vocabularies the run takes over.

    Raises:
        ImportError, ConnectionError: See `read_tfds`.
        ValueError: If a file is damaged, the text is too small for a vocabulary, or the vocabulary
            of a trained model lacks a tag of a target language or user symbols, normalizes text in
            another way, or belongs to another task.
    """
    model, data = config.model, config.data
    if trained:
        tokenizers = read_tokenizers(trained.vocabularies, data.subwords)
        _check_tags(tokenizers[0], data, trained.path)
        _check_task(tokenizers[1], data, trained.path)
        _check_text(tokenizers, data, trained.path, (directory / "config.yaml").exists())
        return tokenizers
    jobs: list[tuple[tuple[int, ...], int]]
    if model.has_joint_vocabulary:
        jobs = [((0, 1), model.vocab_size)]
    else:
        jobs = [((0,), model.vocab_size), ((1,), model.target_size)]
    paths = find_vocabularies(directory, model.has_joint_vocabulary)
    if len(paths) > len(jobs):  # Of a run that started from an imported model.
        check_files(directory, [path.name for path in paths])
    else:
        for i, (sides, size) in enumerate(jobs):
            if paths[i].exists():
                check_files(directory, [paths[i].name])
            else:
                paths[i] = _trained(data, text, sides, size)
    tokenizers = read_tokenizers(paths, data.subwords)
    _check_tags(tokenizers[0], data, paths[0])
    return tokenizers


def run_languages(config: ExperimentConfig, source: Tokenizer) -> list[tuple[str, str]]:
    """Return the codes of source and target of each corpus; none for a model of fixed languages.

    Raises:
        ValueError: If a model of many languages has no such language, or none is given; if a model
            of fixed languages is given some; or text of this kind cannot be trained on.
    """
    decoding, corpora = with_languages(config.decoding, source), config.data.training_corpora
    names = "source_language", "target_language"
    if not source.languages:
        if directions := list(config.data.directions):
            raise ValueError(
                "source_language and target_language of corpora need a training.init_from that is "
                f"an imported model of many languages, received {', '.join(directions)} and a "
                "model of fixed languages. Leave them out, or see language."
            )
        return []
    given = {
        name: [getattr(corpus, name) or getattr(decoding, name) for corpus in corpora]
        for name in names
    }
    problems = [
        f"decoding.{name} must be a language of the model, received none; give a code such as "
        f"{next(iter(source.languages))}"
        for name, languages in given.items()
        if None in languages
    ]
    if source.language_comes_last:
        problems.append(
            "its sources must begin with their language, received an NLLB with legacy_behaviour, "
            "where it comes last; choose one without"
        )
    problems += [
        f"data.augment_{name} must be 0, received {rate}; leave it out"
        for name, rate in config.data.augmentation.items()
    ]
    if config.data.directions and decoding.protect:
        problems.append(
            "decoding.protect must be empty if corpora have languages, received "
            f"{decoding.protect!r}; give it to exports"
        )
    if problems:
        raise ValueError(
            f"A run that starts from a model of {len(source.languages)} languages has a pair of "
            f"them: {'; '.join(problems)}."
        )
    sources, targets = language_columns(given, {}, source, len(corpora))
    return list(zip(sources, targets, strict=True))


def _check_task(target: Tokenizer, data: DataConfig, origin: Path) -> None:
    task, word_tags = "translation", data.word_tags
    if isinstance(target, TreeTokenizer):
        task, word_tags = "parsing", target.word_tags
    if (task, word_tags) != (data.task, data.word_tags):
        raise ValueError(
            f"A run needs the task of its teachers: {origin} has data.task={task} and "
            f"data.word_tags={word_tags}, received {data.task} and {data.word_tags}. Set these "
            "options as there, or choose other teachers."
        )


def _check_text(
    tokenizers: Tokenizers, data: DataConfig, origin: Path, has_begun: bool = False
) -> None:
    """Raise an error if vocabularies treat text in another way than the configuration says."""
    mistakes, symbols = list[str](), set[str]()
    for tokenizer in dict.fromkeys(tokenizers):
        has = "nfkc"
        if isinstance(tokenizer, SentencePieceTokenizer):
            has = tokenizer.normalization
            symbols.update(tokenizer.user_symbols)
        if data.normalization not in (None, has):
            mistakes.append(f"data.normalization={has}, received {data.normalization}")
    named = {each for each in data.user_symbols if not stands_for_symbols(each)}
    if data.user_symbols and not symbols:
        mistakes.append(f"no user symbols, received {', '.join(data.user_symbols)}")
    elif (absent := sorted(named - symbols)) and not has_begun:  # Runs of before resume.
        mistakes.append(f"not the user symbols {', '.join(absent)}")
    if mistakes:
        raise ValueError(
            f"A run takes over the vocabulary of the model that it starts from, {origin}. It has "
            f"{' and '.join(mistakes)}. Leave these options out, or train a model with a new "
            "vocabulary."
        )


def _tags(data: DataConfig) -> list[str]:
    """Return the tags of the corpora."""
    tags = dict.fromkeys(corpus.full_tag for corpus in data.training_corpora)
    return [language_tag(tag) for tag in tags if tag]


def _check_tags(tokenizer: Tokenizer, data: DataConfig, origin: Path) -> None:
    has = tokenizer.language_tags if isinstance(tokenizer, SentencePieceTokenizer) else []
    if missing := [tag for tag in _tags(data) if tag not in has]:
        raise ValueError(
            f"The vocabulary of {origin} must have the tags of data.train_languages; it lacks "
            f"{' and '.join(missing)}, and has {' and '.join(has) or 'none'}. Choose among its "
            "languages, or train a model with a new vocabulary."
        )


def _trained(data: DataConfig, text: TrainingText, sides: tuple[int, ...], size: int) -> Path:
    """Return the file of a vocabulary for the source, 0, the target, 1, or both; train it first."""
    facts = {
        "text": text.facts,
        "sides": sides,
        "size": size,
        "subwords": data.subwords,
        "character_coverage": data.character_coverage,
        "sentences": data.vocabulary_sentences,
    }
    if data.vocabulary_corpora is not None:
        facts["corpora"] = data.vocabulary_corpora
    if data.normalization not in (None, "nfkc"):
        facts["normalization"] = data.normalization
    if any(cases := (data.augment_upper, data.augment_title)):
        facts["cases"] = cases
    if data.user_symbols:
        facts["symbols"] = data.user_symbols, data.max_user_symbols
    if filters := chosen_filters(data.filters):
        facts["filters"] = filters
    path = text.folder / f"vocabulary-{digest(facts)}.model"
    if path.exists():
        return path
    text.folder.mkdir(parents=True, exist_ok=True)
    with locked(text.folder / "vocabulary.lock"):
        if path.exists():  # Another run has trained it.
            return path
        if data.task == "parsing" and sides == (1,):
            log.info("reading trees for a vocabulary of their labels")
            trees = (parse_tree(tree) for c in text.corpora for _, tree in c.pairs())
            TreeTokenizer(tree_vocabulary(trees, size, word_tags=data.word_tags)).save(path)
            return path
        log.info("reading text to train a vocabulary on")
        corpora = text.corpora[: data.vocabulary_corpora]
        pairs: Iterable[tuple[str, str]] = chain.from_iterable(c.pairs() for c in corpora)
        if filters:
            held_out = read_validation(data) if "in_validation" in filters else ()
            pairs = TextFilters(filters, corpora, held_out, text.mapped).kept(corpora)
        lines = sample_sentences(pairs, sides, data.vocabulary_sentences)
        counts = f"{size:,}", f"{len(lines):,}"
        log.info("training a vocabulary of %s tokens on %s sentences", *counts)
        tags = _tags(data) if 0 in sides else []
        _train_tokenizer(data, lines, size, tags).save(path)
    return path


def sample_sentences(
    pairs: Iterable[tuple[str, str]], sides: Sequence[int], most: int
) -> list[bytes]:
    """Return sentences of a text in UTF-8: those of the first side, then those of the second.

    If there are more than `most`, only every second pair counts, or every fourth and so on, until
    there are not: the sample depends on the text alone, which is read once and not held.

    Args:
        pairs: The text.
        sides: Sides to take sentences from: 0 for the source, 1 for the target.
        most: Largest number of sentences.

    >>> sample_sentences(zip("abcdef", "ABCDEF"), sides=(0, 1), most=6)
    [b'a', b'c', b'e', b'A', b'C', b'E']
    """
    kept: list[list[bytes]] = [[] for _ in sides]
    step = 1
    with progress("reading", "pairs") as advance:
        for number, pair in enumerate(pairs):
            if number % step:
                continue
            for side, lines in zip(sides, kept, strict=True):
                lines.append(pair[side].encode("utf-8", "surrogatepass"))
            if len(kept[0]) > max(1, most // len(sides)):
                kept = [lines[::2] for lines in kept]
                step *= 2
            advance(step)
    return list(chain.from_iterable(kept))


def _train_tokenizer(
    data: DataConfig, sentences: list[bytes], size: int, tags: Sequence[str]
) -> Tokenizer:
    coverage = data.character_coverage
    if data.subwords == "wordpiece":
        lines = _decoded(sentences)
        return WordPieceTokenizer(train_word_piece(lines, size, character_coverage=coverage))
    if data.subwords == "word":
        return WordTokenizer(train_words(_decoded(sentences), size))
    symbols: dict[str, int] = {}
    if data.user_symbols:
        symbols = choose_symbols(_decoded(sentences), data.user_symbols, data.max_user_symbols)
        most = sorted(symbols.items(), key=lambda item: -item[1])[:_LOGGED_SYMBOLS]
        names = ", ".join(f"{symbol} ({count:,} times)" for symbol, count in most)
        log.info("%d user symbols%s", len(symbols), f"; the most frequent: {names}" * bool(most))
    model = train_sentencepiece(
        with_cases(_decoded(sentences), data.augmentation, list(symbols)),
        size,
        model_type=data.subwords,
        character_coverage=coverage,
        language_tags=tags,
        user_symbols=list(symbols),
        normalization=data.normalization or "nfkc",
    )
    return SentencePieceTokenizer(model)


def _decoded(sentences: Iterable[bytes]) -> Iterator[str]:
    return (sentence.decode("utf-8", "surrogatepass") for sentence in sentences)
