"""Import a model that Marian trained; the earlier name of the command import."""

import importlib

main = importlib.import_module("pipelines.import").main  # A keyword is no name in a statement.

if __name__ == "__main__":
    main(prog="python -m pipelines.import_marian")
