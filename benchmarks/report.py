"""Printing what a benchmark finds."""

from collections.abc import Iterable
from pathlib import Path

from pipelines.cli import plain_errors


def print_report(lines: Iterable[str], output: Path | None) -> None:
    """Print lines as they come, and write them to a file when all have come."""
    printed = []
    with plain_errors():
        for line in lines:
            print(line, flush=True)
            printed.append(line)
        if output:
            output.write_text("\n".join(printed) + "\n", encoding="utf-8")
