"""Score a model's translations against reference translations, with sacreBLEU.

Usage:
    python -m pipelines.evaluate --model runs/en_de --source test.en --target test.de
    python -m pipelines.evaluate --model runs/base --tfds wmt14_translate/de-en --split test \\
        --source-language en --target-language de
    python -m pipelines.evaluate --model runs/en_de_fr --source test.en --target test.de \\
        --target-language de --add-tag
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser, add_model_options
from pipelines.cli.process import import_tensorflow, start_log
from pipelines.cli.text import one_line


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.evaluate") -> None:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    add_model_options(parser)
    _add_text_options(parser)
    parser.add_argument(
        "--published",
        nargs="+",
        default=[],
        metavar="NAME",
        help="also compute BLEU as published results do, in the target language: paper (WMT 2014, "
        "tokenized and split at hyphens) or multi30k (lowercased, normalized and tokenized)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the scores to it")
    parser.add_argument("--translations", metavar="FILE", help="also write the translations to it")
    args = parser.parse_args(argv)
    start_log()
    import_tensorflow()
    from keras_transformer.data.languages import tag_sources
    from keras_transformer.evaluation import published_tokenizer, score
    from keras_transformer.utils.files import whole_file
    from pipelines.cli.models import load_model

    _check(args)
    for name in args.published:
        published_tokenizer(name, args.target_language)  # Missing packages are reported now.
    pairs = _read_text(args)
    if args.add_tag:
        _check_tag(args)
        pairs = list(tag_sources(pairs, args.target_language))
    translations = load_model(args)([source for source, _ in pairs], True)
    references = [target for _, target in pairs]
    scores = score(translations, references, args.published, args.target_language)
    print(scores)
    if args.translations:
        text = "".join(f"{one_line(translation)}\n" for translation in translations)
        with whole_file(Path(args.translations)) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if args.json:
        scores.to_json(args.json)


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("text", "Either files, or a split of a TFDS dataset.")
    group.add_argument("--source", help="text, or TSV without --target; may be .gz")
    group.add_argument("--target", help="reference translations, line by line; may be .gz")
    group.add_argument("--tfds", help="a TFDS dataset, such as wmt14_translate/de-en")
    group.add_argument("--split", help="split of the dataset (default test)")
    group.add_argument("--source-language", help="source language of the dataset, such as en")
    group.add_argument(
        "--target-language", help="target language, also for --published and --add-tag"
    )
    group.add_argument(
        "--add-tag",
        action="store_true",
        help="put the tag of --target-language, such as >>de<<, in front of every source line, for "
        "a model of several target languages",
    )


LANGUAGES = ("--source-language", "--target-language")


def _check(args: argparse.Namespace) -> None:
    """Raise a ValueError that names every mistake in the options of text and scores."""
    from keras_transformer.config.sources import text_source_problems
    from keras_transformer.evaluation import PUBLISHED

    def given(*options):
        names = (option.removeprefix("--").replace("-", "_") for option in options)
        return [
            o for o, name in zip(options, names, strict=True) if getattr(args, name) is not None
        ]

    problems = text_source_problems(
        given("--source", "--target", "--tfds", "--split", *LANGUAGES),
        files=("--source", "--target"),
        dataset=("--tfds", "--split", "--source-language"),  # The target's has other uses.
        required_files=("--source",),
        required_dataset=("--tfds", *LANGUAGES),
        languages=(args.source_language, args.target_language),
    )
    for option, path in (("--json", args.json), ("--translations", args.translations)):
        if path and not Path(path).absolute().parent.is_dir():
            problems.append(f"{option} must be in an existing directory, received {path}")
    unknown = [name for name in args.published if name not in PUBLISHED]
    if unknown:
        problems.append(
            f"--published takes {' and '.join(PUBLISHED)}, received {' and '.join(unknown)}"
        )
    for option, value in (("--published", args.published), ("--add-tag", args.add_tag)):
        if value and args.target_language is None:
            problems.append(f"{option} needs --target-language, such as de")
    if problems:
        raise ValueError("; ".join(problems))


def _check_tag(args):
    from keras_transformer.config.languages import language_tag
    from keras_transformer.text import SentencePieceTokenizer, read_tokenizers
    from keras_transformer.translation.saved import find_translator

    saved = find_translator(args.model)
    tokenizer, _ = read_tokenizers(saved.vocabularies, saved.config.data.subwords)
    known = tokenizer.language_tags if isinstance(tokenizer, SentencePieceTokenizer) else []
    if (tag := language_tag(args.target_language)) not in known:
        raise ValueError(
            f"--add-tag needs a model with the tag of --target-language, received {tag}. "
            f"{args.model} has {', '.join(known) or 'no tags'}. Choose among them, or leave "
            "--add-tag out."
        )


def _read_text(args: argparse.Namespace) -> list[tuple[str, str]]:
    from keras_transformer.data import read_pairs, read_tfds

    if args.tfds is None:
        return read_pairs(args.source, args.target)
    languages = args.source_language, args.target_language
    with contextlib.redirect_stdout(sys.stderr):  # TFDS reports a download here.
        return read_tfds(args.tfds, args.split or "test", *languages)


if __name__ == "__main__":
    main()
