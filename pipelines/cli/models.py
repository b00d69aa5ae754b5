"""Models by path: run directories, saved translators and exported SavedModels."""

import argparse
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.parser import search_options
from pipelines.cli.text import one_line

if TYPE_CHECKING:
    import tensorflow as tf

_MOST_TOKENS_PER_BYTE = 11
_LINES_AT_ONCE = 8192
_SHOWN = 80

Translate = Callable[[Sequence[str], bool | Callable[[Sequence[str]], object]], list[str]]
"""Translates sentences, with or without a progress bar; see `translate_in_batches`."""


def load_model(args: argparse.Namespace, n_best: bool = False, *, trees: bool = False) -> Translate:
    """Return a function that translates with what --model names.

    An exported SavedModel runs as it is, unless there are options of the search.

    Args:
        args: The options of `add_model_options`, and --terms where a command has it.
        n_best: Whether the function returns the --num-hypotheses best translations of a sentence,
            one per line: rank, score and translation, separated by tabs.
        trees: Whether the model must be a parser.

    Raises:
        FileNotFoundError: If there is no model.
        ValueError: If an option does not fit the model, a file is damaged, or the model is no
            parser.
    """
    from keras_transformer.config.record import ExportRecord
    from keras_transformer.export import load_saved_model
    from keras_transformer.training import prepare_cpu
    from keras_transformer.translation import Translator
    from keras_transformer.translation.batching import translate_in_batches
    from keras_transformer.utils.versions import find_saved_model

    prepare_cpu()
    options = search_options(args)
    # A run directory may also contain an export, which may be older than the run's model.
    is_export = not (Path(args.model) / "config.yaml").exists()
    terms = read_terms(args.terms) if getattr(args, "terms", None) else None
    is_as_saved = is_export and not options and terms is None
    version = find_saved_model(args.model) if is_as_saved else None
    if version is not None:
        if trees:
            vocabulary = ExportRecord.read(version).vocabulary
            _check_parser(vocabulary.get("target_tokenizer") == "TreeTokenizer", args)
        translate = load_saved_model(version)
        return lambda sentences, progress: translate(sentences, args.batch_size, progress)
    translator = Translator.load(args.model, **options)
    if trees:
        _check_parser(translator.makes_trees, args)
    if not n_best:
        given = {} if terms is None else {"terms": terms}  # A parser has none.
        return lambda sentences, progress: translator(sentences, args.batch_size, progress, **given)
    search = _n_best_lines(translator.n_best, translator.decoding.num_hypotheses)
    return lambda sentences, progress: translate_in_batches(
        search, sentences, args.batch_size, progress
    )


def read_terms(path: str) -> dict[str, str]:
    """Return the terms of a file with lines of source, tab and target.

    Raises:
        ValueError: If a line has no tab, or more than one, or a source occurs twice.
    """
    from keras_transformer.data import read_lines

    terms: dict[str, str] = {}
    wrong = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target or source in terms:
            wrong.append(f"line {number}, {line!r}")
        terms[source] = target
    if wrong:
        raise ValueError(
            f"--terms must have lines of source, tab and target, each source once, received {path} "
            f"with {', '.join(wrong[:3])}. Change or remove {'it' if len(wrong) == 1 else 'these'}."
        )
    return terms


def warn_of_long(args: argparse.Namespace, sentences: Sequence[str]) -> None:
    """Print a line for each sentence whose end the model does not read."""
    for warning in find_cuts(args)(sentences):
        print(warning, file=sys.stderr)


def find_cuts(args: argparse.Namespace) -> Callable[[Sequence[str]], Iterator[str]]:
    """Return a function that yields a warning for each sentence whose end the model does not read.

    Args:
        args: The options of `add_model_options`.
    """
    from keras_transformer.text.files import read_tokenizers
    from keras_transformer.translation.saved import find_translator

    try:
        saved = find_translator(args.model)
    except (FileNotFoundError, ValueError):  # Of an export without its vocabularies.
        return lambda sentences: iter(())
    limit = dataclasses.replace(saved.config.decoding, **search_options(args)).max_source_length
    vocabularies = functools.cache(
        lambda: read_tokenizers(saved.vocabularies, saved.config.data.subwords)
    )

    def find(sentences: Sequence[str]) -> Iterator[str]:
        # Lone surrogates, as in a wrongly decoded file name, have no UTF-8 encoding.
        texts = [text.encode("utf-8", "surrogatepass") for text in sentences]
        # Normalization makes at most 11 bytes of one, and each is at most one token.
        long = [i for i, text in enumerate(texts) if _MOST_TOKENS_PER_BYTE * len(text) + 2 > limit]
        for start in range(0, len(long), _LINES_AT_ONCE):
            places = long[start : start + _LINES_AT_ONCE]
            tokenizer, _ = vocabularies()
            rows = tokenizer.tokenize([texts[i] for i in places])
            cut = rows[:, limit - 1 :]
            for place, count, rest in zip(
                places, rows.row_lengths().numpy(), tokenizer.detokenize(cut).numpy(), strict=True
            ):
                if count >= limit:
                    yield _cut_line(place + 1, count + 1, limit, rest.decode())

    return find


def _cut_line(line: int, count: int, limit: int, rest: str) -> str:
    shown = rest if len(rest) <= _SHOWN else f"{rest[:_SHOWN]} ..."
    return (
        f"warning: line {line:,} has {count:,} tokens, of which the first {limit:,} are read "
        f"(max_source_length). Left out: {shown}"
    )


def _check_parser(makes_trees: bool, args: argparse.Namespace) -> None:
    if not makes_trees:
        raise ValueError(
            f"--model must be a parser, received {args.model}, which writes text and not trees. "
            "Use the command translate."
        )


def translate_in_parts(
    translate: Translate, sentences: Sequence[str], batch_size: int | None
) -> Iterator[str]:
    """Yield the translations in order while the later sentences are not yet translated.

    Sentences are sorted by length inside each part. What is printed of a part appears at its end.

    Args:
        translate: Translates the sentences of a part.
        sentences: The sentences. More than a batch have a progress bar.
        batch_size: The sentences of a batch; None for the usual number.
    """
    from keras_transformer.translation.batching import progress_bar
    from keras_transformer.utils.devices import usual_batch_size

    if batch_size is None:
        batch_size = usual_batch_size()
    part = max(32 * batch_size, 1)
    with progress_bar(sentences, disable=len(sentences) <= batch_size) as advance:
        for start in range(0, len(sentences), part):
            yield from translate(sentences[start : start + part], advance)
            sys.stdout.flush()


def _n_best_lines(
    n_best: "Callable[[tf.Tensor], dict[str, tf.Tensor]]", count: int
) -> "Callable[[tf.Tensor], tf.Tensor]":
    """Return a function from string [B] to string [B], each `count` lines of an n-best list."""
    import tensorflow as tf

    def search(text):
        found = n_best(text)
        rows = zip(found["translations"].numpy(), found["scores"].numpy(), strict=True)
        return tf.constant(
            [
                "\n".join(
                    f"{rank}\t{score:.4f}\t{one_line(translation.decode())}"
                    for rank, (translation, score) in enumerate(
                        zip(translations[:count], scores[:count], strict=True), start=1
                    )
                )
                for translations, scores in rows
            ],
            tf.string,
        )

    return search
