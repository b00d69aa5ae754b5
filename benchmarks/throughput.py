"""Measure the training speed of whole runs: one and two processes, precisions, shapes, backends.

    python -m benchmarks.throughput --source train.en --target train.de
    python -m benchmarks.throughput --source train.en --target train.de --preset base

Each measurement is a run of `pipelines.train` over two epochs on the CPU. The tokens per second are
those of the second epoch, with its input pipeline and logs, and without validation and checkpoints
between epochs. The cases take turns. Options that are not listed below go to every run.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import describe_machine, free_ports
from benchmarks.report import new_parser, print_report, table_line
from benchmarks.turns import ROOT
from keras_transformer.data import read_lines
from keras_transformer.training.csv_tables import read_history

HEADER = """\
| backend | processes | precision | shapes | tokens/s | spread | ratio |
|---|--:|---|--:|--:|--:|--:|"""
NOTES = """
- tokens/s: source and target tokens without padding per second, in the median of {repeats} runs; a
  step has the mean number of tokens of a pass. spread: fastest minus slowest run, relative to the
  median. ratio: relative to the first row.
- processes: of one run, on the same machine; each batch is split between them. shapes:
  `data.static_shapes`, which JAX needs; "any" pads a batch to its longest sentences.
- Options of all runs: {options}.
- {machine}."""
SHAPES = 4
VALIDATION = 2
"""Pairs to validate on; that time does not count."""
DEFAULTS = """--preset tiny --model.vocab_size 8000 --training.batch_tokens 4096 --training.epochs 2
--training.steps_per_epoch 40 --training.warmup_steps 1 --training.learning_rate_scale 0.01
--training.average_checkpoints 1"""
"""Options of `pipelines.train`. The command line may override all but those of `OWN`."""
OWN = {"--training.precision", "--data.static_shapes", "--training.epochs"}
"""Options that only this benchmark sets."""
PRECISIONS = ("float32", "mixed_bfloat16")


class Case(NamedTuple):
    """A way to train."""

    backend: str
    processes: int
    precision: str
    shapes: int | None

    def options(self) -> list[str]:
        """Return the options of `pipelines.train` for this case."""
        options = ["--training.precision", self.precision]
        if self.shapes:
            options += ["--data.static_shapes", str(self.shapes)]
        return options


def cases(
    backends: Sequence[str], processes: Sequence[int], precisions: Sequence[str] = PRECISIONS
) -> list[Case]:
    """Return the cases; JAX runs in one process, with static shapes.

    >>> len(cases(["tensorflow", "jax"], [1, 2]))
    10
    """
    found = []
    for case in itertools.product(backends, processes, precisions, (None, SHAPES)):
        case = Case(*case)
        if case.backend == "tensorflow" or (case.processes == 1 and case.shapes):
            found.append(case)
    return found


def tokens_per_second(case: Case, options: Sequence[str], folder: Path) -> float:
    """Train in a folder, and return the speed in the last epoch.

    Raises:
        RuntimeError: If the run fails; the message has what it printed.
    """
    run = folder / "run"
    command = [sys.executable, "-m", "pipelines.train", "--output", str(run), *options]
    environment = os.environ | {"KERAS_BACKEND": case.backend, "JAX_PLATFORMS": "cpu"}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CONFIG": ""}
    workers = [f"127.0.0.1:{port}" for port in free_ports(case.processes)]
    logs = [folder / f"{index}.log" for index in range(case.processes)]
    with ExitStack() as stack:
        processes = []
        for index, path in enumerate(logs):
            if case.processes > 1:
                task = {"type": "worker", "index": index}
                environment["TF_CONFIG"] = json.dumps(
                    {"cluster": {"worker": workers}, "task": task}
                )
            log = stack.enter_context(open(path, "w"))
            process = subprocess.Popen(
                command + case.options(), cwd=ROOT, env=environment, stdout=log, stderr=log
            )
            processes.append(stack.enter_context(process))
            stack.callback(process.kill)
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break
            time.sleep(0.1)
    if any(process.returncode for process in processes):
        raise RuntimeError("\n".join(path.read_text(errors="replace") for path in logs))
    return read_history(run)["tokens_per_second"][-1]


def write_text(args: argparse.Namespace, folder: Path) -> list[str]:
    """Write a little validation text, and return the options that name all text."""
    options = []
    for side in ("source", "target"):
        path = getattr(args, side)
        lines = read_lines(path)[:VALIDATION]
        (folder / side).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options += [f"--data.train_{side}", str(path.resolve())]
        options += [f"--data.validation_{side}", str(folder / side)]
    return options


def report(args: argparse.Namespace) -> Iterator[str]:
    """Measure all cases in turns, and yield the lines of a Markdown table and its notes."""
    chosen = cases(args.backends, args.processes, args.precisions)
    speeds: dict[Case, list[float]] = {case: [] for case in chosen}
    with tempfile.TemporaryDirectory() as validation:
        options = [*DEFAULTS.split(), *args.options, *write_text(args, Path(validation))]
        for case in list(speeds) * args.repeats:
            with tempfile.TemporaryDirectory() as folder:
                speeds[case].append(tokens_per_second(case, options, Path(folder)))
            print(*case, f"{speeds[case][-1]:,.0f} tokens/s", file=sys.stderr)
    yield HEADER
    medians = {case: statistics.median(found) for case, found in speeds.items()}
    for case, found in speeds.items():
        cells = (
            *(case.backend, case.processes, case.precision, case.shapes or "any"),
            f"{medians[case]:,.0f}",
            f"{(max(found) - min(found)) / medians[case]:.0%}",
            f"{medians[case] / next(iter(medians.values())):.2f}",
        )
        yield table_line(cells)
    yield NOTES.format(
        repeats=args.repeats,
        options=" ".join([*DEFAULTS.split(), *args.options]),
        machine=describe_machine("keras", *args.backends),
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__, allow_abbrev=False)
    parser.add_argument("--source", required=True, type=Path, help="text to train on, or .gz")
    parser.add_argument("--target", required=True, type=Path, help="its translations")
    backends = ["tensorflow", "jax"]
    parser.add_argument("--backends", nargs="+", choices=backends, default=backends)
    parser.add_argument("--processes", nargs="+", type=int, choices=[1, 2], default=[1, 2])
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default 3)")
    parser.add_argument("--output", type=Path, help="file for the report")
    args, args.options = parser.parse_known_args(argv)
    if taken := sorted(OWN & {option.partition("=")[0] for option in args.options}):
        parser.error(f"this benchmark sets {', '.join(taken)} itself: leave it out")
    if not cases(args.backends, args.processes):
        parser.error("JAX runs in one process: add 1 to --processes, or tensorflow to --backends")
    print_report(report(args), args.output)


if __name__ == "__main__":
    main()
