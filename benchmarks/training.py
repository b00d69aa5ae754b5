"""How fast a model trains on the CPU, beside KerasHub and PyTorch on the same batches.

    python -m benchmarks.training
    python -m benchmarks.training --source train.en --target train.de --precisions float32

Peers that are not installed are left out; they come with `pip install keras-hub torch`. All make
whole steps: forwards, backwards and Adam. They take turns, each in a process of its own.
"""

import argparse
import importlib.util
import os
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import islice
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.costs import Cost, processes, run_step, take_turns
from benchmarks.machine import describe_machine
from benchmarks.report import print_report
from benchmarks.trainers import TRAINERS, Batch, make_step, save_batches
from keras_transformer.config import PAD_ID
from keras_transformer.data import TokenBatches, encode_pairs, read_pairs
from keras_transformer.data.generated import generated_corpus
from keras_transformer.presets import PRESETS
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece

VOCAB_SIZE = 7500
BATCHES = {"tiny": (4096, 10), "base": (1024, 2)}
"""By the model's name: target tokens of a batch, and batches of a run."""
PACKAGES = {"KerasHub": "keras_hub", "PyTorch": "torch"}

HEADER = """\
| model | precision | trainer | tokens/s | spread | ratio | loss | peak MB | others |
|---|---|---|--:|--:|--:|--:|--:|--:|"""
NOTES = """
- tokens/s: source and target tokens a second, padding left out, in the median of {repeats} runs
  over the same batches: {batches}. spread: slowest less fastest run, by the median. ratio: to the
  fastest peer as it is installed.
- loss: mean over the batches of a last run, to show that all learn; KerasHub's is not smoothed.
- memory kept: `keras_transformer.training.keep_freed_memory` was called, as `train` does. memory
  given back: it was not.
- peak MB: of the trainer's process. others: the most cores that other processes kept busy during a
  run.
- {machine}. Python {python}, {versions}."""


def read_batches(
    pairs: Sequence[tuple[str, str]], tokenizer: SentencePieceTokenizer, name: str
) -> list[Batch]:
    """Return the first batches of an epoch over the text, source and labels."""
    batch_tokens, count = BATCHES[name]
    encoded = encode_pairs(pairs, tokenizer, tokenizer, max_length=128)
    batches = TokenBatches(encoded, batch_tokens, seed=1).dataset()
    return [(inputs["source"].numpy(), labels.numpy()) for inputs, labels in islice(batches, count)]


def installed() -> list[str]:
    """Return the trainers whose packages are installed."""
    missing = {
        name for name, package in PACKAGES.items() if importlib.util.find_spec(package) is None
    }
    return [name for name in TRAINERS if name.partition(",")[0] not in missing]


def table_row(
    model: str,
    precision: str,
    name: str,
    tokens: int,
    cost: Cost,
    loss: float,
    peers: Sequence[Cost],
) -> str:
    """Return a line of the table; `peers` are what the ratio is to the fastest of."""
    fastest = min((peer.median for peer in peers), default=None)
    cells = (
        *(model, precision, name),
        f"{tokens / cost.median:,.0f}",
        f"{cost.spread:.0%}",
        "" if fastest is None else f"{fastest / cost.median:.2f}",
        f"{loss:.2f}",
        f"{cost.peak_memory / 1e6:,.0f}",
        f"{max(cost.other_cores):.1f}",
    )
    return f"| {' | '.join(cells)} |"


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure, and yield the lines of a Markdown table and its notes as they come."""
    if args.source:
        pairs = read_pairs(args.source, args.target)
    else:
        pairs = generated_corpus(train=20_000, validation=0, test=0).train
    lines = (line for pair in pairs for line in pair)
    tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, VOCAB_SIZE))
    names = installed()
    yield HEADER
    for model in args.models:
        batches = read_batches(pairs, tokenizer, model)
        tokens = sum(int(np.count_nonzero(ids != PAD_ID)) for pair in batches for ids in pair)
        config = replace(PRESETS[model].model, vocab_size=tokenizer.vocab_size)
        for precision in args.precisions:
            with tempfile.TemporaryDirectory() as folder, processes(names) as ask:
                path = Path(folder) / "batches.npz"
                save_batches(batches, path)
                case = (config, precision, str(path))
                costs = take_turns(ask, make_step, names, case, args.repeats)
                losses = {name: ask(name, run_step, make_step, name, case) for name in names}
            peers = [costs[name] for name in PACKAGES if name in costs]
            for name, cost in costs.items():
                yield table_row(model, precision, name, tokens, cost, losses[name], peers)
    yield NOTES.format(
        repeats=args.repeats,
        batches="; ".join(
            f"{model}: {count} of {size:,} target tokens"
            for model, (size, count) in BATCHES.items()
            if model in args.models
        ),
        machine=describe_machine(),
        python=platform.python_version(),
        versions=", ".join(
            f"{name} {metadata.version(name)}"
            for name in ("tensorflow", "keras", "keras-hub", "torch")
            if importlib.util.find_spec(name.replace("-", "_"))
        ),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    precisions = ["float32", "mixed_bfloat16"]
    parser.add_argument("--precisions", nargs="+", choices=precisions, default=precisions)
    parser.add_argument("--source", help="text to train on, or .gz; generated by default")
    parser.add_argument("--target", help="its translations, line by line")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each trainer (default 5)")
    parser.add_argument("--output", type=Path, help="file for what is printed")
    print_report(report(args := parser.parse_args(argv)), args.output)


if __name__ == "__main__":
    main()
