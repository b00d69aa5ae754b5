"""Measure what joining requests brings: requests per second with and without `serve --batching`.

Clients send one sentence after another, each in a request of its own, to two servers of
`pipelines.serve --engine python`. The servers take turns; only one gets requests at a time.

Usage:
    python -m benchmarks.server_batching --model saved_models/en_de --text test.en
"""

import argparse
import random
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, print_report, table_line
from benchmarks.server_load import over_grpc, over_rest, serving
from keras_transformer.data import read_lines
from keras_transformer.utils.versions import find_saved_model

KINDS = {"off": False, "on": True}
HEADER = """\
| clients | batching | requests/s | spread | ratio | p50 ms | p95 ms |
|--:|---|--:|--:|--:|--:|--:|"""
NOTES = """
- requests/s: requests of one sentence, in the median of {repeats} runs of {seconds:g} seconds, half
  of the clients by REST and half by gRPC. spread: fastest minus slowest run, relative to the
  median. ratio: to that without batching. The clients run on the same machine.
- {machine}."""


def send_requests(
    ports: tuple[int, int], sentences: Sequence[str], clients: int, seconds: float
) -> list[float]:
    """Send requests for some time, and return the seconds that each took."""
    end = time.monotonic() + seconds
    taken: list[list[float]] = [[] for _ in range(clients)]

    def client(number):
        draw = random.Random(number)
        send = (over_rest, over_grpc)[number % 2](ports)
        while (start := time.monotonic()) < end:
            send([draw.choice(sentences)])
            taken[number].append(time.monotonic() - start)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(taken, [])


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure all numbers of clients, and yield the lines of a Markdown table and its notes."""
    sentences = list(read_lines(args.text))
    version = find_saved_model(args.model)
    if version is None:
        raise FileNotFoundError(f"There is no SavedModel in {args.model}: export one there.")
    yield HEADER
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model")
        shutil.copytree(version, model / "1")
        with serving(model, False) as (_, single), serving(model, True) as (_, joined):
            ports = dict(zip(KINDS, (single, joined), strict=True))
            for clients in args.clients:
                runs: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
                for kind in KINDS:
                    send_requests(ports[kind], sentences, clients, args.seconds / 4)
                for _ in range(args.repeats):
                    for kind in KINDS:
                        taken = send_requests(ports[kind], sentences, clients, args.seconds)
                        runs[kind].append(taken)
                rates = {kind: [len(run) / args.seconds for run in runs[kind]] for kind in KINDS}
                for kind in KINDS:
                    rate = statistics.median(rates[kind])
                    late = np.percentile(np.concatenate(runs[kind]), [50, 95]) * 1000
                    cells = (
                        *(clients, kind, f"{rate:,.1f}"),
                        f"{(max(rates[kind]) - min(rates[kind])) / rate:.0%}",
                        f"{rate / statistics.median(rates['off']):.2f}",
                        *(f"{each:,.0f}" for each in late),
                    )
                    yield table_line(cells)
    yield NOTES.format(repeats=args.repeats, seconds=args.seconds, machine=describe_machine())


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--model", required=True, type=Path, help="an exported SavedModel")
    parser.add_argument("--text", required=True, help="file of sentences to draw from")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32], help="default 1 8 32")
    parser.add_argument("--seconds", type=float, default=15, help="of a run (default 15)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--output", type=Path, help="file for the report")
    args = parser.parse_args(argv)
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
