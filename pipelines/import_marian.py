"""Import a model that Marian trained; the earlier name of the command import."""

from pipelines.import_model import main

if __name__ == "__main__":
    main(prog="python -m pipelines.import_marian")
