"""Import a model that Marian trained; the earlier name of the command import."""

import importlib
from collections.abc import Sequence


def main(
    argv: Sequence[str] | None = None, prog: str = "python -m pipelines.import_marian"
) -> None:
    # A keyword is no name in a statement.
    importlib.import_module("pipelines.import").main(argv, prog)


if __name__ == "__main__":
    main()
