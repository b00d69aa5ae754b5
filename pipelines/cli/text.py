"""Text of the terminal: what a command reads, and lines that it prints."""

import argparse
import sys
from collections.abc import Sequence


def add_text_options(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add sentences and --input.

    Args:
        parser: The parser.
        purpose: What happens to the text, such as "to translate".
    """
    parser.add_argument("sentences", nargs="*", help=f"text {purpose}; otherwise --input")
    parser.add_argument(
        "--input", metavar="FILE", help="text or .gz file; standard input by default"
    )


def add_columns_option(parser: argparse.ArgumentParser) -> None:
    """Add --columns, which takes the place of --from and --to."""
    parser.add_argument(
        "--columns",
        action="store_true",
        help="each line is a source language, a target language and a text, separated by tabs, "
        "instead of --from and --to",
    )


def split_columns(lines: Sequence[str], are_numbered: bool = True) -> dict[str, list[str]]:
    """Return the columns of lines for --columns by their names.

    Args:
        lines: The lines.
        are_numbered: Whether they are a whole text, so that an error has the numbers of lines.

    Raises:
        ValueError: If a line has fewer than two tabs.

    >>> split_columns(["en\\tde\\tA dog.", "en\\t fr\\tA dog."])["target_language"]
    ['de', 'fr']
    """
    rows = [line.split("\t", 2) for line in lines]
    if places := [i for i, row in enumerate(rows) if len(row) < 3]:
        wrong = [f"{lines[i]!r}{f' (line {i + 1})' * are_numbered}" for i in places]
        raise ValueError(
            "With --columns, a line must be a source language, a target language and a text, "
            f"separated by tabs; received {', '.join(wrong[:3])}. Correct the lines, or leave out "
            "--columns."
        )
    return {
        "source_language": [row[0].strip() for row in rows],
        "target_language": [row[1].strip() for row in rows],
        "text": [row[2] for row in rows],
    }


def read_text(args: argparse.Namespace) -> Sequence[str]:
    """Return the sentences, or the lines of --input or of standard input."""
    if args.sentences:
        return args.sentences
    if args.input:
        from keras_transformer.data import read_lines

        return read_lines(args.input)
    invite_input()
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")
    return [line.rstrip("\r\n") for line in sys.stdin]


def invite_input() -> None:
    """Say what the command waits for, if a person is at standard input."""
    if sys.stdin.isatty():
        print("Type one sentence per line, then Ctrl-D on a new line.", file=sys.stderr)


def one_line(text: str) -> str:
    """Return a text without line breaks, which a model can write in bytes."""
    return text.replace("\n", " ").replace("\r", " ")
