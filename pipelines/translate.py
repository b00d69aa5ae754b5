"""Translate text: arguments, a file, or standard input, line by line, or a document.

Usage:
    python -m pipelines.translate --model saved_models/quickstart "The old dog sleeps."
    python -m pipelines.translate --model runs/en_de --input test.en --alignments test.align
    python -m pipelines.translate --model runs/en_de --document de.po --output de.new.po

With --num-hypotheses N, each sentence has N lines, best first: rank, score and translation,
separated by tabs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli.errors import FAILED, plain_errors
from pipelines.cli.parser import Parser, add_model_options, search_options
from pipelines.cli.process import import_tensorflow
from pipelines.cli.text import add_text_options, check_text_options, one_line, read_text

_WITHOUT_PROGRESS = 5000
"""Characters of a document that are translated without a progress bar."""


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.translate") -> None:
    parser = Parser(
        prog=prog,
        description=__doc__.split("\n")[0],
        epilog="With --num-hypotheses N, N lines are printed per sentence, best first: rank, "
        "score and translation, separated by tabs.",
    )
    add_model_options(parser)
    add_text_options(parser, "to translate")
    _add_document_options(parser)
    _add_alignment_options(parser)
    parser.add_argument(
        "--terms",
        metavar="FILE",
        help="lines of source, tab and target: how words must be translated; see docs/protect.md",
    )
    args = parser.parse_args(argv)
    for option, value in (("--terms", args.terms), ("--protect", args.protect)):
        if value and args.num_hypotheses is not None:
            parser.error(f"give {option} or --num-hypotheses, not both")
    if args.terms and args.alignments:
        parser.error("give --terms or --alignments, not both")
    check_text_options(parser, args)
    _check_alignment_options(parser, args)
    _check_document_options(parser, args)
    import_tensorflow()

    sys.stdout.reconfigure(encoding="utf-8")
    if args.document:
        _translate_document(args)
    elif args.alignments:
        _align(args)
    else:
        _translate(args)


def _translate(args: argparse.Namespace) -> None:
    from pipelines.cli.models import load_model, translate_in_parts, warn_of_long

    n_best = args.num_hypotheses is not None
    translate = load_model(args, n_best)
    sentences = read_text(args)
    warn_of_long(args, sentences)
    for translation in translate_in_parts(translate, sentences, args.batch_size):
        print(translation if n_best else one_line(translation))


def _add_document_options(parser: Parser) -> None:
    group = parser.add_argument_group(
        "documents", "Files that keep their structure and markup; see docs/documents.md."
    )
    group.add_argument(
        "--document",
        metavar="FILE",
        help="translate a .txt, .md, .html, .po, .pot, .xliff, .json, .arb, .properties, .srt or "
        ".vtt file",
    )
    group.add_argument(
        "--output", metavar="FILE", help="where to write it; standard output by default"
    )
    group.add_argument("--force", action="store_true", help="replace the file of --output")
    group.add_argument(
        "--only-missing", action="store_true", help="keep the translations that messages have"
    )


def _check_document_options(parser: Parser, args: argparse.Namespace) -> None:
    if args.document:
        for option, value in (
            ("sentences", args.sentences),
            ("--input", args.input),
            ("--num-hypotheses", args.num_hypotheses is not None),
            ("--alignments", args.alignments),
        ):
            if value:
                parser.error(f"give --document or {option}, not both")
    for option, value in (
        ("--output", args.output),
        ("--force", args.force),
        ("--only-missing", args.only_missing),
    ):
        if value and not args.document:
            parser.error(f"{option} needs --document")


def _translate_document(args: argparse.Namespace) -> None:
    """Write the translation of a file; what fails is named, and the exit status says so."""
    from keras_transformer.training import prepare_cpu
    from keras_transformer.translation import Translator
    from keras_transformer.translation.documents import KEPT, check_suffix, translate_file
    from keras_transformer.translation.saved import find_translator
    from keras_transformer.utils.files import whole_file
    from pipelines.cli.models import read_terms

    path, output = Path(args.document), Path(args.output) if args.output else None
    check_suffix(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Check the path.")
    if output and output.exists() and not args.force:
        raise FileExistsError(f"{output} exists. Choose another name, or give --force.")
    terms = read_terms(args.terms) if args.terms else None
    prepare_cpu()
    options = search_options(args)
    if path.suffix.lower() != ".txt":
        given = options.get("protect", find_translator(args.model).config.decoding.protect)
        options["protect"] = f"{KEPT} {given}".strip()
    translator = Translator.load(args.model, **options)

    def translate(texts):
        is_long = sum(map(len, texts)) > _WITHOUT_PROGRESS
        return translator.documents(
            texts, batch_size=args.batch_size, progress=is_long, terms=terms
        )

    content, failures = translate_file(path, translate, args.only_missing)
    if output is None:
        sys.stdout.buffer.write(content)
    else:
        with whole_file(output) as temporary:
            temporary.write_bytes(content)
    for failure in failures:
        print(f"warning: not translated: {failure}", file=sys.stderr)
    if failures:
        sys.exit(FAILED)


def _add_alignment_options(parser: Parser) -> None:
    group = parser.add_argument_group(
        "alignments", "Links between the words of each line and of its translation."
    )
    group.add_argument(
        "--alignments",
        metavar="FILE",
        help="also write them to it, a line each, in the Pharaoh format: 0-0 1-2 links the first "
        "words, and the second of the line to the third of the translation",
    )
    group.add_argument(
        "--target", metavar="FILE", help="translations to align, a line each, instead of new ones"
    )
    group.add_argument(
        "--alignment-head",
        metavar="NAME",
        help="attention head, such as 2.1.input; by default, it is chosen on the lines themselves",
    )


def _check_alignment_options(parser: Parser, args: argparse.Namespace) -> None:
    if args.alignments and args.num_hypotheses is not None:
        parser.error("give --alignments or --num-hypotheses, not both")
    for option, value in (("--target", args.target), ("--alignment-head", args.alignment_head)):
        if value is not None and not args.alignments:
            parser.error(f"{option} needs --alignments")


def _align(args: argparse.Namespace) -> None:
    """Print translations, unless they are given, and write the alignments."""
    from keras_transformer.data import read_lines
    from keras_transformer.training import prepare_cpu
    from keras_transformer.translation import Translator
    from keras_transformer.translation.alignment import check_head, head_names
    from keras_transformer.utils.files import whole_file
    from pipelines.cli.models import translate_in_parts, warn_of_long

    prepare_cpu()
    translator = Translator.load(args.model, **search_options(args))
    sentences = read_text(args)
    head = args.alignment_head
    check_head(head, head_names(translator.model.config), sentences)  # Before translating.
    warn_of_long(args, sentences)
    with whole_file(Path(args.alignments)) as temporary, open(temporary, "w") as file:
        if args.target:
            translations = read_lines(args.target)
        else:
            translations = []
            for translation in translate_in_parts(
                lambda texts, advance: translator(texts, args.batch_size, advance),
                sentences,
                args.batch_size,
            ):
                print(one_line(translation))
                translations.append(translation)
        found = translator.align(sentences, translations, head)
        for links in found.links:
            print(" ".join(f"{source}-{target}" for source, target in links), file=file)
    if head is None:
        print(
            f"The alignments are from the attention head {found.head}, which was chosen on this "
            f"text. For the same head on other text, give --alignment-head {found.head}",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
