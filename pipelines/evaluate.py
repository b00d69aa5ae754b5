"""Score a model's translations with sacreBLEU, or its trees with the F1 of brackets.

Usage:
    python -m pipelines.evaluate --model runs/en_de --source test.en --target test.de
    python -m pipelines.evaluate --model runs/base --tfds wmt14_translate/de-en --split test \\
        --source-language en --target-language de
    python -m pipelines.evaluate --model runs/en_de_fr --source test.en --target test.de \\
        --target-language de --add-tag
    python -m pipelines.evaluate --model runs/parser --trees test.mrg
"""

import argparse
import contextlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser, add_model_options
from pipelines.cli.process import import_tensorflow, start_log
from pipelines.cli.text import one_line

if TYPE_CHECKING:
    from keras_transformer.evaluation import JsonScores
    from keras_transformer.text import Tokenizer


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
    parser.add_argument(
        "--checks",
        action="store_true",
        help="also count the translations that fail a check of translate-toolkit's pofilter, such "
        "as printf and xmltags, and the references that do",
    )
    parser.add_argument("--json", metavar="FILE", help="also write the scores to it")
    parser.add_argument("--translations", metavar="FILE", help="also write the translations to it")
    args = parser.parse_args(argv)
    parser.check_outputs(args, ("--json", "--translations"), ("--source", "--target", "--trees"))
    start_log()
    import_tensorflow()
    from keras_transformer.data.languages import tag_sources
    from keras_transformer.evaluation import (
        failed_checks,
        length_problem,
        published_tokenizer,
        score,
    )
    from pipelines.cli.models import load_model, warn_of_long

    _check(args)
    if args.trees:
        _score_trees(args)
        return
    for name in args.published:
        published_tokenizer(name, args.target_language)  # Missing packages are reported now.
    if args.checks:
        failed_checks([], [])  # Likewise.
    pairs = _read_text(args)
    plain = [source for source, _ in pairs]
    if args.add_tag:
        _check_tag(args)
        pairs = list(tag_sources(pairs, args.target_language))
    sources = [source for source, _ in pairs]
    translate = load_model(args)
    warn_of_long(args, sources)
    translations = translate(sources, True)
    references = [target for _, target in pairs]
    scores = score(translations, references, args.published, args.target_language)
    failed = None
    if args.checks:
        failed = {
            name: failed_checks(plain, texts, args.target_language)
            for name, texts in (("translations", translations), ("references", references))
        }
    _report(args, scores, translations, failed)
    if problem := length_problem(translations, references):
        print(f"warning: {problem}", file=sys.stderr)


def _report(
    args: argparse.Namespace,
    scores: "JsonScores",
    outputs: Sequence[str],
    failed: Mapping[str, Counter[str]] | None = None,
) -> None:
    """Print the scores and failed checks, and write the files that were asked for."""
    from keras_transformer.utils.files import whole_file, write_json

    print(scores)
    if failed is not None:
        _print_checks(**failed)
    if args.translations:
        text = "".join(f"{one_line(output)}\n" for output in outputs)
        with whole_file(Path(args.translations)) as temporary:
            temporary.write_text(text, encoding="utf-8")
    if args.json:
        checks = {} if failed is None else {"failed_checks": failed}
        write_json(Path(args.json), {**scores.to_dict(), **checks})


def _print_checks(translations: Counter[str], references: Counter[str]) -> None:
    print(f"\n{'failed check':20}{'translations':>14}{'references':>14}")
    for name, _ in (translations | references).most_common():
        print(f"{name:20}{translations[name]:14,}{references[name]:14,}")


def _score_trees(args: argparse.Namespace) -> None:
    """Parse the sentences of trees, and score the result."""
    from keras_transformer.data import read_trees
    from keras_transformer.data.trees import tree_pair
    from keras_transformer.evaluation import score_brackets
    from keras_transformer.text import TreeTokenizer
    from keras_transformer.trees import parse_tree
    from pipelines.cli.models import load_model

    _, tokenizer = _tokenizers(args.model)
    if not isinstance(tokenizer, TreeTokenizer):
        raise ValueError(
            f"--trees needs a model that parses, received {args.model}, which translates. Give "
            "--source and --target."
        )
    references = read_trees(args.trees)
    if args.max_words is not None:
        references = [tree for tree in references if len(tree.words) <= args.max_words]
    tagged = tokenizer.word_tags == "source"
    outputs = load_model(args)([tree_pair(tree, tagged=tagged)[0] for tree in references], True)
    scores = score_brackets([parse_tree(output) for output in outputs], references)
    _report(args, scores, outputs)


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("text", "Either files, or a split of a TFDS dataset.")
    group.add_argument("--source", help="text, or TSV without --target; may be .gz")
    group.add_argument("--target", help="reference translations, line by line; may be .gz")
    group.add_argument("--trees", help="for a parser: bracketed trees, instead of text")
    group.add_argument(
        "--max-words", type=int, metavar="N", help="leave out trees of more words, such as 40"
    )
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
    from keras_transformer.config.data import text_source_problems
    from keras_transformer.evaluation import PUBLISHED

    def given(*options):
        names = (option.removeprefix("--").replace("-", "_") for option in options)
        return [
            o for o, name in zip(options, names, strict=True) if getattr(args, name) is not None
        ]

    text_options = ("--source", "--target", "--tfds", "--split", *LANGUAGES)
    if args.trees:
        flags = {"--published": args.published, "--add-tag": args.add_tag, "--checks": args.checks}
        wrong = [*given(*text_options), *(option for option, value in flags.items() if value)]
        problems = [f"--trees needs no {' and no '.join(wrong)}; leave it out"] if wrong else []
    else:
        problems = text_source_problems(
            given(*text_options),
            files=("--source", "--target"),
            dataset=("--tfds", "--split", "--source-language"),  # The target's has other uses.
            required_files=("--source",),
            required_dataset=("--tfds", *LANGUAGES),
            languages=(args.source_language, args.target_language),
        )
        if args.max_words is not None:
            problems.append("--max-words applies to --trees")
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
    from keras_transformer.config.data import language_tag
    from keras_transformer.text import SentencePieceTokenizer

    tokenizer, _ = _tokenizers(args.model)
    known = tokenizer.language_tags if isinstance(tokenizer, SentencePieceTokenizer) else []
    if (tag := language_tag(args.target_language)) not in known:
        raise ValueError(
            f"--add-tag needs a model with the tag of --target-language, received {tag}. "
            f"{args.model} has {', '.join(known) or 'no tags'}. Choose among them, or leave "
            "--add-tag out."
        )


def _tokenizers(model: str) -> "tuple[Tokenizer, Tokenizer]":
    """Return the tokenizers of source and target, without loading the model."""
    from keras_transformer.text.files import read_tokenizers
    from keras_transformer.translation.saved import find_translator

    saved = find_translator(model)
    return read_tokenizers(saved.vocabularies, saved.config.data.subwords)


def _read_text(args: argparse.Namespace) -> list[tuple[str, str]]:
    from keras_transformer.data import read_pairs, read_tfds

    if args.tfds is None:
        return read_pairs(args.source, args.target)
    languages = args.source_language, args.target_language
    with contextlib.redirect_stdout(sys.stderr):  # TFDS reports a download here.
        return read_tfds(args.tfds, args.split or "test", *languages)


if __name__ == "__main__":
    main()
