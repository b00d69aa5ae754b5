"""Import a model of another program: NLLB, M2M100, mBART-50, OPUS-MT or Marian.

Usage:
    python -m pipelines.import nllb-200-distilled-600M --output runs/nllb

The output is a model like any other, for evaluate, translate, figures, export and for
--training.init_from of train.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import Parser
from pipelines.cli.process import free_unused_memory, import_tensorflow, start_log


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.import") -> None:
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="FOLDER",
        help="a folder with config.json, the files of the tokenizer, and model.safetensors "
        "or pytorch_model.bin (Hugging Face), or with decoder.yml, NAME.decoder.yml or "
        "config.NAME.yml and the files that it names, source.spm and target.spm (a release of "
        "OPUS-MT); of several such files, give one; nothing is downloaded",
    )
    parser.add_argument("--model", metavar="FOLDER", help="the same")
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
        "num_beam_groups; translations may then differ from the other program's",
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
    folders = [folder for folder in (args.folder, args.model) if folder is not None]
    if len(folders) != 1:
        parser.error("give one FOLDER with a model")
    output = Path(args.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        parser.error(
            f"--output must be a new or empty directory, received {output}, which holds something. "
            "Choose another, or remove what is there."
        )
    start_log()
    free_unused_memory()
    import_tensorflow()
    from keras_transformer.pretrained import import_model

    origin = {"license": args.license, "attribution": args.attribution}
    translator = import_model(folders[0], args.normalization, args.ignore, **origin)
    translator.save(output)
    print(args.output)
    if translator.languages:
        print(f"languages: {' '.join(translator.languages)}", file=sys.stderr)


if __name__ == "__main__":
    main()
