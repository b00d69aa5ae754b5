"""Translate text: arguments, a file, or standard input, line by line and in order.

Usage:
    python -m pipelines.translate --model saved_models/quickstart "The old dog sleeps."
"""

import argparse
import sys
from collections.abc import Sequence

from pipelines.cli import add_model_options, as_line, load_model, plain_errors


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_model_options(parser)
    parser.add_argument("sentences", nargs="*", help="what to translate; else --input is read")
    parser.add_argument("--input", help="text or .gz file; standard input by default")
    args = parser.parse_args(argv)
    if args.sentences and args.input:
        parser.error("give sentences or --input, not both")
    from keras_transformer.data import read_lines

    sys.stdout.reconfigure(encoding="utf-8")
    with plain_errors():
        if args.sentences:
            sentences = args.sentences
        elif args.input:
            sentences = read_lines(args.input)
        else:
            sys.stdin.reconfigure(encoding="utf-8", errors="replace", newline="\n")
            sentences = [line.rstrip("\r\n") for line in sys.stdin]
        for translation in load_model(args)(sentences, len(sentences) > args.batch_size):
            print(as_line(translation))


if __name__ == "__main__":
    main()
