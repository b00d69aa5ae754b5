"""Import a model that Marian trained, from its own files or a folder of Hugging Face.

Usage:
    python -m pipelines.import_marian --model opus-mt-en-de --output runs/opus_en_de

The output is a model like any other, for evaluate, translate, figures, export and for
--training.init_from of train.
"""

from collections.abc import Sequence

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser
from pipelines.cli.process import import_tensorflow, start_log


@plain_errors()
def main(
    argv: Sequence[str] | None = None, prog: str = "python -m pipelines.import_marian"
) -> None:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument(
        "--model",
        required=True,
        metavar="PATH",
        help="a folder with config.json, vocab.json, source.spm, target.spm and model.safetensors "
        "or pytorch_model.bin (Hugging Face), or with decoder.yml, NAME.decoder.yml or "
        "config.NAME.yml and the files that it names, source.spm and target.spm (a release of "
        "OPUS-MT); of several such files, give one; nothing is downloaded",
    )
    parser.add_argument(
        "--output", required=True, metavar="DIRECTORY", help="a new directory for the model"
    )
    parser.add_argument(
        "--normalization",
        choices=["none", "opus"],
        default="none",
        help="what is done to text first: nothing, as Hugging Face does (the default), or the "
        "replacements of the scripts with which OPUS-MT trained its models",
    )
    parser.add_argument(
        "--ignore",
        nargs="+",
        default=[],
        metavar="NAME",
        help="options of the search that cannot be imported and may be left out, such as "
        "early_stopping; translations may then differ from the other program's",
    )
    parser.add_argument(
        "--license",
        metavar="TEXT",
        help="license of the model, which its exports name; by default what its README.md, "
        "config.json or LICENSE says",
    )
    parser.add_argument(
        "--attribution",
        metavar="TEXT",
        help="who must be credited; by default as the files say",
    )
    args = parser.parse_args(argv)
    start_log()
    import_tensorflow()
    from keras_transformer.pretrained import import_marian

    origin = {"license": args.license, "attribution": args.attribution}
    translator = import_marian(args.model, args.normalization, args.ignore, **origin)
    translator.save(args.output)
    print(args.output)


if __name__ == "__main__":
    main()
