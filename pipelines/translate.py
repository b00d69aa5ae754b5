"""Translate text: arguments, a file, or standard input, line by line, or a document.

Usage:
    python -m pipelines.translate --model saved_models/quickstart "The old dog sleeps."
    python -m pipelines.translate --model runs/en_de --input test.en --alignments test.align
    python -m pipelines.translate --model runs/nllb --columns --input test.tsv
    python -m pipelines.translate --model runs/en_de --document de.po --output de.new.po

With --num-hypotheses N, each sentence has N lines, best first: rank, score and translation,
separated by tabs.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from pipelines.cli.documents import (
    add_document_options,
    check_document_options,
    translate_document,
)
from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser, add_model_options, search_options
from pipelines.cli.process import import_tensorflow
from pipelines.cli.text import (
    add_columns_option,
    add_text_options,
    one_line,
    read_text,
    split_columns,
)


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
    add_columns_option(parser)
    add_document_options(parser)
    _add_alignment_options(parser)
    parser.add_argument(
        "--terms",
        metavar="FILE",
        help="lines of source, tab and target: how words must be translated; see docs/protect.md",
    )
    args = parser.parse_args(argv)
    parser.exclude(args, "--terms", "--num-hypotheses", "--alignments")
    parser.exclude(args, "--protect", "--num-hypotheses")
    parser.exclude(args, "sentences", "--input")
    others = "--from", "--to", "--terms", "--protect", "--alignments", "--num-hypotheses"
    parser.exclude(args, "--columns", *others)
    parser.exclude(args, "--alignments", "--num-hypotheses")
    parser.need(args, "--alignments", "--target", "--alignment-head")
    parser.check_outputs(args, ["--alignments"], ["--input", "--target"])
    check_document_options(parser, args)
    import_tensorflow()

    sys.stdout.reconfigure(encoding="utf-8")
    if args.document:
        translate_document(args)
    elif args.alignments:
        _align(args)
    elif args.columns:
        _translate_columns(args)
    else:
        _translate(args)


def _translate(args: argparse.Namespace) -> None:
    from pipelines.cli.models import load_model, translate_in_parts, warn_of_long

    n_best = args.num_hypotheses is not None
    if n_best:
        check_unprotected(args, "--num-hypotheses")
    translate = load_model(args, n_best)
    sentences = read_text(args)
    warn_of_long(args, sentences)
    for translation in translate_in_parts(translate, sentences, args.batch_size):
        print(translation if n_best else one_line(translation))


def check_unprotected(args: argparse.Namespace, option: str) -> None:
    """Raise an error if a model protects something, which n-best lists do not.

    Args:
        args: The options of `add_model_options`.
        option: What asks for such lists.
    """
    from keras_transformer.translation.saved import find_translator

    if args.protect is None and (saved := find_translator(args.model).config.decoding.protect):
        raise ValueError(
            f"{option} protects nothing, and {args.model} is to protect {saved}. Leave {option} "
            "out, or give --protect '' too."
        )


def _translate_columns(args: argparse.Namespace) -> None:
    """Print the translations of lines that name their languages."""
    from keras_transformer.training import prepare_cpu
    from keras_transformer.translation import Translator
    from keras_transformer.translation.languages import language_columns
    from pipelines.cli.models import translate_in_parts, warn_of_long

    prepare_cpu()
    translator = Translator.load(args.model, **search_options(args))
    columns = split_columns(read_text(args))
    texts = columns.pop("text")
    languages = language_columns(columns, {}, translator.tokenizer, len(texts))
    left = [iter(column) for column in languages]

    def translate(part, advance):
        languages = (list(islice(column, len(part))) for column in left)
        return translator(part, args.batch_size, advance, *languages)

    warn_of_long(args, texts)
    for translation in translate_in_parts(translate, texts, args.batch_size):
        print(one_line(translation))


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
