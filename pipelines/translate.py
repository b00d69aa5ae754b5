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
from pipelines.cli.text import add_text_options, check_text_options, one_line, read_text


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.translate") -> None:
    parser = Parser(
        prog=prog,
        description=__doc__.split("\n")[0],
        epilog="With --num-hypotheses N, N lines are printed per sentence, best first: rank, "
        "score and translation, separated by tabs.",
    )
    add_model_options(parser)
    add_text_options(parser, "to translate")
    parser.add_argument(
        "--terms",
        metavar="FILE",
        help="lines of source, tab and target: how words must be translated; see docs/protect.md",
    )
    args = parser.parse_args(argv)
    if args.terms and args.num_hypotheses is not None:
        parser.error("give --terms or --num-hypotheses, not both")
    check_text_options(parser, args)
    n_best = args.num_hypotheses is not None
    import_tensorflow()
    from pipelines.cli.models import load_model, translate_in_parts, warn_of_long

    sys.stdout.reconfigure(encoding="utf-8")
    translate = load_model(args, n_best)
    sentences = read_text(args)
    warn_of_long(args, sentences)
    for translation in translate_in_parts(translate, sentences, args.batch_size):
        print(translation if n_best else one_line(translation))


if __name__ == "__main__":
    main()
