"""An argument parser whose errors are one line, and options that several commands share."""

import argparse
import dataclasses
import difflib
import os
import re
from collections.abc import Sequence
from typing import Any, NoReturn

MODEL_HELP = (
    "run directory (pipelines.train --output), directory of Translator.save, or exported SavedModel"
)

# Text also has a --source-language and a --target-language.
_OPTIONS = {"source_language": "from", "target_language": "to"}
"""Names of the options of a search that do not have the name of their field."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that answers a mistake in one line, with the option that was meant."""

    def parse_args(self, args: Sequence[str] | None = None, namespace=None) -> argparse.Namespace:
        """Parse a command line. Exit with status 2 if it has mistakes."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            if option.startswith("-"):
                self.error(f"{option} is not an option{self._suggestion(option)}")
            self.error(f"{unknown[0]!r} is one argument too many")
        return found

    def exclude(self, args: argparse.Namespace, option: str, *others: str) -> None:
        """Exit with status 2 if an option is given together with one of others."""
        for other in others:
            if _value(args, option) and _value(args, other):
                self.error(f"give {option} or {other}, not both")

    def need(self, args: argparse.Namespace, needed: str, *options: str) -> None:
        """Exit with status 2 if one of some options is given without the one that it needs."""
        for option in options:
            if _value(args, option) and not _value(args, needed):
                self.error(f"{option} needs {needed}")

    def check_outputs(
        self, args: argparse.Namespace, outputs: Sequence[str], inputs: Sequence[str] = ()
    ) -> None:
        """Exit with status 2 if a file cannot be written, or is also read or written otherwise.

        Devices and pipes may be given more than once.

        Args:
            args: The options.
            outputs: Options that name files to write.
            inputs: Options that name files to read.
        """
        taken = {"standard input": "/dev/stdin", "standard output": "/dev/stdout"}
        taken |= {option: _value(args, option) for option in inputs if _value(args, option)}
        for option in outputs:
            if not (path := _value(args, option)):
                continue
            received = f"received {path}"
            target = os.path.realpath(path)
            exists, directory = os.path.exists(path), os.path.dirname(target)
            if os.path.isdir(path):
                self.error(f"{option} must be a file, received the directory {path}")
            is_file = os.path.isfile(path) or not exists
            if is_file and not os.path.isdir(directory):
                self.error(f"{option} must be in an existing directory, {received}")
            if is_file and not os.access(directory, os.W_OK | os.X_OK):
                self.error(f"{option} must be in a directory that you may write to, {received}")
            if exists and not os.access(path, os.W_OK):
                self.error(f"{option} must be a file that you may write to, {received}")
            for other, name in taken.items():
                if is_file and _is_same(target, name):
                    self.error(f"{option} and {other} must be different files, {received} as both")
            taken[option] = path

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and the message in one line."""
        required = "the following arguments are required: "
        if message.startswith(required):
            message = f"give {message.removeprefix(required)}"
        end = "" if message.endswith(("?", ".")) else "."
        self.exit(2, f"error: {message}{end} See {self.prog} --help.\n")

    def _suggestion(self, option: str) -> str:
        options = re.findall(r"^ +(?:-\w, )?(--[\w.-]+)", self.format_help(), re.MULTILINE)
        close = difflib.get_close_matches(option, options, n=1)
        return f", did you mean {close[0]}?" if close else ""


def _value(args: argparse.Namespace, option: str) -> Any:
    return getattr(args, option.removeprefix("--").replace("-", "_"))


def _is_same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:  # One of them does not exist.
        return path == os.path.realpath(other)


def add_search_options(parser: argparse.ArgumentParser) -> None:
    """Add an option for each field of `DecodingConfig`."""
    from pydantic import TypeAdapter

    from keras_transformer.config import DecodingConfig

    group = parser.add_argument_group(
        "decoding", "Each replaces a value that was saved with the model."
    )
    for name, field in TypeAdapter(DecodingConfig).json_schema()["properties"].items():
        # DecodingConfig converts and checks the value.
        group.add_argument(
            option_of(_OPTIONS.get(name, name)),
            metavar="VALUE",
            help=field["description"].replace("%", "%%"),
        )


def search_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the given options of `add_search_options` by the names of their fields."""
    from keras_transformer.config import DecodingConfig

    names = (field.name for field in dataclasses.fields(DecodingConfig))
    given = {name: getattr(args, _OPTIONS.get(name, name)) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def option_of(field: str) -> str:
    """Return the option of a field.

    >>> option_of("beam_size")
    '--beam-size'
    """
    return f"--{field.replace('_', '-')}"


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --model, --batch-size and the options of the search."""
    parser.add_argument(
        "--model",
        required=True,
        help=MODEL_HELP,
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="sentences per batch (default 64, or 256 with a GPU)",
    )
    add_search_options(parser)
