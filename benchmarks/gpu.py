"""Measure training and translation on a GPU, in order of value, next to other libraries.

    python -m benchmarks.gpu --minutes 6 --source train.en.gz --target train.de.gz \\
        --test test_2016.en.gz --output results.jsonl
    python -m benchmarks.gpu --report results.jsonl

1. The text is encoded once, for all.
2. Each part is a few groups of cells that are compared (`GROUPS`), and each cell is a process. As
   many groups as the card and the cores have room for import, compile and warm up at the same time.
3. The first group that is ready is measured: its cells in turns, while all other processes stand
   still. Then its processes end, which makes room for others.
4. Each result is appended to the output at once, as a line of JSON. What fails or takes too long,
   such as a library that is not installed, is recorded and costs its own cell only.
5. At the end of the time, what is left is recorded as not reached, and the tables are printed.

`--trial` runs a little of all parts on the CPU.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.costs import Cost
from benchmarks.gpu_decoding import FORMS, Decoding
from benchmarks.gpu_training import COMPILED, EAGER, ON_JAX, OURS, TRAINERS
from benchmarks.gpu_worker import ALONE, Group, Record, Schedule, Worker
from benchmarks.machine import describe_machine
from benchmarks.report import new_parser, table_line
from benchmarks.trainers import save_batches
from keras_transformer.config import TransformerConfig
from keras_transformer.presets import PRESETS
from keras_transformer.utils.devices import available_cores

PEERS, SLOWEST = ("Hugging Face, bfloat16", "CTranslate2"), "Hugging Face, float32"
"""Engines that ours are compared with, and one that is measured for the first length only."""
NO_GPU, NO_TF32 = {"CUDA_VISIBLE_DEVICES": "-1"}, {"NVIDIA_TF32_OVERRIDE": "0"}
SERVED = {
    "CPU": ("ours, portable", NO_GPU),
    "float32": ("ours", NO_TF32),
    "float32 with TF32": ("ours", {}),
    "bfloat16": ("ours, bfloat16", {}),
    "portable": ("ours, portable", NO_TF32),
}
"""Forms of the shipped model, each with its export and environment; the first is the reference."""
SHIPPED = "saved_models/multi30k_en_de"
SOURCE_TOKENS = 16
"""Tokens of a source that is decoded with random weights, with its end."""
PACKAGES = "tensorflow", "keras", "jax", "torch", "transformers", "ctranslate2"
LIMIT = 240
"""Seconds that a cell may take to prepare."""
AUTOTUNING = "", "experimental_enable_fusion_autotuner=false", "autotune_level=0"
"""Flags of XLA in this order, for the known failure "Autotuner could not compile any configs"."""


@dataclass(frozen=True)
class Sizes:
    """What is measured; the defaults are for a GPU."""

    device: str = "gpu"
    models: Sequence[str] = ("base", "big")
    trainers: Sequence[str] = tuple(TRAINERS)
    batch_tokens: int = 25_000
    train_batches: int = 20
    served: Sequence[str] = tuple(SERVED)
    vocabularies: Sequence[int] = (8000, 37_000)  # The first one for training too.
    lengths: Sequence[int] = (20, 60)
    beams: Sequence[int] = (1, 4)
    batches: Sequence[int] = (64, 256, 1)
    engines: Sequence[str] = (*FORMS, *PEERS, SLOWEST)
    steps: int = 150  # Of an epoch of the whole run.
    repeats: int = 3
    changes: Mapping[str, Any] = field(default_factory=dict)  # Of all models.

    def config(self, model: str, vocab_size: int) -> TransformerConfig:
        """Return the sizes of a model."""
        return replace(PRESETS[model].model, vocab_size=vocab_size, **self.changes)


TRIAL = Sizes(
    device="cpu",
    models=["tiny"],
    trainers=[OURS, ON_JAX, EAGER],
    batch_tokens=200,
    train_batches=1,
    served=["CPU", "portable"],
    vocabularies=[300],
    lengths=[4],
    beams=[4],
    batches=[2],
    engines=["ours", *PEERS],
    steps=2,
    repeats=1,
    changes={"num_layers": 1},
)


def compiled(environment: dict[str, str]) -> list[dict[str, str]]:
    """Return the environments in which to prepare what XLA compiles, until one succeeds."""
    flags = [f"--xla_gpu_{flag}" if flag else "" for flag in AUTOTUNING]
    given = os.environ.get("XLA_FLAGS", "")
    return [environment | {"XLA_FLAGS": f"{given} {flag}".strip()} for flag in flags]


def training_groups(sizes: Sizes, text: Record) -> Iterator[Group]:
    """Yield a group for each model, of all trainers."""
    for model in sizes.models:
        # PyTorch's eager steps of big would not fit on a card with the others.
        trainers = [name for name in sizes.trainers if (model, name) != ("big", EAGER)]
        config = sizes.config(model, sizes.vocabularies[0])
        options = {"config": config, "batches": text["batches"], "device": sizes.device}
        environments = {name: [{"KERAS_BACKEND": TRAINERS[name]}] for name in trainers}
        environments[OURS] = compiled(environments[OURS][0])
        workers = [
            Worker(
                "benchmarks.gpu_training:train",
                {"trainer": name, **options},
                [{}],
                once=[{"action": "peak"}, {"action": "profile"}] if name == OURS else [],
                labels={"trainer": name},
                environments=environments[name],
            )
            for name in trainers
        ]
        memory = 60 if model == "big" else 40
        yield Group("training", {"model": model}, workers, memory, sizes.repeats)


def serving_groups(sizes: Sizes, text: Record) -> Iterator[Group]:
    """Yield the group of the shipped model: its strings on the CPU, and its forms on the GPU."""
    workers = []
    for name in sizes.served:
        form, environment = SERVED[name]
        batches = () if name == "CPU" else (1, 64, 256)
        options = {"name": name, "form": form, "model": SHIPPED, "batches": batches}
        worker = Worker(
            "benchmarks.gpu_decoding:serve",
            options | {"sentences": text["sentences"], "folder": text["folder"]},
            [{"batch": batch} for batch in batches],
            once=[{"other": "CPU"}] if batches else [],
            labels={"form": name},
            environments=compiled(environment) if FORMS[form][0] else [environment],
        )
        workers.append(worker)
    yield Group("serving", {}, workers, 10)


def decoding_groups(sizes: Sizes, text: Record) -> Iterator[Group]:
    """Yield a group for each length and vocabulary, of our exports and the peers."""
    for length, size in product(sizes.lengths, sizes.vocabularies):
        config = sizes.config(sizes.models[0], size)
        engines = [e for e in sizes.engines if e != SLOWEST or length == sizes.lengths[0]]
        search = length, sizes.device, text["sources"], text["pieces"]
        workers = [
            Worker(
                "benchmarks.gpu_decoding:decode",
                {
                    "engine": engine,
                    "task": Decoding(config, text["vocabularies"][size], beam, *search),
                    "batches": sizes.batches,
                },
                [{"batch": batch} for batch in sizes.batches],
                labels={"engine": engine, "beam": beam},
                environments=compiled({}) if engine in FORMS and FORMS[engine][0] else [{}],
            )
            for beam, engine in product(sizes.beams, engines)
        ]
        labels = {"vocabulary": size, "length": length}
        yield Group("decoding", labels, workers, 18, sizes.repeats)


def equality_groups(sizes: Sizes, text: Record) -> Iterator[Group]:
    """Yield the group of equal weights: of the CPU and the GPU, of one and two replicas."""
    # With few threads, two replicas that XLA compiles for a CPU wait for each other forever.
    common = NO_TF32 | {"TF_NUM_INTRAOP_THREADS": "16"}
    workers = [
        Worker(
            "benchmarks.gpu_training:write_weights",
            {"case": case, "folder": text["folder"]},
            [{"other": other}] if other else [],
            labels={"case": case},
            environments=[common | (NO_GPU if case == "CPU" else {})],
        )
        for case, other in (("CPU", ""), ("GPU", "CPU"), ("two replicas", "GPU"))
    ]
    yield Group("equality", {}, workers, 8)


def feeding_groups(sizes: Sizes, text: Record) -> Iterator[Group]:
    """Yield the group of a whole run with default settings."""
    settings = {
        "preset": sizes.models[0],
        "data.train_source": text["source"],
        "data.train_target": text["target"],
        "data.validation_source": text["source"],
        "data.validation_target": text["target"],
        "model.vocab_size": sizes.vocabularies[0],
        "training.epochs": 2,
        "training.steps_per_epoch": sizes.steps,
        "training.warmup_steps": sizes.steps // 2,
        "training.validation_pairs": min(256, sizes.steps),
        "training.batch_tokens": sizes.batch_tokens,
        **{f"model.{name}": value for name, value in sizes.changes.items()},
    }
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value))]
    options = {"settings": words, "limit": LIMIT - 20}
    # It is measured as it prepares, because no other group starts.
    yield Group("feeding", {}, [Worker("benchmarks.gpu_training:feed", options)], ALONE)


GROUPS = {
    "training": training_groups,
    "serving": serving_groups,
    "decoding": decoding_groups,
    "equality": equality_groups,
    "feeding": feeding_groups,
}
"""The parts in order of value."""


def enlarge(vocabulary: bytes, vocab_size: int) -> bytes:
    """Return a SentencePiece model with more pieces, which no text has."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(vocabulary)
    for i in range(len(model.pieces), vocab_size):
        model.pieces.add(piece=f"\u2581\u2581{i}", score=-float(i))
    return model.SerializeToString()


def prepare_text(args: argparse.Namespace, sizes: Sizes, folder: str) -> Record:
    """Write vocabularies and batches to a folder, and return what groups need."""
    import sentencepiece

    from keras_transformer.data import TokenBatches, encode_pairs, read_lines, read_pairs
    from keras_transformer.data.batching import choose_widths
    from keras_transformer.text import SentencePieceTokenizer, train_sentencepiece

    pairs = read_pairs(args.source, args.target)
    model = train_sentencepiece((line for pair in pairs for line in pair), sizes.vocabularies[0])
    vocabularies = {size: f"{folder}/{size}.model" for size in sizes.vocabularies}
    for size, path in vocabularies.items():
        Path(path).write_bytes(enlarge(model, size))
    encoded = encode_pairs(pairs, SentencePieceTokenizer(model))
    longest = np.maximum(encoded.source_lengths, encoded.target_lengths)
    batches = TokenBatches(encoded, sizes.batch_tokens, seed=1, widths=choose_widths(longest, 4))
    first = [(inputs["source"], labels) for inputs, labels in islice(batches, sizes.train_batches)]
    save_batches(first, Path(folder, "batches.npz"))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    sources = [source for source, _ in pairs]
    rows = list(zip(sources, processor.encode(sources, out_type=str), strict=True))
    rows = [row for row in rows if len(row[1]) == SOURCE_TOKENS - 1] or rows[:1]
    rows = (rows * max(sizes.batches))[: max(sizes.batches)]
    return {
        "folder": folder,
        "source": args.source,
        "target": args.target,
        "vocabularies": vocabularies,
        "batches": f"{folder}/batches.npz",
        "sentences": read_lines(args.test),
        "sources": [source for source, _ in rows],
        "pieces": [pieces for _, pieces in rows],
    }


def measure(args: argparse.Namespace) -> None:
    """Measure the parts, and append each record to the output."""
    start, records = time.monotonic(), list[Record]()
    sizes = TRIAL if args.trial else Sizes()

    def write(record: Record) -> None:
        records.append({**record, "at": round(time.monotonic() - start, 1)})
        line = json.dumps(records[-1], default=str)
        with args.output.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line[:300], flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    os.environ |= {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if args.trial:
        os.environ |= NO_GPU | {"JAX_PLATFORMS": "cpu"}
    fields = "name,driver_version,memory.total,clocks.max.sm"
    write(
        {
            "part": "machine",
            "card": subprocess.getoutput(f"nvidia-smi --query-gpu={fields} --format=csv,noheader"),
            "machine": describe_machine(*PACKAGES),
            "command": f"python -m benchmarks.gpu {' '.join(sys.argv[1:])}",
        }
    )
    memory = re.search(r"(\d+) MiB", records[0]["card"])
    with tempfile.TemporaryDirectory() as folder:
        text = prepare_text(args, sizes, folder)
        Schedule(
            [group for part in args.only for group in GROUPS[part](sizes, text)],
            folder=Path(folder),
            record=write,
            deadline=start + 60 * args.minutes,
            memory=int(memory[1]) // 1024 if memory else 60,
            cores=available_cores() + 4,
            limit=LIMIT,
        ).run()


TABLES: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "training": (
        ("model", "trainer"),
        (EAGER, COMPILED, ON_JAX),
        ("tflops", "loss", "first_pass"),
    ),
    "serving": (("batch", "form"), (), ()),
    "decoding": (("vocabulary", "length", "beam", "batch", "engine"), PEERS, ()),
}
"""Of a part with speeds: what tells its cells apart, peers in the last of that, more columns."""


def speeds(
    records: Sequence[Record], names: Sequence[str], peers: Sequence[str], more: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of a table of runs, each cell with its ratio to peers; see `TABLES`.

    >>> runs = [{"of": name, "seconds": s, "count": 6} for name, s in (("a", 2), ("b", 3))]
    >>> print(*speeds(runs, ["of"], ["b"], []), sep="\\n")
    | of | ms a run | a second | spread | to b |
    |---|--:|--:|--:|--:|
    | a | 2,000.0 | 3 | 0% | 1.50 |
    | b | 3,000.0 | 2 | 0% | 1.00 |
    """
    runs: dict[tuple, list[Record]] = {}
    for record in records:
        if "seconds" in record:
            runs.setdefault(tuple(record[name] for name in names), []).append(record)
    costs = {key: Cost([run["seconds"] for run in runs[key]], (), 0) for key in runs}
    columns = [*names, "ms a run", "a second", "spread", *(f"to {peer}" for peer in peers), *more]
    yield table_line(columns)
    yield f"|{'|'.join(['---'] + ['--:'] * (len(columns) - 1))}|"
    for key, cost in sorted(costs.items(), key=lambda item: item[0][:-1]):
        others = [costs.get((*key[:-1], peer)) for peer in peers]
        last = runs[key][-1]
        cells = (
            *(*key, f"{1000 * cost.median:,.1f}"),
            *(f"{last['count'] / cost.median:,.0f}", f"{cost.spread:.0%}"),
            *(f"{other.median / cost.median:.2f}" if other else "" for other in others),
            *(f"{last[name]:.4g}" for name in more),
        )
        yield table_line(cells)


def tables(records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines of all tables, of other results, and of failures."""
    for part in ("machine", *GROUPS):
        of_part = [record for record in records if record["part"] == part and "error" not in record]
        yield from ("", f"### {part}", "") if of_part else ()
        if part in TABLES and of_part:
            yield from (*speeds(of_part, *TABLES[part]), "")
        for record in of_part:
            if part in TABLES and ("seconds" in record or "prepared" in record):
                continue
            for name, value in record.items():
                if isinstance(value, list):  # Such as the kernels of a profile.
                    yield from (f"- {name}:", *(f"    - {item}" for item in value))
                elif name not in ("part", "at"):
                    yield f"- {name}: {value}"
            yield ""
    for record in records:
        if "error" in record:
            yield from (f"- failed: { {**record, 'error': ''} }", "")
            yield from (*(f"      {line}" for line in record["error"].splitlines()[-12:]), "")


def main(argv: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--report", nargs="+", type=Path, help="print the tables of these files")
    parser.add_argument("--minutes", type=float, default=6, help="when all ends (default 6)")
    parser.add_argument("--output", type=Path, default=Path("gpu.jsonl"), help="file of results")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(GROUPS))
    parser.add_argument("--source", help="text to train on, or .gz")
    parser.add_argument("--target", help="its translations, line by line")
    parser.add_argument("--test", help="sentences for the shipped model")
    parser.add_argument("--trial", action="store_true", help="a little of all, on the CPU")
    args = parser.parse_args(argv)
    if not args.report:
        if not (args.source and args.target and args.test and set(args.only) <= set(GROUPS)):
            parser.error(f"give --source, --target and --test, and --only of {','.join(GROUPS)}")
        measure(args)
    for path in args.report or [args.output]:
        lines = path.read_text(encoding="utf-8").splitlines()
        print(f"## {path.name}", *tables([json.loads(line) for line in lines]), sep="\n")


if __name__ == "__main__":
    main()
