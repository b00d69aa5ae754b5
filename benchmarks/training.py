"""Training speed on the CPU, compared with KerasHub and PyTorch on the same batches.

    python -m benchmarks.training
    python -m benchmarks.training --source train.en --target train.de --precisions float32

Peers that are not installed are left out; install them with `pip install keras-hub torch`. All make
whole steps: forward, backward and Adam. They take turns, each in a process of its own.
"""

import argparse
import importlib.util
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks.costs import Cost, processes, run_step, take_turns
from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report, table_line
from benchmarks.text import made_up_pairs
from benchmarks.trainers import PREPARED, TRAINERS, Batch, make_step, save_batches
from keras_transformer.config import PAD_ID
from keras_transformer.data import TokenBatches, encode_pairs, read_pairs
from keras_transformer.presets import PRESETS
from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece

VOCAB_SIZE = 7000
BATCHES = {"tiny": (4096, 5), "base": (1024, 2)}
"""Target tokens per batch with padding, and batches per run, by model."""
PACKAGES = {"KerasHub": "keras_hub", "PyTorch": "torch"}

HEADER = """\
| model | precision | trainer | tokens/s | spread | ratio | loss | peak MB | others |
|---|---|---|--:|--:|--:|--:|--:|--:|"""
NOTES = """
- tokens/s: source and target tokens per second without padding, the median of {repeats} runs over
  the same batches: {batches}. spread: slowest minus fastest run, divided by the median. ratio: to
  the fastest peer in a process of the same kind.
- prepared: our process called `keras_transformer.training.prepare_cpu`, as `train` does, and a
  peer's called `keep_freed_memory`, the part of it that helps them.
- All have the preset's dropout on the sub-layers' outputs and the attention weights; ours and
  PyTorch also on embeddings and inside the feed-forward networks. The peers' projections have
  biases, KerasHub's loss is not smoothed and its positions are learned, and PyTorch ends each stack
  in a norm.
- loss: mean over the batches of the last run, to show that all learn.
- Ours uses `optimizers.FusedAdam`, KerasHub Keras's Adam, PyTorch its fused Adam.
- peak MB: of the trainer's process. others: the most cores that other processes used during a run.
- {machine}."""


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
    names = [name for name in TRAINERS if name not in missing]
    return [f"{name}{prepared}" for name in names for prepared in ("", PREPARED)]


def table_row(
    model: str,
    precision: str,
    name: str,
    tokens: int,
    cost: Cost,
    loss: float,
    peers: Sequence[Cost],
) -> str:
    """Return a line of the table; The ratio is to the fastest of `peers`."""
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
    return table_line(cells)


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure, and yield the lines of a Markdown table and its notes as they come."""
    counts = {}
    if args.source:
        pairs = read_pairs(args.source, args.target)
    else:
        pairs = made_up_pairs(20_000)
    lines = (line for pair in pairs for line in pair)
    tokenizer = SentencePieceTokenizer(train_sentencepiece(lines, VOCAB_SIZE))
    names = installed()
    yield HEADER
    for model in args.models:
        batches = read_batches(pairs, tokenizer, model)
        counts[model] = len(batches)
        tokens = sum(int(np.count_nonzero(ids != PAD_ID)) for pair in batches for ids in pair)
        config = replace(PRESETS[model].model, vocab_size=tokenizer.vocab_size)
        for precision in args.precisions:
            with tempfile.TemporaryDirectory() as folder, processes(names) as ask:
                path = Path(folder) / "batches.npz"
                save_batches(batches, path)
                case = (config, precision, str(path))
                costs = take_turns(ask, make_step, names, case, args.repeats)
                losses = {name: ask(name, run_step, make_step, name, case) for name in names}
            for name, cost in costs.items():
                kind = PREPARED if name.endswith(PREPARED) else ""
                peers = [costs[f"{peer}{kind}"] for peer in PACKAGES if f"{peer}{kind}" in costs]
                yield table_row(model, precision, name, tokens, cost, losses[name], peers)
    yield NOTES.format(
        repeats=args.repeats,
        batches="; ".join(
            f"{model}: {count} of {BATCHES[model][0]:,} target tokens at most"
            for model, count in counts.items()
        ),
        machine=describe_machine("tensorflow", "keras", "keras-hub", "torch"),
    )


def main(argv: Sequence[str] | None = None) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    parser = new_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=list(BATCHES), default=list(BATCHES))
    precisions = ["float32", "mixed_bfloat16"]
    parser.add_argument("--precisions", nargs="+", choices=precisions, default=precisions)
    parser.add_argument("--source", help="text to train on, or .gz; made-up words by default")
    parser.add_argument("--target", help="the translations of --source, line by line")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each trainer (default 5)")
    parser.add_argument("--output", type=Path, help="file for what is printed")
    args = parser.parse_args(argv)
    if args.target and not args.source:
        parser.error("--target is the translation of --source: give both")
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
