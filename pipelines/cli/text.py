"""Text of the terminal: what a command reads, and lines that it prints."""

import sys


def invite_input() -> None:
    """Say what the command waits for, if a person is at standard input."""
    if sys.stdin.isatty():
        print("Type one sentence per line, then Ctrl-D on a new line.", file=sys.stderr)


def one_line(text: str) -> str:
    """Return a text without line breaks, which a model can write in bytes."""
    return text.replace("\n", " ").replace("\r", " ")
