"""Measure training and translation on a GPU, in order of value, compared with other libraries.

    python -m benchmarks.gpu --minutes 6 --source train.en.gz --target train.de.gz \\
        --test test_2016.en.gz --output results.jsonl
    python -m benchmarks.gpu --report results.jsonl

Slow preparation (imports, compilation, exports) takes place at the same time in many processes, and
each measurement while the others stand still. Every result is appended to the output at once, so
that nothing is lost if time runs out. A part that fails is recorded, and the others go on.
Libraries that are not installed are among the failures.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu_report import tables
from benchmarks.gpu_training import COMPILED, EAGER, NO_TF32, ON_JAX, OURS, matrix_operations
from benchmarks.gpu_worker import ALONE, Group, Record, Schedule, Worker
from benchmarks.machine import describe_machine
from benchmarks.trainers import Batch, save_batches
from keras_transformer.config import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from keras_transformer.data import EncodedPairs, TokenBatches, read_lines, read_pairs
from keras_transformer.data.batching import choose_widths
from keras_transformer.presets import PRESETS
from keras_transformer.utils.cores import available_cores

PARTS = ("training", "serving", "decoding", "equality", "feeding")
BATCHES = (64, 256, 1)
BEAMS = (1, 4)
SOURCE_TOKENS = 16
"""Tokens of a source that is decoded, with its end."""
SHIPPED = "saved_models/multi30k_en_de"
GIGABYTES = {"tiny": 2, "base": 25, "big": 60}
"""Memory that all trainers of a model need together."""
PACKAGES = ("tensorflow", "keras", "jax", "torch", "transformers", "ctranslate2")
RETRIES = [
    {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flag}"}
    for flag in (
        "--xla_gpu_experimental_enable_fusion_autotuner=false",
        "--xla_gpu_autotune_level=0",
    )
]
"""For the known failure "Autotuner could not compile any configs"."""


def train_vocabulary(lines: Iterable[str], vocab_size: int) -> bytes:
    """Return a SentencePiece model, trained without TensorFlow."""
    import io

    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab_size,
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        minloglevel=2,
    )
    return model.getvalue()


def enlarge(vocabulary: bytes, vocab_size: int) -> bytes:
    """Return a SentencePiece model with more pieces, which no text has."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto.FromString(vocabulary)
    for i in range(len(model.pieces), vocab_size):
        model.pieces.add(piece=f"\u2581\u2581{i}", score=-float(i))
    return model.SerializeToString()


def static_batches(
    pairs: Sequence[tuple[str, str]], processor: Any, batch_tokens: int, count: int, shapes: int
) -> list[Batch]:
    """Return the first batches of an epoch over a text, each of one of a few shapes."""
    parts = []
    for lines in zip(*pairs, strict=True):
        ids = processor.encode(list(lines), num_threads=available_cores())
        counts = [len(sentence) for sentence in ids]
        parts += [np.concatenate(ids).astype(np.int32), np.concatenate([[0], np.cumsum(counts)])]
    encoded = EncodedPairs(*parts)
    widths = choose_widths(np.maximum(encoded.source_lengths, encoded.target_lengths), shapes)
    batches = TokenBatches(encoded, batch_tokens, seed=1, widths=widths)
    return [(inputs["source"], labels) for inputs, labels in islice(batches, count)]


def training_groups(args: argparse.Namespace, folder: Path, text: Record) -> Iterator[Group]:
    """Yield a group for each model: ours by TensorFlow and JAX, and PyTorch in one process."""
    for model in args.models:
        options = {
            "model": model,
            "vocab_size": args.vocab_size,
            "precision": "mixed_bfloat16" if args.device == "gpu" else "float32",
            "batches": str(folder / "batches.npz"),
            "device": args.device,
            "limit": 0.85 * args.limit,
        }
        extra = [{"trainer": OURS, "action": action} for action in ("peak", "profile")]
        names = {OURS: "tensorflow", ON_JAX: "jax", EAGER: "torch"}
        yield Group(
            "training",
            {"model": model},
            [
                Worker(
                    "benchmarks.gpu_training:train",
                    {"trainers": trainers, **options},
                    [{"trainer": name} for name in trainers],
                    extra if trainers == [OURS] else [],
                    environment={"KERAS_BACKEND": names[trainers[0]]},
                    retries=RETRIES if trainers == [OURS] else (),
                )
                for trainers in ([OURS], [ON_JAX], [EAGER, COMPILED])
            ],
            GIGABYTES.get(model, 25),
            args.repeats,
        )


def serving_group(args: argparse.Namespace, folder: Path, text: Record) -> Iterator[Group]:
    """Yield the group of the shipped model: its strings on the CPU, and each form on the GPU."""
    sentences = read_lines(args.test)[: args.sentences]
    timed = {"batches": (1, 64, 256)}
    forms: list[tuple[str, str, Record, dict[str, str]]] = [
        ("CPU", "ours, portable", {"batches": ()}, {"CUDA_VISIBLE_DEVICES": "-1"}),
        ("float32 without TF32", "ours", {"tf32": False, **timed}, NO_TF32),
        ("float32 with TF32", "ours", timed, {}),
        ("bfloat16", "ours, bfloat16", timed, {}),
        ("portable float32 without TF32", "ours, portable", {"tf32": False, **timed}, NO_TF32),
    ]
    yield Group(
        "serving",
        {},
        [
            Worker(
                "benchmarks.gpu_decoding:serve",
                {"form": form, "model": SHIPPED, "sentences": sentences, **options},
                [{"batch": batch} for batch in options["batches"]],
                labels={"form": name},
                environment=environment,
                retries=RETRIES if form != "ours, portable" else (),
            )
            for name, form, options, environment in forms
        ],
        10,
        1,
    )


def decoding_groups(args: argparse.Namespace, folder: Path, text: Record) -> Iterator[Group]:
    """Yield a group for each length and vocabulary: ours in all forms, and the peers."""
    model = args.models[0]
    for length in args.lengths:
        for size in args.vocabularies:
            vocabulary = str(folder / f"{size}.model")
            common = {"model": model, "length": length}
            workers = [
                Worker(
                    "benchmarks.gpu_decoding:decode",
                    {
                        **common,
                        **{"form": form, "vocabulary": vocabulary, "beam": beam},
                        **{"sources": text["sources"], "batches": args.batch_sizes},
                    },
                    [{"batch": batch} for batch in args.batch_sizes],
                    labels={"engine": form, "beam": beam},
                    retries=RETRIES if form != "ours, portable" else (),
                )
                for beam in BEAMS
                for form in ("ours, bfloat16", "ours", "ours, portable")
            ]
            cells = [{"beam": b, "batch": batch} for b in BEAMS for batch in args.batch_sizes]
            dtypes = ("bfloat16", "float32") if length == args.lengths[0] else ("bfloat16",)
            theirs = [
                {"engine": f"Hugging Face, {dtype}", "dtype": dtype, **cell}
                for dtype in dtypes
                for cell in cells
            ]
            ids, pieces = text["ids"], text["pieces"]
            of_peer = {**common, "device": args.device}
            workers += [
                Worker(
                    "benchmarks.gpu_decoding:hugging_face",
                    {**of_peer, "vocab_size": size, "rows": ids, "commands": theirs},
                    theirs,
                ),
                Worker(
                    "benchmarks.gpu_decoding:ctranslate2",
                    {**of_peer, "vocabulary": vocabulary, "pieces": pieces, "commands": cells},
                    cells,
                    labels={"engine": "CTranslate2"},
                ),
            ]
            labels = {"vocabulary": size, "length": length}
            yield Group("decoding", labels, workers, 13, args.repeats)


def equality_group(args: argparse.Namespace, folder: Path, text: Record) -> Iterator[Group]:
    """Yield the group of equal weights: of the CPU and the GPU, of one and two replicas."""
    pairs = [{"pair": ["CPU", "GPU"]}, {"pair": ["one replica", "two replicas"]}]
    worker = Worker("benchmarks.gpu_training:equality", {"device": args.device}, pairs)
    yield Group("equality", {}, [worker], 8, 1)


def feeding_group(args: argparse.Namespace, folder: Path, text: Record) -> Iterator[Group]:
    """Yield the group of a whole run with default settings."""
    options = {
        "data.train_source": args.source,
        "data.train_target": args.target,
        "data.validation_source": args.source,
        "data.validation_target": args.target,
        "model.vocab_size": args.vocab_size,
        "training.epochs": 2,
        "training.steps_per_epoch": args.steps,
        "training.warmup_steps": args.steps // 2,
        "training.validation_pairs": 256,
        "training.batch_tokens": args.batch_tokens,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    run = {"preset": args.models[0], "options": words, "steps": 2 * args.steps}
    worker = Worker("benchmarks.gpu_training:feed", {**run, "limit": args.limit}, [{}])
    yield Group("feeding", {"steps": args.steps}, [worker], ALONE, 1, args.limit + 10)


GROUPS = {
    "training": training_groups,
    "serving": serving_group,
    "decoding": decoding_groups,
    "equality": equality_group,
    "feeding": feeding_group,
}


def prepare_text(args: argparse.Namespace, folder: Path) -> Record:
    """Write vocabularies and batches to a folder, and return facts and the sources to decode."""
    import sentencepiece

    pairs = read_pairs(args.source, args.target)
    model = train_vocabulary((line for pair in pairs for line in pair), args.vocab_size)
    for size in args.vocabularies:
        (folder / f"{size}.model").write_bytes(enlarge(model, size))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    batches = static_batches(pairs, processor, args.batch_tokens, args.batches, args.shapes)
    save_batches(batches, folder / "batches.npz")
    pieces, length = processor.encode([pair[0] for pair in pairs], out_type=str), SOURCE_TOKENS - 1
    chosen = [i for i, row in enumerate(pieces) if len(row) == length]
    chosen = (chosen or list(range(len(pairs)))) * max(args.batch_sizes)
    chosen = chosen[: max(args.batch_sizes)]
    tokens = sum(int(np.count_nonzero(ids)) for batch in batches for ids in batch)
    return {
        "tokens": tokens,
        "padding": 1 - tokens / sum(ids.size for batch in batches for ids in batch),
        "batches": len(batches),
        "shapes": len({source.shape for source, _ in batches}),
        "products": {
            name: sum(
                matrix_operations(replace(PRESETS[name].model, vocab_size=args.vocab_size), batch)
                for batch in batches
            )
            for name in args.models
        },
        "sources": [pairs[i][0] for i in chosen],
        "pieces": [pieces[i] for i in chosen],
        "ids": np.random.default_rng(1)
        .integers(4, min(args.vocabularies), [len(chosen), SOURCE_TOKENS])
        .tolist(),
    }


def describe(args: argparse.Namespace) -> tuple[Record, int]:
    """Return the card, the versions and the command, and the GB of the card's memory."""
    query = "--query-gpu=name,driver_version,memory.total,clocks.max.sm"
    card = "no GPU"
    if args.device == "gpu":
        try:
            command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
            card = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            card = f"unknown: {error}"
    fields = card.strip().splitlines()[0].split(", ")
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    record = {
        "card": ", ".join(fields),
        "machine": describe_machine(),
        "python": platform.python_version(),
        **versions,
        "command": f"python -m benchmarks.gpu {' '.join(sys.argv[1:])}",
        "date": time.strftime("%Y-%m-%d %H:%M"),
    }
    return record, int(fields[2]) // 1024 if len(fields) > 2 else 32


def measure(args: argparse.Namespace) -> list[Record]:
    """Measure all parts, append each record to the output, and return the records."""
    records: list[Record] = []
    start = time.monotonic()

    def write(record: Record) -> None:
        record = {**record, "at": round(time.monotonic() - start, 1)}
        records.append(record)
        line = json.dumps(record)
        with args.output.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        print(line[:300], flush=True)

    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    if args.device == "cpu":
        os.environ |= {"CUDA_VISIBLE_DEVICES": "-1", "JAX_PLATFORMS": "cpu"}
    about, memory = describe(args)
    write({"part": "machine", **about})
    with tempfile.TemporaryDirectory() as folder:
        text = prepare_text(args, Path(folder))
        facts = {k: v for k, v in text.items() if k not in ("sources", "pieces", "ids")}
        if "training" in args.only:
            write({"part": "training", **facts})
        schedule = Schedule(
            [g for part in args.only for g in GROUPS[part](args, Path(folder), text)],
            Path(folder),
            write,
            start + 60 * args.minutes,
            memory,
            available_cores() * 5 // 4,
            args.limit,
        )
        schedule.run()
    return records


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", nargs="+", type=Path, help="print the tables of these files")
    parser.add_argument("--minutes", type=float, default=6, help="when all ends (default 6)")
    parser.add_argument("--output", type=Path, default=Path("gpu.jsonl"), help="file of results")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--source", help="text to train on, or .gz")
    parser.add_argument("--target", help="its translations, line by line")
    parser.add_argument("--test", help="sentences for the shipped model")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--models", nargs="+", choices=list(PRESETS), default=["base", "big"])
    parser.add_argument("--vocab-size", type=int, default=8000, help="for training (8000)")
    parser.add_argument("--vocabularies", nargs="+", type=int, default=[8000, 37_000])
    parser.add_argument("--lengths", nargs="+", type=int, default=[20, 60], help="of translations")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=BATCHES, help="of decoding")
    parser.add_argument("--sentences", type=int, default=1000, help="of --test")
    parser.add_argument("--batch-tokens", type=int, default=25_000, help="of a training batch")
    parser.add_argument("--batches", type=int, default=20, help="of a training pass (20)")
    parser.add_argument("--shapes", type=int, default=4, help="shapes of training batches (4)")
    parser.add_argument("--limit", type=float, default=240, help="seconds to prepare a part (240)")
    parser.add_argument("--steps", type=int, default=150, help="of an epoch of the whole run")
    parser.add_argument("--repeats", type=int, default=3, help="turns (3)")
    args = parser.parse_args(argv)
    if args.report:
        for path in args.report:
            lines = path.read_text(encoding="utf-8").splitlines()
            print(f"## {path.name}", *tables([json.loads(line) for line in lines]), sep="\n")
        return
    wrong = [part for part in args.only if part not in PARTS]
    if wrong or not (args.source and args.target and args.test):
        parser.error(f"give --source, --target and --test, and --only of {', '.join(PARTS)}")
    print(*tables(measure(args)), sep="\n")


if __name__ == "__main__":
    main()
