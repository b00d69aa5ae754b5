"""Export a trained model as a SavedModel that takes and returns strings.

Usage:
    python -m pipelines.export --checkpoint runs/en_de --output saved_models/en_de
"""

import argparse
from collections.abc import Sequence

from pipelines.cli import plain_errors


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="directory of a training")
    parser.add_argument("--output", required=True, help="the model's directory, saved_models/NAME")
    args = parser.parse_args(argv)
    from keras_transformer.export import export_saved_model
    from keras_transformer.training import load_translator

    with plain_errors():
        print(export_saved_model(load_translator(args.checkpoint), args.output))


if __name__ == "__main__":
    main()
