"""Score a model's translations of a text against reference translations, with sacreBLEU.

Usage:
    python -m pipelines.evaluate --model runs/en_de --source test.en --target test.de
    python -m pipelines.evaluate --model runs/base --tfds wmt14_translate/de-en --split test \\
        --source-language en --target-language de
"""

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli import add_model_options, as_line, load_model, plain_errors, start_log


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(parser)
    _add_text_options(parser)
    parser.add_argument(
        "--published",
        nargs="+",
        default=[],
        metavar="NAME",
        help="also score as published figures were, in the target language: paper (WMT 2014, "
        "tokenised and split at hyphens) or multi30k (lower-cased, normalised and tokenised)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the scores here")
    parser.add_argument("--translations", metavar="FILE", help="also write the translations here")
    args = parser.parse_args(argv)
    start_log()
    from keras_transformer.evaluation import published_tokenizer, score
    from keras_transformer.utils.files import whole_file

    with plain_errors():
        _check(args)
        for name in args.published:
            published_tokenizer(name, args.target_language)  # Fails now if at all.
        pairs = _read_text(args)
        translations = load_model(args)([source for source, _ in pairs], True)
        references = [target for _, target in pairs]
        scores = score(translations, references, args.published, args.target_language)
        print(scores)
        if args.translations:
            text = "".join(f"{as_line(translation)}\n" for translation in translations)
            with whole_file(Path(args.translations)) as temporary:
                temporary.write_text(text, encoding="utf-8")
        if args.json:
            scores.to_json(args.json)


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("text", "In files, or a split of a set of TFDS.")
    group.add_argument("--source", help="text, or TSV without --target; .gz too")
    group.add_argument("--target", help="reference translations, line by line")
    group.add_argument("--tfds", help="a translation set, such as wmt14_translate/de-en")
    group.add_argument("--split", help="the set's split (default test)")
    group.add_argument("--source-language", help="the set's language to translate from, such as en")
    group.add_argument("--target-language", help="the language to translate into, for --published")


def _check(args: argparse.Namespace) -> None:
    """Raise a ValueError that names every mistake about the text and the ways to score it."""
    from keras_transformer.evaluation import PUBLISHED

    def given(*options):
        names = (option.removeprefix("--").replace("-", "_") for option in options)
        return [
            o for o, name in zip(options, names, strict=True) if getattr(args, name) is not None
        ]

    problems = []
    languages = ("--source-language", "--target-language")
    files, tfds = given("--source", "--target"), given("--tfds", "--split", languages[0])
    needed = ("--tfds", *languages) if tfds else ("--source",)
    missing = [option for option in needed if option not in given(*needed)]
    for option, path in (("--json", args.json), ("--translations", args.translations)):
        if path and not Path(path).absolute().parent.is_dir():
            problems.append(f"{option} must be in a directory that exists, received {path}")
    if files and tfds:
        problems.append(
            "text is either in files or in a TFDS set, received "
            f"{', '.join(files)} and {', '.join(tfds)}; leave out those of one kind"
        )
    elif not files and not tfds:
        problems.append(
            f"there is no text; give --source, or --tfds with {' and '.join(languages)}"
        )
    elif missing:
        kind = "a TFDS set" if tfds else "text in files"
        problems.append(f"{kind} needs {' and '.join(missing)} too")
    if args.source_language is not None and args.source_language == args.target_language:
        problems.append(
            f"{' and '.join(languages)} must be two languages, received {args.source_language} "
            "for both"
        )
    unknown = [name for name in args.published if name not in PUBLISHED]
    if unknown:
        problems.append(
            f"--published takes {' and '.join(PUBLISHED)}, received {' and '.join(unknown)}"
        )
    if args.published and args.target_language is None:
        problems.append("--published needs --target-language, such as de")
    if problems:
        raise ValueError("; ".join(problems))


def _read_text(args: argparse.Namespace) -> list[tuple[str, str]]:
    from keras_transformer.data import read_pairs, read_tfds

    if args.tfds is None:
        return read_pairs(args.source, args.target)
    languages = args.source_language, args.target_language
    with contextlib.redirect_stdout(sys.stderr):  # TFDS prints that it prepares a set.
        return read_tfds(args.tfds, args.split or "test", *languages)


if __name__ == "__main__":
    main()
