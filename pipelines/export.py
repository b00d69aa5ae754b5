"""Export a trained model as a SavedModel that takes and returns strings, or for other programs.

Usage:
    python -m pipelines.export --checkpoint runs/en_de --output saved_models/en_de
    python -m pipelines.export --checkpoint runs/en_de --output ct2/en_de --format ctranslate2
"""

import argparse
import json
import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.cli.errors import plain_errors
from pipelines.cli.parser import MODEL_HELP, Parser, add_search_options, search_options
from pipelines.cli.process import free_unused_memory, import_tensorflow, start_log

if TYPE_CHECKING:
    from keras_transformer.translation import Translator

_OTHER_FORMATS = ("ctranslate2", "hugging_face")
_EXAMPLES, _LONGEST_EXAMPLE = 3, 80
"""How many sentences the page offers, and their characters."""
_ABOUT_MODEL = {
    "license": ("TEXT", "the license of the model"),
    "attribution": ("TEXT", "whom a user of the model must name"),
    "examples": (
        "FILE",
        f"sentences to try, the first {_EXAMPLES} lines of at most {_LONGEST_EXAMPLE} characters",
    ),
    "scores": ("FILE", "what pipelines.evaluate --json wrote for this model"),
    "description": ("FILE", "in Markdown: kind of text, training, limits"),
}
"""Options for the model card and the server's page: kind of value and help."""
_OF_SAVED_MODELS = {
    **dict.fromkeys(["languages", *_ABOUT_MODEL]),
    "compiled": False,
    "device": "cpu",
    "precision": "float32",
    "quantize": None,
}
"""The defaults of options that other formats do not have."""


@plain_errors()
def main(argv: Sequence[str] | None = None, prog: str = "python -m pipelines.export") -> None:
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = Parser(prog=prog, description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", "--model", required=True, help=MODEL_HELP)
    parser.add_argument("--output", required=True, help="the model's directory, saved_models/NAME")
    parser.add_argument(
        "--format",
        choices=["saved_model", *_OTHER_FORMATS],
        default="saved_model",
        help="a SavedModel (default), a directory for CTranslate2, or a folder for "
        "AutoModelForSeq2SeqLM.from_pretrained of Hugging Face",
    )
    parser.add_argument(
        "--restrict-vocabulary",
        metavar="FILE",
        help="text in the target language; the export writes its tokens and no other words, which "
        "is faster with a large vocabulary",
    )
    _add_saved_model_options(parser)
    add_search_options(parser)
    args = parser.parse_args(argv)
    if args.precision == "float16" and args.device != "gpu":
        parser.error("--precision float16 needs --device gpu; use bfloat16 on a CPU")
    if args.languages and len(args.languages) < 2:
        parser.error(f"--languages needs source and target, received {args.languages[0]}")
    if args.format in _OTHER_FORMATS:
        for name, default in _OF_SAVED_MODELS.items():
            if getattr(args, name) != default:
                parser.error(f"--{name} applies to --format saved_model, received {args.format}")
        _export_to_other(args)
        return
    facts: dict[str, Any] = {"command": shlex.join([*prog.split(), *argv])}
    texts: dict[str, Any] = {}
    if args.description:
        texts["description"] = _read("--description", args.description).strip()
    for name in ("languages", "license", "attribution"):
        if (value := getattr(args, name)) is not None:
            texts[name] = value
    if args.scores:
        texts["scores"] = _read_json("--scores", args.scores)
    start_log()
    free_unused_memory()
    import_tensorflow()
    from keras_transformer.export import export_saved_model
    from keras_transformer.training.run_directory import run_facts
    from keras_transformer.translation import Translator

    carried = run_facts(args.checkpoint)
    changes = args.precision != "float32", args.quantize, args.restrict_vocabulary
    if search_options(args) or any(changes):
        carried.pop("scores", None)  # An earlier export was scored with other options.
    if args.examples:
        texts["examples"] = _read_examples(args.examples)
    facts |= carried | texts

    def load():
        how = {"device": args.device, "precision": args.precision, **search_options(args)}
        compiled = args.compiled or args.device == "gpu"
        translator = _restricted(args, Translator.load(args.checkpoint, compiled=compiled, **how))
        if args.quantize:
            translator.model.quantize(args.quantize)
        return translator

    # Without a name for the translator here, the export can free it.
    print(export_saved_model(load(), args.output, facts))
    logging.getLogger("keras_transformer").info(
        "serve it: keras-transformer serve --model %s", args.output
    )


def _add_saved_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that other formats do not have."""
    group = parser.add_argument_group(
        "about the model", "For the model card and the server's page."
    )
    group.add_argument(
        "--languages", nargs="+", metavar="CODE", help="source and target, such as en de"
    )
    for name, (kind_of_value, text) in _ABOUT_MODEL.items():
        group.add_argument(f"--{name}", metavar=kind_of_value, help=text)
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="compile the search with XLA when the model is loaded: faster, especially for single "
        "sentences, but only for a server started with --xla_cpu_compilation_enabled, as "
        "pipelines.serve does",
    )
    parser.add_argument(
        "--device",
        choices=["cpu", "gpu"],
        default="cpu",
        help="the device that --compiled is for (default cpu); gpu implies --compiled. A model "
        "that is not compiled runs on both",
    )
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16", "float16"],
        default="float32",
        help="type of weights and matrix products (default float32); bfloat16 weights take half "
        "the space, and batches take less time on processors with bfloat16 instructions "
        "(amx_bf16 in /proc/cpuinfo), but not with --compiled; float16 is for --device gpu",
    )
    parser.add_argument(
        "--quantize",
        choices=["int8"],
        help="store kernels and embeddings as int8, in a quarter of the space; see "
        "docs/adaptation.md for what it costs",
    )


def _read_examples(path: str) -> list[str]:
    """Return the first short sentences of a file."""
    from keras_transformer.data.sources import read_lines

    short = [text for text in map(str.strip, read_lines(path)) if 0 < len(text) <= _LONGEST_EXAMPLE]
    return list(dict.fromkeys(short))[:_EXAMPLES]


def _export_to_other(args: argparse.Namespace) -> None:
    start_log()
    free_unused_memory()
    import_tensorflow()
    from keras_transformer.export import export_ctranslate2
    from keras_transformer.pretrained import save_hugging_face
    from keras_transformer.translation import Translator

    export = {"ctranslate2": export_ctranslate2, "hugging_face": save_hugging_face}[args.format]
    translator = Translator.load(args.checkpoint, **search_options(args))
    if args.restrict_vocabulary and translator.languages and args.format == "hugging_face":
        raise ValueError(
            "--restrict-vocabulary needs another --format than hugging_face, whose models of many "
            f"languages have one vocabulary; received a model of {len(translator.languages)} "
            "languages. Leave out one of the options."
        )
    print(export(_restricted(args, translator), args.output))


def _restricted(args: argparse.Namespace, translator: "Translator") -> "Translator":
    """Return the translator, restricted to the tokens of --restrict-vocabulary."""
    from keras_transformer.data.sources import read_lines
    from keras_transformer.translation.restriction import restrict_vocabulary

    if not args.restrict_vocabulary:
        return translator
    return restrict_vocabulary(translator, read_lines(args.restrict_vocabulary))


def _read(option: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{option} must be UTF-8 text, received {path}: {error}.") from error


def _read_json(option: str, path: str) -> dict[str, Any]:
    try:
        values = json.loads(_read(option, path))
    except json.JSONDecodeError as error:
        values = error
    if not isinstance(values, dict):
        raise ValueError(
            f"{option} must be a JSON file that pipelines.evaluate --json wrote, received {path}"
            + (f": {values}." if isinstance(values, Exception) else ".")
        )
    return values


if __name__ == "__main__":
    main()
