"""Translate text: arguments, a file, or standard input, line by line and in order.

Usage:
    python -m pipelines.translate --model saved_models/quickstart "The old dog sleeps."

With --num-hypotheses N, each sentence has N lines, best first: rank, score and translation,
separated by tabs.
"""

import sys
from collections.abc import Sequence

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser, add_model_options
from pipelines.cli.process import import_tensorflow
from pipelines.cli.text import invite_input, one_line


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.translate") -> None:
    parser = Parser(
        prog=prog,
        description=__doc__.split("\n")[0],
        epilog="With --num-hypotheses N, N lines are printed per sentence, best first: rank, "
        "score and translation, separated by tabs.",
    )
    add_model_options(parser)
    parser.add_argument("sentences", nargs="*", help="text to translate; otherwise --input")
    parser.add_argument(
        "--input", metavar="FILE", help="text or .gz file; standard input by default"
    )
    args = parser.parse_args(argv)
    if args.sentences and args.input:
        parser.error("give sentences or --input, not both")
    n_best = args.num_hypotheses is not None
    import_tensorflow()
    from tqdm import tqdm

    from pipelines.cli.models import load_model

    sys.stdout.reconfigure(encoding="utf-8")
    translate = load_model(args, n_best)
    sentences = args.sentences or _read(args.input)
    # Print while working. Sentences are sorted by length inside each part.
    part = max(32 * args.batch_size, 1)
    short = len(sentences) <= args.batch_size
    with tqdm(total=len(sentences), unit=" sentences", disable=short) as bar:
        for start in range(0, len(sentences), part):
            for translation in translate(sentences[start : start + part], False):
                print(translation if n_best else one_line(translation))
            sys.stdout.flush()
            bar.update(min(part, len(sentences) - start))


def _read(path: str | None) -> Sequence[str]:
    if path:
        from keras_transformer.data import read_lines

        return read_lines(path)
    invite_input()
    sys.stdin.reconfigure(encoding="utf-8-sig", errors="replace", newline="\n")
    return [line.rstrip("\r\n") for line in sys.stdin]


if __name__ == "__main__":
    main()
