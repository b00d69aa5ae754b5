"""Export a trained model as a SavedModel that takes and returns strings.

Usage:
    python -m pipelines.export --checkpoint runs/en_de --output saved_models/en_de
"""

import argparse
from collections.abc import Sequence

from pipelines.cli import add_search_options, plain_errors, search_options


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="directory of a training")
    parser.add_argument("--output", required=True, help="the model's directory, saved_models/NAME")
    add_search_options(parser)
    args = parser.parse_args(argv)
    from keras_transformer.export import export_saved_model
    from keras_transformer.training import load_translator

    with plain_errors():
        translator = load_translator(args.checkpoint, **search_options(args))
        print(export_saved_model(translator, args.output))


if __name__ == "__main__":
    main()
