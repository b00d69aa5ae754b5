"""Files that keep their structure, for --document."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.errors import FAILED
from pipelines.cli.parser import Parser, search_options

if TYPE_CHECKING:
    from keras_transformer.text import Tokenizer

_WITHOUT_PROGRESS = 5000
"""Characters of a document that are translated without a progress bar."""


def add_document_options(parser: Parser) -> None:
    """Add --document, and what applies to it alone."""
    group = parser.add_argument_group(
        "documents", "Files that keep their structure and markup; see docs/documents.md."
    )
    group.add_argument(
        "--document",
        metavar="FILE",
        help="translate a .txt, .md, .html, .docx, .po, .pot, .xliff, .json, .arb, .properties, "
        ".srt or .vtt file",
    )
    group.add_argument(
        "--output", metavar="FILE", help="where to write it; standard output by default"
    )
    group.add_argument("--force", action="store_true", help="replace the file of --output")
    group.add_argument(
        "--only-missing", action="store_true", help="keep the translations that messages have"
    )
    group.add_argument(
        "--checks",
        action="store_true",
        help="comment each new translation of a .po or .pot file with the checks of "
        "translate-toolkit's pofilter that it fails, such as different placeholders",
    )


def check_document_options(parser: Parser, args: argparse.Namespace) -> None:
    """Exit with status 2 if options do not go together."""
    lines = "sentences", "--input", "--num-hypotheses", "--alignments", "--columns"
    parser.exclude(args, "--document", *lines)
    if args.output and not args.document:
        parser.error("--output needs --document; translations of lines are on standard output")
    parser.need(args, "--document", "--force", "--only-missing", "--checks")
    parser.need(args, "--output", "--force")
    parser.check_outputs(args, ["--output"], ["--terms"])


def translate_document(args: argparse.Namespace) -> None:
    """Write the translation of a file; what fails is named, and the exit status says so."""
    from keras_transformer.documents.files import KEPT, check_suffix, translate_file
    from keras_transformer.training import prepare_cpu
    from keras_transformer.translation import Translator
    from keras_transformer.translation.batching import progress_bar
    from keras_transformer.translation.saved import find_translator
    from keras_transformer.utils.files import whole_file
    from pipelines.cli.models import read_terms

    path, output = Path(args.document), Path(args.output) if args.output else None
    check_suffix(path, args.only_missing, args.checks)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}. Check the path.")
    if output and output.is_file() and not args.force:
        raise FileExistsError(f"{output} exists. Choose another name, or give --force.")
    terms = read_terms(args.terms) if args.terms else None
    prepare_cpu()
    options = search_options(args)
    if path.suffix.lower() != ".txt":
        given = options.get("protect", find_translator(args.model).config.decoding.protect)
        options["protect"] = f"{KEPT} {given}".strip()
    translator = Translator.load(args.model, **options)
    tag = _read_tag(path, translator.tokenizer)
    with contextlib.ExitStack() as stack:
        file, advance = sys.stdout.buffer, None
        if output:
            file = stack.enter_context(stack.enter_context(whole_file(output)).open("wb"))

        def begin(size):
            nonlocal advance
            advance = stack.enter_context(progress_bar(size, disable=size <= _WITHOUT_PROGRESS))

        def translate(texts):
            texts = [text if text.startswith(tag.strip()) else tag + text for text in texts]
            return translator.documents(
                texts, batch_size=args.batch_size, progress=advance, terms=terms
            )

        failures = translate_file(path, file, translate, args.only_missing, args.checks, begin)
    for failure in failures:
        print(f"warning: not translated: {failure}", file=sys.stderr)
    if failures:
        sys.exit(FAILED)


def _read_tag(path: Path, tokenizer: "Tokenizer") -> str:
    """Return the tag that a plain text begins with, or warn that those in another file have none.

    It is "" if there is none, or the model has no tags.
    """
    from keras_transformer.translation.sentencewise import cut_tag

    tags = getattr(tokenizer, "language_tags", None)
    if path.suffix.lower() == ".txt":
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            tag = cut_tag([file.readline()], tokenizer)[0].numpy()[0].decode()
            return f"{tag.rstrip()} " if tag else ""  # A line may begin with a space.
    if tags:
        print(
            "warning: a model with tags must translate texts that begin with one, such as "
            f"{tags[0]}, if its tags are languages; those of {path} have none unless it is "
            "written there. Convert it to .txt, and start it with a tag.",
            file=sys.stderr,
        )
    return ""
