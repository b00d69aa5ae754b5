"""Memory and time to the first step of training, by the size of the corpus.

    python -m benchmarks.corpus --source train.en --target train.de --pairs 100000 1000000
    python -m benchmarks.corpus --source train.en --target train.de --repeat 50 200

The corpora are made of real lines: each pair joins the first half of one pair and the second half
of another, on both sides. Each start is a process of its own; the second one finds the encoded text
of the first. With --repeat, the encoded text of the last corpus is then repeated on the disk, for
second starts of larger corpora that nobody has to wait for.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from benchmarks.machine import describe_machine
from benchmarks.report import print_report, table_line

HEADER = """\
| pairs | start | vocabulary | encode | plan | first step | base | peak | resident | mapped | disk |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
NOTES = """
- Seconds, those of the processor in parentheses, and MB. first step: from the start of the process
  to the end of the first step, with the columns before it, imports, and the building of the model.
  plan: until the first batch is there.
- base: memory of the process when TensorFlow is imported and the model is built. peak, resident:
  memory above that, the most and after {steps} steps. mapped: resident pages of files, among them
  TensorFlow's; the system takes them back when it needs them, and the other columns lack them.
- disk: the encoded text with its vocabulary; the text itself has {text:.0f} bytes a pair.
- A model of {width} units and 1 layer, {vocabulary:,} BPE tokens, batches of {tokens:,} tokens,
  subword_dropout={dropout}.
- {machine}."""
STEPS, WIDTH, VOCABULARY, TOKENS = 20, 32, 8000, 4096


def write_corpus(pairs: Sequence[tuple[str, str]], number: int, directory: Path) -> list[Path]:
    """Write a corpus of any number of pairs, made of the given ones; return its two files.

    >>> folder = Path(tempfile.mkdtemp())
    >>> files = write_corpus([("a b c d", "A B C D"), ("e f", "E F")], 3, folder)
    >>> [len(path.read_text().splitlines()) for path in files]
    [3, 3]
    """
    choose = random.Random(number).choice
    halves = [[_halves(side) for side in pair] for pair in pairs]
    paths = [directory / "train.source", directory / "train.target"]
    source, target = (open(path, "w", encoding="utf-8") for path in paths)
    with source, target:
        for _ in range(number):
            one, other = choose(halves), choose(halves)
            for file, first, second in zip((source, target), one, other, strict=True):
                file.write(f"{first[0]} {second[1]}\n")
    return paths


def _halves(sentence: str) -> tuple[str, str]:
    words = sentence.split()
    middle = len(words) // 2
    return " ".join(words[:middle]), " ".join(words[middle:])


def repeat_encoded(directory: Path, times: int) -> None:
    """Repeat the encoded text in a run directory, which has one, on the disk."""
    import numpy as np

    [record_path] = directory.glob("text/*/record.json")
    record = json.loads(record_path.read_text())
    for number, side in enumerate(("source", "target")):
        ids = np.fromfile(record_path.with_name(f"{side}.ids"), np.uint16)
        offsets = np.fromfile(record_path.with_name(f"{side}.offsets"), np.int64)
        with open(record_path.with_name(f"{side}.ids"), "ab") as file:
            for _ in range(times - 1):
                ids.tofile(file)
        with open(record_path.with_name(f"{side}.offsets"), "ab") as file:
            for i in range(1, times):
                (offsets[1:] + i * len(ids)).tofile(file)
        record["tokens"][number] *= times
    for name in ("read", "kept"):
        record["corpora"][0][name] *= times
    record_path.write_text(json.dumps(record))


def start_training(paths: Sequence[str], directory: Path, dropout: float) -> dict[str, Any]:
    """Train for a few steps; return seconds and megabytes."""
    began = _now()

    from keras_transformer.config import ExperimentConfig
    from keras_transformer.training.build import compiled_model
    from keras_transformer.training.corpora import training_text
    from keras_transformer.training.machines import Machines
    from keras_transformer.training.prepare import encode_text, token_batches
    from keras_transformer.training.vocabularies import run_tokenizers

    config = ExperimentConfig.from_dict(
        {
            "model": {
                "vocab_size": VOCABULARY,
                "num_layers": 1,
                "d_model": WIDTH,
                "d_ff": WIDTH,
                "num_heads": 2,
            },
            "data": {
                "train_source": paths[0],
                "train_target": paths[1],
                "validation_source": paths[0],
                "validation_target": paths[1],
                "subword_dropout": dropout,
            },
            "training": {"batch_tokens": TOKENS, "steps_per_epoch": STEPS},
        }
    )
    model = compiled_model(config, Machines())
    base = _memory()["RssAnon"]
    times = [_now()]
    text = training_text(config, directory)
    tokenizers = run_tokenizers(config, directory, text)
    times.append(_now())
    batches = token_batches(config, tokenizers, *encode_text(config, text, tokenizers))
    times.append(_now())
    first = next(iter(batches))
    times.append(_now())
    model.train_on_batch(*first)
    end = _now()
    model.fit(batches.dataset(), epochs=1, verbose=0)
    memory = _memory()
    return {
        "vocabulary": _seconds(times[0], times[1]),
        "encoding": _seconds(times[1], times[2]),
        "plan": _seconds(times[2], times[3]),
        "first": _seconds(began, end),
        "base": base,
        "peak": memory["peak"] - base,
        "resident": memory["RssAnon"] - base,
        "mapped": memory["RssFile"],
        "disk": sum(path.stat().st_size for path in directory.rglob("*") if path.is_file()) / 1e6,
    }


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _seconds(start: tuple[float, float], end: tuple[float, float]) -> str:
    return f"{end[0] - start[0]:,.1f} ({end[1] - start[1]:,.1f})"


class _Peak:
    """The most anonymous memory, seen by a thread: VmHWM has mapped files too."""

    value = 0.0


def _watch() -> None:
    while True:
        _Peak.value = max(_Peak.value, _memory()["RssAnon"])
        time.sleep(0.05)


def _memory() -> dict[str, float]:
    """Return the resident megabytes of this process, its own and of mapped files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    sizes = {name: int(status[name].split()[0]) / 1000 for name in ("RssAnon", "RssFile")}
    return {**sizes, "peak": max(_Peak.value, sizes["RssAnon"])}


def measure(
    pairs: Sequence[tuple[str, str]],
    numbers: Sequence[int],
    repeat: Sequence[int],
    dropout: float,
) -> Iterator[str]:
    """Yield the lines of the report."""
    yield HEADER
    for number in numbers:
        with tempfile.TemporaryDirectory() as folder:
            paths = write_corpus(pairs, number, Path(folder))
            text = sum(path.stat().st_size for path in paths) / number
            yield _row(folder, dropout, number, "first")
            yield _row(folder, dropout, number, "second")
            times = 1
            for more in repeat if number == numbers[-1] else ():
                repeat_encoded(Path(folder, "run"), more // times)
                times = more // times * times
                yield _row(folder, dropout, times * number, "second, repeated")
    yield NOTES.format(
        steps=STEPS,
        text=text,
        width=WIDTH,
        vocabulary=VOCABULARY,
        tokens=TOKENS,
        dropout=dropout,
        machine=describe_machine(),
    )


def _row(folder: str, dropout: float, number: int, start: str) -> str:
    command = [sys.executable, "-m", "benchmarks.corpus", "--start", folder]
    command += ["--dropout", str(dropout)]
    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(process.stdout)
    times = [result[name] for name in ("vocabulary", "encoding", "plan", "first")]
    sizes = [result[name] for name in ("base", "peak", "resident", "mapped", "disk")]
    return table_line([f"{number:,}", start, *times, *(f"{size:,.0f}" for size in sizes)])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", help="real lines to make the corpora of; may be .gz (required)")
    parser.add_argument("--target", help="their translations")
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--repeat", type=int, nargs="+", default=[], help="factors, ascending")
    parser.add_argument("--dropout", type=float, default=0.0, help="data.subword_dropout")
    parser.add_argument("--output", type=Path, help="file for the report")
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.start:
        import threading

        threading.Thread(target=_watch, daemon=True).start()
        paths = [str(args.start / f"train.{side}") for side in ("source", "target")]
        print(json.dumps(start_training(paths, args.start / "run", args.dropout)))
        return
    if args.source is None:
        parser.error("--source is required")
    from keras_transformer.data import read_pairs

    print_report(
        measure(read_pairs(args.source, args.target), args.pairs, args.repeat, args.dropout),
        args.output,
    )


if __name__ == "__main__":
    main()
