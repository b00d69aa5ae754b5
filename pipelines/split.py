"""Split parallel text into training, validation and test text without leaks.

Usage:
    python -m pipelines.split --source all.en --target all.de --output split

Pairs whose sources differ in case, digits, punctuation or white space only stay together; with
--group, so do those with equal lines in that file, such as the document or package of each pair.
"""

from collections.abc import Sequence

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow, start_log


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.split") -> None:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument(
        "--source",
        required=True,
        nargs="+",
        metavar="FILE",
        help="text; without --target, files of pairs: TSV, .po, XLIFF, TMX or .ts",
    )
    parser.add_argument(
        "--target", help="its translations, line by line; both may be .gz, .xz, .zst"
    )
    parser.add_argument(
        "--output", required=True, metavar="DIRECTORY", help="a new or empty directory"
    )
    for part in ("valid", "test"):
        parser.add_argument(
            f"--{part}", type=int, default=2000, metavar="N", help="pairs of it (default 2000)"
        )
    parser.add_argument(
        "--group", metavar="FILE", help="the document or package of each pair, which stays whole"
    )
    parser.add_argument("--seed", type=int, default=1, help="chooses what is held out (default 1)")
    args = parser.parse_args(argv)
    start_log()
    import_tensorflow()
    from keras_transformer.data.splitting import split_text

    found = split_text(
        args.source,
        args.target,
        args.output,
        valid=args.valid,
        test=args.test,
        groups=args.group,
        seed=args.seed,
    )
    for part, files in found.files.items():
        print(f"{part}: {found.pairs[part]:,} pairs in {' and '.join(map(str, files))}")
    if found.left_out:
        print(
            f"left out: {found.left_out:,} pairs of groups in valid and test, with an empty side "
            "or a source that other groups have too"
        )


if __name__ == "__main__":
    main()
