"""Translate text: arguments, a file, or standard input, line by line and in order.

Usage:
    python -m pipelines.translate --model saved_models/quickstart "The old dog sleeps."
"""

import argparse
import sys
from collections.abc import Sequence

from tqdm import tqdm

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
        translate = load_model(args)
        if args.sentences:
            sentences = args.sentences
        elif args.input:
            sentences = read_lines(args.input)
        else:
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")
            sentences = [line.rstrip("\r\n") for line in sys.stdin]
        # Long work is printed as it goes: in parts, inside which lengths are sorted.
        part = max(32 * args.batch_size, 1)
        short = len(sentences) <= args.batch_size
        with tqdm(total=len(sentences), unit=" sentences", disable=short) as bar:
            for start in range(0, len(sentences), part):
                for translation in translate(sentences[start : start + part], False):
                    print(as_line(translation))
                sys.stdout.flush()
                bar.update(min(part, len(sentences) - start))


if __name__ == "__main__":
    main()
