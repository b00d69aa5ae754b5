"""Export a trained model as a SavedModel that takes and returns strings.

Usage:
    python -m pipelines.export --checkpoint runs/en_de --output saved_models/en_de
"""

import argparse
import dataclasses
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.cli import add_search_options, plain_errors, search_options


def main(argv: Sequence[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", required=True, help="directory of a training")
    parser.add_argument("--output", required=True, help="the model's directory, saved_models/NAME")
    parser.add_argument(
        "--scores",
        metavar="FILE",
        help="for the model card: what pipelines.evaluate --json wrote of this model",
    )
    parser.add_argument(
        "--description",
        metavar="FILE",
        help="for the model card, Markdown: languages, kind of text, terms of use",
    )
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="for XLA to compile the search when it is loaded: faster, most of all for single "
        "sentences, and only for a server started with --xla_cpu_compilation_enabled, as "
        "pipelines.serve starts it",
    )
    parser.add_argument(
        "--precision",
        choices=["float32", "bfloat16"],
        default="float32",
        help="of weights and matrix products (default float32): weights in bfloat16 take half the "
        "space, and batches less time on processors that multiply in it (amx_bf16 in "
        "/proc/cpuinfo), but not with --compiled",
    )
    add_search_options(parser)
    args = parser.parse_args(argv)
    from keras_transformer.export import export_saved_model
    from keras_transformer.training import load_translator

    with plain_errors():
        kind = {"compiled": args.compiled, "precision": args.precision}
        translator = load_translator(args.checkpoint, **kind, **search_options(args))
        facts = {"command": shlex.join(["python", "-m", "pipelines.export", *argv])}
        facts |= training_facts(Path(args.checkpoint))
        if args.description:
            facts["description"] = Path(args.description).read_text(encoding="utf-8").strip()
        if args.scores:
            facts["scores"] = json.loads(Path(args.scores).read_text(encoding="utf-8"))
        print(export_saved_model(translator, args.output, facts))


def training_facts(directory: Path) -> dict[str, Any]:
    """Return what a training's directory says of it, for the model card."""
    from keras_transformer.config import ExperimentConfig

    config = ExperimentConfig.from_file(directory / "config.yaml")
    facts = {"data": dataclasses.asdict(config.data)}
    chosen = directory / "chosen.json"
    if chosen.exists():
        facts["validation"] = json.loads(chosen.read_text(encoding="utf-8"))
    return {**facts, "training": dataclasses.asdict(config.training)}


if __name__ == "__main__":
    main()
