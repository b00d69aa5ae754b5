"""The options and the report of a benchmark."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipelines.cli.errors import plain_errors


def new_parser(description: str | None, **options: Any) -> argparse.ArgumentParser:
    """Return a parser whose help begins with a description as it is written."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **options
    )


def table_line(cells: Iterable[Any]) -> str:
    """Return a row of a Markdown table.

    >>> table_line(["base", 65])
    '| base | 65 |'
    """
    return f"| {' | '.join(map(str, cells))} |"


def print_report(lines: Iterable[str], output: Path | None) -> None:
    """Print lines as they arrive, and write them all to a file at the end."""
    printed = []
    with plain_errors():
        for line in lines:
            print(line, flush=True)
            printed.append(line)
        if output:
            output.write_text("\n".join(printed) + "\n", encoding="utf-8")
