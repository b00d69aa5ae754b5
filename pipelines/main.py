"""The program `keras-transformer`, which runs the command that its first argument names."""

import difflib
import importlib
import sys
from collections.abc import Sequence

from pipelines.cli.errors import plain_errors

COMMANDS = {
    "quickstart": "pipelines.quickstart.__main__",
    "import": "pipelines.import",
    "import_marian": "pipelines.import_marian",
    "plan": "pipelines.plan",
    "prepare": "pipelines.prepare",
    "split": "pipelines.split",
    "train": "pipelines.train",
    "evaluate": "pipelines.evaluate",
    "translate": "pipelines.translate",
    "translate_corpus": "pipelines.translate_corpus",
    "parse": "pipelines.parse",
    "figures": "pipelines.figures",
    "export": "pipelines.export",
    "serve": "pipelines.serve",
    "client": "pipelines.client",
}
"""The module of each command, whose docstring's first line describes it."""


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "keras-transformer") -> None:
    """Run a command.

    Args:
        argv: The command and its arguments; by default the arguments of the process.
        prog: The name of the program in messages.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    name, *arguments = argv or ["--help"]
    if name in ("-h", "--help"):
        print(_help(prog))
    elif name == "--version":
        from keras_transformer import __version__

        print(f"{prog} {__version__}")
    elif name in COMMANDS:
        importlib.import_module(COMMANDS[name]).main(arguments, prog=f"{prog} {name}")
    else:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        meant = f", did you mean {close[0]}?" if close else f"; choose from {', '.join(COMMANDS)}."
        print(f"error: {name} is not a command{meant} See {prog} --help.", file=sys.stderr)
        sys.exit(2)


def _help(prog: str) -> str:
    lines = [f"usage: {prog} COMMAND [OPTIONS]", "", "commands:"]
    for name, module in COMMANDS.items():
        about = importlib.import_module(module).__doc__.split("\n")[0]
        lines.append(f"  {name:<18}{about}")
    return "\n".join([*lines, "", f"{prog} COMMAND --help lists the options of a command."])


if __name__ == "__main__":
    main(prog="python -m pipelines.main")
